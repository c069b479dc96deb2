/*
 * One struct gpu per track with its feed-forward and its sums over test windows; one list of
 * targets for all. A test is what runs between two decisions: fresh guard, fresh window sums, a
 * base iteration per GPU from which the schedule counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/section/calibration.h"
#include "core/section/feed_forward.h"
#include "core/section/schedule.h"

/* Share of the tolerance that late raising may cost on average. */
static const double lateness_share = 0.2;
/* A reference probe for so many reference windows' worth of settled iterations, doubling. */
enum { SETTLED_STRETCH_MIN = 32, SETTLED_STRETCH_MAX = 2048 };
/* Settled iterations in a block that is compared with the reference; slower: a test decides. */
enum { SETTLED_BLOCK = 16, CHECK_SPACING_MIN = 64, CHECK_SPACING_MAX = 8192 };
/* Deviation of an iteration, as a share of the tolerance, that windows of one iteration would bear. */
static const double decisive_noise_share = 0.35;
/* Windows grow to this at most for short iterations, and for noisy ones. */
enum { WINDOW_MAX = 4000, NOISY_WINDOW_MAX = 30 };
/* Pairs of windows before and until a verdict. */
enum { MIN_PAIRS = 4, MAX_PAIRS = 14 };
/* Candidate iterations this much longer than the reference, in a row: no need to wait for pairs. */
static const double abort_ratio = 0.3;
enum { ABORT_ITERATIONS = 3 };
/* Throttled pairs set aside in a row before one is taken all the same. */
enum { MAX_SET_ASIDE = 3 };
/* A track that is still searching is waited for this many iterations of another one. */
enum { PATIENCE_ITERATIONS = 60 };
/* Forecasts need this many occurrences of a section. */
enum { MIN_OCCURRENCES = 3 };
/* Power samples on both sides before they may speak against a point. */
enum { MIN_POWER_SAMPLES = 8 };
/* Validity of a steady point; it is renewed at every iteration. */
static const int64_t steady_valid_ns = INT64_C(5000000000);

enum { WINDOWS_KEPT = 8, NO_TARGET = -1 };

struct window_sum {
    uint32_t window;
    bool complete;
    struct lull_quantile iterations_ms; /* measured ones; of a long window the last */
};

struct gpu {
    struct lull_track *track;
    uint32_t points;
    bool exited;
    bool failed;
    struct lull_switch_cost cost;
    struct lull_calibration calibration;
    struct lull_feed_forward feed;
    int32_t open_section;          /* -1 none */
    int32_t expected_section;      /* that `expected` is about, -1 none */
    struct lull_forecast expected; /* made while there is time: when the section before ends */
    int32_t target_of[LULL_TRACK_MAX_SECTIONS];
    struct lull_quantile reference_iterations_ms; /* the last ones at the reference */
    uint64_t base; /* iteration at which the running test starts */
    double reference_ms;      /* of its last reference window */
    uint32_t slow_iterations; /* in a row, at the candidate */
    struct window_sum windows[WINDOWS_KEPT];
    bool command_waits;
    struct lull_command command;
    int64_t steady_renew_ns;
};

struct lull_controller {
    struct lull_controller_config config;
    enum lull_controller_phase phase;
    uint32_t gpu_count;
    struct gpu gpus[LULL_CONTROLLER_MAX_GPUS];
    struct lull_target targets[LULL_CONTROLLER_MAX_TARGETS];
    uint32_t target_count;
    bool steady;
    int32_t current; /* target under test, -1 none */
    struct lull_guard guard;
    struct lull_guard settled_guard; /* all settled points against the reference */
    struct lull_schedule schedule;
    uint32_t settled_stretch;
    bool checking; /* settled, and a test whether the results still hold is under way */
    uint64_t check_spacing;
    uint64_t next_check; /* iteration of GPU 0 before which no check starts */
    struct lull_quantile block;
    uint32_t next_pair;
    bool tainted;
    uint32_t set_aside;
    uint64_t test_begin;
    uint64_t settled_after;
};

void lull_controller_config_default(struct lull_controller_config *config)
{
    *config = (struct lull_controller_config){
        .tolerance_ratio = 0.01,
        .confidence = 0.95,
        .strategy = LULL_DESCENT_BISECT,
        .window_ms = 300.0,
        .window_iterations = 5,
    };
}

struct lull_controller *lull_controller_create(const struct lull_controller_config *config,
                                               uint32_t gpu_count, const uint32_t *point_counts)
{
    struct lull_controller *controller = calloc(1, sizeof(*controller));

    if (controller == NULL)
        return NULL;
    controller->config = *config;
    controller->current = NO_TARGET;
    controller->settled_stretch = SETTLED_STRETCH_MIN;
    controller->check_spacing = CHECK_SPACING_MIN;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct gpu *gpu = &controller->gpus[i];

        gpu->track = lull_track_create();
        if (gpu->track == NULL) {
            lull_controller_destroy(controller);
            return NULL;
        }
        gpu->points = point_counts[i];
        gpu->open_section = -1;
        gpu->expected_section = -1;
        lull_feed_forward_init(&gpu->feed);
        lull_calibration_init(&gpu->calibration, i);
        controller->gpu_count++;
    }
    return controller;
}

void lull_controller_destroy(struct lull_controller *controller)
{
    if (controller == NULL)
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        lull_track_destroy(controller->gpus[i].track);
    free(controller);
}

/* ---- commands ---------------------------------------------------------------------------- */

static void post(struct lull_controller *controller, struct gpu *gpu, uint32_t point,
                 int64_t deadline_ns, int64_t valid_until_ns)
{
    if (gpu->failed && point != 0)
        return;
    gpu->command = (struct lull_command){
        .gpu = (uint32_t)(gpu - controller->gpus),
        .point = point,
        .deadline_ns = deadline_ns,
        .valid_until_ns = valid_until_ns,
    };
    gpu->command_waits = true;
}

/* Asks for what the feed-forward wants. */
static void post_feed(struct lull_controller *controller, struct gpu *gpu)
{
    post(controller, gpu, gpu->feed.requested, gpu->feed.deadline_ns, gpu->feed.valid_until_ns);
}

static void raise_now(struct lull_controller *controller, struct gpu *gpu)
{
    if (lull_feed_forward_raise(&gpu->feed) || lull_calibration_stop(&gpu->calibration))
        post_feed(controller, gpu);
}

/* ---- what is planned --------------------------------------------------------------------- */

static bool is_active(const struct gpu *gpu)
{
    struct lull_track_totals totals;

    lull_track_totals(gpu->track, &totals);
    return !gpu->exited && !gpu->failed && totals.calls > 0;
}

static bool is_known(const struct gpu *gpu)
{
    return lull_track_phase(gpu->track) == LULL_TRACK_KNOWN;
}

static uint32_t scale_point(uint32_t point, uint32_t from, uint32_t to)
{
    if (from == to || from < 2 || to < 2)
        return point < to ? point : to - 1;
    return (uint32_t)lround((double)point * (double)(to - 1) / (double)(from - 1));
}

uint32_t lull_controller_point_on(const struct lull_controller *controller, uint32_t gpu,
                                  const struct lull_target *target, uint32_t point)
{
    return scale_point(point, target->descent.count, controller->gpus[gpu].points);
}

static uint32_t planned_point(const struct lull_controller *controller, const struct gpu *gpu,
                              int32_t target_index, uint64_t iteration)
{
    const struct lull_target *target;
    uint32_t point;

    if (target_index == NO_TARGET || controller->phase == LULL_PHASE_LEARNING)
        return 0;
    if (iteration < gpu->base ||
        !lull_schedule_slot(&controller->schedule, iteration - gpu->base).candidate)
        return 0;
    target = &controller->targets[target_index];
    if (target_index == controller->current)
        point = target->descent.candidate;
    else
        point = target->settled ? target->descent.good : 0;
    return scale_point(point, target->descent.count, gpu->points);
}

static void forecast(const struct lull_controller *controller, const struct gpu *gpu,
                     const struct lull_section *section, struct lull_forecast *out)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const double iteration_ms = lull_track_iteration_ms(gpu->track)->mean;
    const double allowed_ms = controller->config.tolerance_ratio * lateness_share * iteration_ms /
                              (double)controller->gpu_count;
    const double call_ms = lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_UP, 0.5);

    *out = (struct lull_forecast){
        .length_ms = lull_quantile_get(&section->recent_length, 0.1),
        .gap_low_ms = lull_quantile_get(&section->recent_gap, 0.05),
        .gap_high_ms = lull_quantile_get(&section->recent_gap, 0.95),
        .ahead_ms = lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.1),
        /* The GPUs of a node queue in the driver: each starts one call before the next. */
        .lead_ms = lull_switch_cost_lead_ms(&gpu->cost, allowed_ms) + index * call_ms,
        .down_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5),
    };
}

/* ---- targets ----------------------------------------------------------------------------- */

static int32_t find_target(const struct lull_controller *controller, uint64_t signature)
{
    for (uint32_t i = 0; i < controller->target_count; i++)
        if (controller->targets[i].signature == signature)
            return (int32_t)i;
    return NO_TARGET;
}

static int32_t add_target(struct lull_controller *controller, uint64_t signature,
                          enum lull_descent_strategy strategy)
{
    struct lull_target *target;
    uint32_t points = 1;

    if (controller->target_count == LULL_CONTROLLER_MAX_TARGETS)
        return NO_TARGET;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].points > points)
            points = controller->gpus[i].points;
    target = &controller->targets[controller->target_count];
    *target = (struct lull_target){.signature = signature};
    lull_descent_init(&target->descent, strategy, points);
    target->settled = lull_descent_done(&target->descent);
    return (int32_t)controller->target_count++;
}

/* Finds which sections of this GPU are worth switching, and the target of each. */
static void map_sections(struct lull_controller *controller, struct gpu *gpu)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);

    for (uint32_t i = 0; i < count; i++) {
        struct lull_forecast expected;

        gpu->target_of[i] = find_target(controller, sections[i].signature);
        if (gpu->target_of[i] != NO_TARGET || sections[i].recent_length.count < MIN_OCCURRENCES)
            continue;
        forecast(controller, gpu, &sections[i], &expected);
        if (lull_forecast_pays(&expected))
            gpu->target_of[i] = add_target(controller, sections[i].signature,
                                           controller->config.strategy);
    }
}

/* Total time that the sections of a target take per iteration, over all GPUs. */
static double weight_ms(const struct lull_controller *controller, uint32_t target)
{
    double weight = 0.0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct gpu *gpu = &controller->gpus[i];
        uint32_t count;
        const struct lull_section *sections = lull_track_sections(gpu->track, &count);

        for (uint32_t j = 0; j < count; j++)
            if (gpu->target_of[j] == (int32_t)target)
                weight += sections[j].length_ms.mean;
    }
    return weight;
}

static int32_t next_target(const struct lull_controller *controller)
{
    int32_t best = NO_TARGET;
    double best_weight = -1.0;

    for (uint32_t i = 0; i < controller->target_count; i++) {
        double weight = weight_ms(controller, i);

        if (!controller->targets[i].settled && weight > best_weight) {
            best = (int32_t)i;
            best_weight = weight;
        }
    }
    return best;
}

/* ---- tests ------------------------------------------------------------------------------- */

/*
 * Iterations per window: at least what the user wants, and with noise as many more as let some eight
 * pairs decide. The spread is taken below the median, where hiccups of the host do not reach.
 */
static uint32_t window_iterations(const struct lull_controller *controller)
{
    const struct lull_quantile *recent = &controller->gpus[0].reference_iterations_ms;
    double median_ms = lull_quantile_get(recent, 0.5);
    double deviation = (median_ms - lull_quantile_get(recent, 0.1)) / (1.28 * median_ms);
    double ratio = deviation / (decisive_noise_share * controller->config.tolerance_ratio);
    double wanted = fmax(ceil(controller->config.window_ms / median_ms),
                         fmin(ceil(ratio * ratio), NOISY_WINDOW_MAX));

    if (!isfinite(wanted) || wanted < controller->config.window_iterations)
        return controller->config.window_iterations;
    return wanted > WINDOW_MAX ? WINDOW_MAX : (uint32_t)wanted;
}

static void begin_test(struct lull_controller *controller)
{
    struct lull_guard_config guard = {
        .tolerance_ratio = controller->config.tolerance_ratio,
        .confidence = controller->config.confidence,
        .min_pairs = MIN_PAIRS,
        .max_pairs = MAX_PAIRS,
        .abort_ratio = abort_ratio,
    };
    uint32_t iterations = window_iterations(controller);

    if (controller->steady && guard.tolerance_ratio > LULL_STEADY_TOLERANCE)
        guard.tolerance_ratio = LULL_STEADY_TOLERANCE;
    lull_guard_init(&controller->guard, &guard);
    controller->schedule = (struct lull_schedule){iterations, iterations, false};
    if (controller->phase == LULL_PHASE_SETTLED && !controller->checking) {
        controller->schedule.candidate_first = true;
        controller->schedule.candidate_iterations = iterations * controller->settled_stretch;
    }
    controller->block = (struct lull_quantile){0};
    controller->next_pair = 0;
    controller->tainted = false;
    controller->test_begin = lull_track_iteration(controller->gpus[0].track);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct gpu *gpu = &controller->gpus[i];

        gpu->base = lull_track_iteration(gpu->track) + 1;
        gpu->slow_iterations = 0;
        memset(gpu->windows, 0, sizeof(gpu->windows));
    }
}

/* A GPU with a single clock has nothing to calibrate and nothing to descend. */
static bool is_calibrated(const struct gpu *gpu)
{
    return gpu->points < 2 || lull_calibration_done(&gpu->calibration);
}

static bool all_ready(const struct lull_controller *controller)
{
    bool any_known = false;
    bool all_known = true;
    bool patience_over = false;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct gpu *gpu = &controller->gpus[i];

        if (!is_active(gpu))
            continue;
        if (!is_known(gpu)) {
            all_known = false;
            continue;
        }
        any_known = true;
        if (!is_calibrated(gpu) || lull_track_iteration(gpu->track) < MIN_OCCURRENCES)
            return false;
        if (lull_track_iteration(gpu->track) > PATIENCE_ITERATIONS)
            patience_over = true;
    }
    return any_known && (all_known || patience_over);
}

/* The job has changed under a steady point: has it sections worth switching now? */
static bool any_section_pays(const struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct gpu *gpu = &controller->gpus[i];
        uint32_t count;
        const struct lull_section *sections = lull_track_sections(gpu->track, &count);

        for (uint32_t j = 0; is_active(gpu) && is_known(gpu) && j < count; j++) {
            struct lull_forecast expected;

            forecast(controller, gpu, &sections[j], &expected);
            if (sections[j].recent_length.count >= MIN_OCCURRENCES && lull_forecast_pays(&expected))
                return true;
        }
    }
    return false;
}

/* Decides what to do next after anything has changed: a section known, lost, settled, a rank gone. */
static void reconsider(struct lull_controller *controller)
{
    bool afresh = controller->phase == LULL_PHASE_LEARNING;

    controller->checking = false;
    if (controller->config.observe_only || !all_ready(controller)) {
        controller->phase = LULL_PHASE_LEARNING;
        return;
    }
    if (controller->steady && afresh && any_section_pays(controller)) {
        controller->steady = false;
        controller->target_count = 0;
    }
    if (!controller->steady)
        for (uint32_t i = 0; i < controller->gpu_count; i++)
            if (is_active(&controller->gpus[i]) && is_known(&controller->gpus[i]))
                map_sections(controller, &controller->gpus[i]);
    if (controller->target_count == 0) {
        controller->steady = true;
        add_target(controller, 0, LULL_DESCENT_GALLOP);
    }
    controller->current = next_target(controller);
    controller->phase = controller->current == NO_TARGET ? LULL_PHASE_SETTLED
                                                         : LULL_PHASE_DESCENDING;
    if (controller->phase == LULL_PHASE_SETTLED && controller->settled_after == 0)
        controller->settled_after = lull_track_iteration(controller->gpus[0].track);
    begin_test(controller);
}

static void record(struct lull_controller *controller, struct lull_target *target,
                   enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;
    struct lull_descent_record *entry;

    lull_guard_estimate(&controller->guard, &estimate);
    if (target->record_count == LULL_CONTROLLER_MAX_HISTORY)
        return;
    entry = &target->records[target->record_count++];
    *entry = (struct lull_descent_record){
        .point = target->descent.candidate,
        .slowdown_ratio = estimate.slowdown_ratio,
        .upper_ratio = estimate.upper_ratio,
        .pairs = estimate.pairs,
        .iterations = (uint32_t)(lull_track_iteration(controller->gpus[0].track) -
                                 controller->test_begin),
        .verdict = verdict,
    };
}

static bool saves_nothing(const struct lull_target *target)
{
    return target->power_reference_w.count >= MIN_POWER_SAMPLES &&
           target->power_lowered_w.count >= MIN_POWER_SAMPLES &&
           target->power_lowered_w.mean >= target->power_reference_w.mean;
}

static void settle(struct lull_target *target)
{
    if (target->descent.good > 0 && saves_nothing(target)) {
        lull_descent_init(&target->descent, target->descent.strategy, 1);
        target->reason = LULL_REASON_SAVES_NOTHING;
    } else if (target->descent.good == target->descent.count - 1) {
        target->reason = LULL_REASON_LOWEST;
    } else {
        target->reason = LULL_REASON_DEGRADES_BELOW;
    }
    target->settled = true;
}

/* S224: the guard has spoken about the current candidate; S225, S226 and S227 are the descent's. */
static void conclude_test(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_target *target = &controller->targets[controller->current];

    record(controller, target, verdict);
    if (verdict == LULL_VERDICT_NOT_DEGRADED)
        controller->settled_guard = controller->guard;
    lull_descent_take(&target->descent, verdict);
    target->power_lowered_w = (struct lull_moments){0};
    if (lull_descent_done(&target->descent))
        settle(target);
    reconsider(controller);
}

static void back_off(struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->target_count; i++) {
        struct lull_target *target = &controller->targets[i];

        if (target->descent.good == 0)
            continue;
        lull_descent_back_off(&target->descent);
        target->settled = lull_descent_done(&target->descent);
    }
    controller->settled_stretch = SETTLED_STRETCH_MIN;
    controller->check_spacing = CHECK_SPACING_MIN;
    memset(&controller->settled_guard, 0, sizeof(controller->settled_guard));
    reconsider(controller);
}

/* Do the results still hold? Answered by a test like the descent's, at the settled points. */
static void begin_check(struct lull_controller *controller)
{
    controller->checking = true;
    begin_test(controller);
}

static void conclude_check(struct lull_controller *controller, enum lull_verdict verdict)
{
    controller->checking = false;
    if (verdict == LULL_VERDICT_DEGRADED) {
        back_off(controller);
        return;
    }
    controller->settled_guard = controller->guard;
    controller->next_check =
        lull_track_iteration(controller->gpus[0].track) + controller->check_spacing;
    if (controller->check_spacing < CHECK_SPACING_MAX)
        controller->check_spacing *= 2;
    begin_test(controller);
}

static bool may_check(const struct lull_controller *controller)
{
    return lull_track_iteration(controller->gpus[0].track) >= controller->next_check;
}

/* A long settled window and its short reference: evidence for the report, or a reason to check. */
static void watch_settled(struct lull_controller *controller, double reference_ms,
                          double candidate_ms)
{
    if (controller->settled_guard.log_ratios.count == 0)
        controller->settled_guard = controller->guard;
    lull_guard_add(&controller->settled_guard, reference_ms, candidate_ms);
    if (candidate_ms > reference_ms * (1.0 + controller->guard.config.tolerance_ratio) &&
        may_check(controller)) {
        begin_check(controller);
        return;
    }
    if (controller->settled_stretch < SETTLED_STRETCH_MAX)
        controller->settled_stretch *= 2;
    begin_test(controller);
}

/* Mean over the GPUs of a window that all of them have completed; 0 if one has not. */
static double joint_window(const struct lull_controller *controller, uint32_t window)
{
    double sum = 0.0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct window_sum *mine = &controller->gpus[i].windows[window % WINDOWS_KEPT];

        if (!is_active(&controller->gpus[i]) || !is_known(&controller->gpus[i]))
            continue;
        if (mine->window != window || !mine->complete || mine->iterations_ms.count == 0)
            return 0.0;
        sum += lull_quantile_lower_mean(&mine->iterations_ms);
        count++;
    }
    return count == 0 ? 0.0 : sum / count;
}

static void judge_pair(struct lull_controller *controller, double reference_ms,
                       double candidate_ms)
{
    enum lull_verdict verdict;

    controller->next_pair++;
    if (controller->tainted && controller->set_aside < MAX_SET_ASIDE) {
        controller->tainted = false;
        controller->set_aside++;
        return;
    }
    controller->tainted = false;
    controller->set_aside = 0;
    if (controller->phase == LULL_PHASE_SETTLED && !controller->checking) {
        watch_settled(controller, reference_ms, candidate_ms);
        return;
    }
    lull_guard_add(&controller->guard, reference_ms, candidate_ms);
    verdict = lull_guard_verdict(&controller->guard);
    if (verdict == LULL_VERDICT_UNDECIDED)
        return;
    if (controller->checking)
        conclude_check(controller, verdict);
    else
        conclude_test(controller, verdict);
}

static void look_for_pair(struct lull_controller *controller)
{
    uint32_t window = 2 * controller->next_pair;
    double first = joint_window(controller, window);
    double second = joint_window(controller, window + 1);

    if (first <= 0.0 || second <= 0.0)
        return;
    if ((window % 4 == 0) != controller->schedule.candidate_first)
        judge_pair(controller, first, second);
    else
        judge_pair(controller, second, first);
}

/* True if every active GPU has run clearly slow at the candidate: no need to wait for the guard. */
static bool is_hopeless(const struct lull_controller *controller)
{
    bool any = false;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct gpu *gpu = &controller->gpus[i];

        if (!is_active(gpu) || !is_known(gpu))
            continue;
        if (gpu->slow_iterations < ABORT_ITERATIONS)
            return false;
        any = true;
    }
    return any;
}

/* A settled block of GPU 0 that is slower than the reference: do not wait for the next probe. */
static void watch_block(struct lull_controller *controller, double reference_ms,
                        double iteration_ms)
{
    lull_quantile_add(&controller->block, iteration_ms);
    if (controller->block.count < SETTLED_BLOCK)
        return;
    if (lull_quantile_lower_mean(&controller->block) >
            reference_ms * (1.0 + controller->guard.config.tolerance_ratio) &&
        may_check(controller))
        begin_check(controller);
    controller->block = (struct lull_quantile){0};
}

static void note_iteration(struct lull_controller *controller, struct gpu *gpu,
                           double iteration_ms)
{
    uint64_t ended = lull_track_iteration(gpu->track) - 1;
    struct lull_schedule_slot slot;
    struct window_sum *window;
    double reference_ms;

    if (iteration_ms <= 0.0)
        return;
    if (controller->phase == LULL_PHASE_LEARNING)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    if (controller->phase == LULL_PHASE_LEARNING || ended < gpu->base)
        return;
    slot = lull_schedule_slot(&controller->schedule, ended - gpu->base);
    if (slot.measured && !slot.candidate)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    window = &gpu->windows[slot.window % WINDOWS_KEPT];
    if (window->window != slot.window)
        *window = (struct window_sum){.window = slot.window};
    if (slot.measured)
        lull_quantile_add(&window->iterations_ms, iteration_ms);
    window->complete = slot.window_ends;
    reference_ms = gpu->reference_ms;
    if (!slot.candidate && slot.window_ends)
        gpu->reference_ms = lull_quantile_lower_mean(&window->iterations_ms);
    if (slot.candidate && iteration_ms > (1.0 + abort_ratio) * reference_ms)
        gpu->slow_iterations++;
    else if (slot.candidate)
        gpu->slow_iterations = 0;
    if (controller->phase == LULL_PHASE_DESCENDING && is_hopeless(controller)) {
        lull_guard_add(&controller->guard, reference_ms, iteration_ms);
        conclude_test(controller, LULL_VERDICT_DEGRADED);
        return;
    }
    if (slot.window_ends)
        look_for_pair(controller);
    else if (slot.candidate && slot.measured && gpu == &controller->gpus[0] &&
             controller->phase == LULL_PHASE_SETTLED && !controller->checking)
        watch_block(controller, reference_ms, iteration_ms);
}

/* ---- calls ------------------------------------------------------------------------------- */

static void section_begins(struct lull_controller *controller, struct gpu *gpu, uint32_t index,
                           int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *section = &lull_track_sections(gpu->track, &count)[index];
    uint32_t point = planned_point(controller, gpu, gpu->target_of[index],
                                   lull_track_iteration(gpu->track));

    gpu->open_section = (int32_t)index;
    if (section->recent_length.count < MIN_OCCURRENCES)
        point = 0;
    if (gpu->expected_section != (int32_t)index)
        forecast(controller, gpu, section, &gpu->expected);
    if (!lull_feed_forward_begin(&gpu->feed, now_ns, point, &gpu->expected))
        return;
    post_feed(controller, gpu);
    gpu->command.answers_ns = point == 0 ? 0 : now_ns;
}

static void section_ends(struct lull_controller *controller, struct gpu *gpu, uint32_t index,
                         int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    uint32_t next = (index + 1) % count;
    uint64_t iteration = lull_track_iteration(gpu->track) + (next <= index ? 1 : 0);
    uint32_t point = planned_point(controller, gpu, gpu->target_of[next], iteration);

    gpu->open_section = -1;
    if (sections[next].recent_length.count < MIN_OCCURRENCES)
        point = 0;
    forecast(controller, gpu, &sections[next], &gpu->expected);
    gpu->expected_section = (int32_t)next;
    if (lull_feed_forward_end(&gpu->feed, now_ns, point, &gpu->expected))
        post_feed(controller, gpu);
}

static void apply_steady(struct lull_controller *controller, struct gpu *gpu, int64_t now_ns)
{
    uint32_t point = planned_point(controller, gpu, 0, lull_track_iteration(gpu->track));

    if (point == gpu->feed.requested && (point == 0 || now_ns < gpu->steady_renew_ns))
        return;
    gpu->feed.requested = point;
    gpu->steady_renew_ns = now_ns + steady_valid_ns / 4;
    post(controller, gpu, point, now_ns + steady_valid_ns, now_ns + steady_valid_ns);
}

static void forget_sections(struct gpu *gpu)
{
    gpu->open_section = -1;
    gpu->expected_section = -1;
    for (uint32_t i = 0; i < LULL_TRACK_MAX_SECTIONS; i++)
        gpu->target_of[i] = NO_TARGET;
}

void lull_controller_take_call(struct lull_controller *controller, uint32_t index,
                               const struct lull_call *call)
{
    struct gpu *gpu = &controller->gpus[index];
    struct lull_track_note note = lull_track_take(gpu->track, call);

    if (note.deviated || note.became_known)
        forget_sections(gpu);
    if (note.deviated) {
        raise_now(controller, gpu);
        reconsider(controller);
    }
    if (note.became_known && gpu->points > 1 && !controller->config.observe_only)
        lull_calibration_start(&gpu->calibration, call->time_ns);
    if (note.iteration_ended) {
        note_iteration(controller, gpu, note.iteration_ms);
        if (controller->phase == LULL_PHASE_LEARNING)
            reconsider(controller);
    }
    if (controller->steady) {
        if (note.iteration_ended)
            apply_steady(controller, gpu, call->time_ns);
        return;
    }
    if (lull_calibration_runs(&gpu->calibration))
        return;
    if (note.begun_section >= 0)
        section_begins(controller, gpu, (uint32_t)note.begun_section, call->time_ns);
    if (note.ended_section >= 0)
        section_ends(controller, gpu, (uint32_t)note.ended_section, call->time_ns);
}

void lull_controller_take_exit(struct lull_controller *controller, uint32_t index)
{
    struct gpu *gpu = &controller->gpus[index];

    if (gpu->exited)
        return;
    raise_now(controller, gpu);
    gpu->exited = true;
    if (controller->phase != LULL_PHASE_LEARNING)
        look_for_pair(controller);
}

bool lull_controller_take_start(struct lull_controller *controller, uint32_t index)
{
    struct gpu *gpu = &controller->gpus[index];
    struct lull_track *track = lull_track_create();

    if (track == NULL)
        return false;
    lull_track_destroy(gpu->track);
    gpu->track = track;
    gpu->exited = false;
    forget_sections(gpu);
    return true;
}

void lull_controller_take_switch(struct lull_controller *controller, uint32_t index,
                                 uint32_t point, double call_ms, double settle_ms, bool failed)
{
    struct gpu *gpu = &controller->gpus[index];

    if (failed) {
        gpu->failed = true;
        reconsider(controller);
        return;
    }
    lull_switch_cost_add(&gpu->cost, point == 0 ? LULL_DIRECTION_UP : LULL_DIRECTION_DOWN, call_ms,
                         settle_ms);
}

void lull_controller_take_throttle(struct lull_controller *controller, uint32_t index)
{
    if (is_active(&controller->gpus[index]))
        controller->tainted = true;
}

void lull_controller_take_power(struct lull_controller *controller, uint32_t index, double power_w)
{
    struct gpu *gpu = &controller->gpus[index];
    int32_t target = controller->steady ? 0 : NO_TARGET;

    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    if (gpu->open_section >= 0)
        target = gpu->target_of[gpu->open_section];
    if (target == NO_TARGET)
        return;
    if (gpu->feed.requested == 0)
        lull_moments_add(&controller->targets[target].power_reference_w, power_w);
    else
        lull_moments_add(&controller->targets[target].power_lowered_w, power_w);
}

/* ---- time -------------------------------------------------------------------------------- */

static void advance(struct lull_controller *controller, struct gpu *gpu, int64_t now_ns)
{
    uint32_t point;

    if (lull_calibration_poll(&gpu->calibration, now_ns, &point))
        post(controller, gpu, point, now_ns + lull_calibration_pulse_ns,
             now_ns + 2 * lull_calibration_pulse_ns);
    if (lull_feed_forward_poll(&gpu->feed, now_ns))
        post_feed(controller, gpu);
}

uint32_t lull_controller_poll(struct lull_controller *controller, int64_t now_ns,
                              struct lull_command *commands_out, uint32_t max)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct gpu *gpu = &controller->gpus[i];

        advance(controller, gpu, now_ns);
        if (gpu->command_waits && count < max) {
            commands_out[count++] = gpu->command;
            gpu->command_waits = false;
        }
    }
    return count;
}

int64_t lull_controller_wake_ns(const struct lull_controller *controller)
{
    int64_t wake_ns = INT64_MAX;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct gpu *gpu = &controller->gpus[i];
        int64_t feed_ns = lull_feed_forward_wake_ns(&gpu->feed);
        int64_t calibration_ns = lull_calibration_wake_ns(&gpu->calibration);

        if (gpu->command_waits)
            return 0;
        wake_ns = feed_ns < wake_ns ? feed_ns : wake_ns;
        wake_ns = calibration_ns < wake_ns ? calibration_ns : wake_ns;
    }
    return wake_ns;
}

/* ---- looking ----------------------------------------------------------------------------- */

enum lull_controller_phase lull_controller_phase(const struct lull_controller *controller)
{
    return controller->phase;
}

const struct lull_track *lull_controller_track(const struct lull_controller *controller,
                                               uint32_t gpu)
{
    return controller->gpus[gpu].track;
}

const struct lull_target *lull_controller_targets(const struct lull_controller *controller,
                                                  uint32_t *count_out)
{
    *count_out = controller->target_count;
    return controller->targets;
}

const struct lull_target *lull_controller_target_of(const struct lull_controller *controller,
                                                    uint32_t gpu, uint32_t section)
{
    int32_t target = controller->steady ? NO_TARGET : controller->gpus[gpu].target_of[section];

    return target == NO_TARGET ? NULL : &controller->targets[target];
}

bool lull_controller_is_switchable(const struct lull_controller *controller, uint32_t gpu,
                                   uint32_t section)
{
    return controller->gpus[gpu].target_of[section] != NO_TARGET;
}

bool lull_controller_is_steady(const struct lull_controller *controller)
{
    return controller->steady;
}

const struct lull_target *lull_controller_descending(const struct lull_controller *controller)
{
    return controller->current == NO_TARGET ? NULL : &controller->targets[controller->current];
}

void lull_controller_slowdown(const struct lull_controller *controller,
                              struct lull_guard_estimate *estimate_out)
{
    lull_guard_estimate(&controller->settled_guard, estimate_out);
}

uint64_t lull_controller_settled_after(const struct lull_controller *controller)
{
    return controller->settled_after;
}

const struct lull_switch_cost *lull_controller_switch_cost(const struct lull_controller *controller,
                                                           uint32_t gpu)
{
    return &controller->gpus[gpu].cost;
}
