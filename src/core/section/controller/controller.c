/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/smaller.h"
#include "core/section/controller/state.h"

/* How long a steady point is valid; it is renewed after a quarter of that. Chosen, not measured. */
static const int64_t steady_valid_ns = INT64_C(5000000000);
/* How much slower computation runs: at low clocks nothing is assumed to run at all; one step below
 * the highest clock it is about a hundredth slower. */
static const double deep_loss = 1.0;
static const double step_loss = 0.01;
/* What a call takes is planned with this quantile of those seen, and before any has been seen with
 * the median of what is known beforehand. docs/latency.md has what a recorded job saves with them
 * on one to eight GPUs. */
static const double planned_call = 0.75;
static const double planned_prior = 0.5;
/* Time low that a lowering must win for the node to be worth its calls. Chosen, not measured. */
static const int64_t least_gain_ns = INT64_C(1000000);

/* Throttled pairs set aside in a row before one is taken all the same. Chosen, not measured. */
enum { MAX_SET_ASIDE = 3 };
/* Blocks at what is kept for each at the reference, before they have been doubled and at most.
 * Chosen, not measured. */
enum { FIRST_STRETCH = 32, LONGEST_STRETCH = 2048 };
/* The blocks of a check are twice as long as those of the check before, up to this factor: harm may
 * need many iterations in a row. Chosen, not measured. */
enum { CHECK_FACTOR_MAX = 8 };
/* Points that are given up at once, at most, after one failed proof more. */
enum { BACK_OFF_MAX = 16 };
/* Iterations between two checks, at first and at most. Chosen, not measured. */
enum { FIRST_CHECK_SPACING = 64, LONGEST_CHECK_SPACING = 8192 };
/* With a deviation of iterations of the first share of the tolerance blocks of a single iteration
 * would do; with less than the second share iterations count as steady. Chosen, not measured. */
static const double decisive_noise_share = 0.35;
static const double steady_noise_share = 0.1;
/* Iterations per block: at most if they are short, at most because of noise, and at least if they
 * are steady. Chosen, not measured. */
enum { WINDOW_MAX = 4000, NOISY_WINDOW_MAX = 12, STEADY_WINDOW = 2 };
/* Blocks of a screen are shorter than those of a proof by this factor where other nodes take part.
 * Chosen, not measured. */
enum { SCREEN_SHARE = 4 };
/* A track that is still searching is waited for this many iterations of another one. Chosen, not
 * measured. */
enum { PATIENCE_ITERATIONS = 60 };

void lull_controller_config_default(struct lull_controller_config *config)
{
    *config = (struct lull_controller_config){
        .tolerance_ratio = 0.01,
        .steady_tolerance_ratio = LULL_STEADY_TOLERANCE,
        .confidence = LULL_GUARD_CONFIDENCE,
        .strategy = LULL_DESCENT_BISECT,
        .window_ms = 300.0,
        .window_iterations = 2,
    };
}

/* Sets up the objects that answer when, whether and where to switch. */
static void init_switching(struct lull_controller *controller)
{
    const struct lull_controller_config *config = &controller->config;
    const struct lull_driver_queue_config queue = {
        .gpu_count = controller->gpu_count,
        .planned_quantile = planned_call,
        .prior_quantile = planned_prior,
        .prior = &controller->gpus[0].cost,
        .least_gain_ns = least_gain_ns,
    };
    struct lull_trial_config trial = {
        .rank_count = controller->gpu_count,
        .confidence = config->confidence,
        .tail_tolerance_ratio = config->tail_tolerance_ratio,
        .seed = config->seed,
        .most_set_aside = MAX_SET_ASIDE,
        .first_stretch = FIRST_STRETCH,
        .most_stretch = LONGEST_STRETCH,
        .is_aligned = config->together,
    };

    /* Peers must go on measuring in the same iterations, and cannot check: see may_check(). */
    if (config->together)
        trial.most_stretch = 0;
    lull_driver_queue_init(&controller->queue, &queue);
    lull_trial_init(&controller->trial, &trial, controller->ranks);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        controller->ranks[i].losses.rate = config->tolerance_ratio;
    lull_targets_init(&controller->targets, config, controller->gpus, controller->gpu_count);
    lull_controller_init_allowance(controller);
}

struct lull_controller *lull_controller_create(const struct lull_controller_config *config,
                                               uint32_t gpu_count, const uint32_t *point_counts)
{
    struct lull_controller *controller = calloc(1, sizeof(*controller));

    assert(gpu_count >= 1 && gpu_count <= LULL_CONTROLLER_MAX_GPUS);
    if (controller == NULL)
        return NULL;
    controller->config = *config;
    controller->check_spacing = FIRST_CHECK_SPACING;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        gpu->track = lull_track_create(true);
        if (gpu->track == NULL) {
            lull_controller_destroy(controller);
            return NULL;
        }
        gpu->points = point_counts[i];
        gpu->model = UINT32_MAX;
        gpu->fold = 1;
        gpu->open_section = -1;
        gpu->expected_section = -1;
        gpu->low_section = -1;
        gpu->ahead_section = -1;
        lull_feed_forward_init(&gpu->feed);
        lull_switch_calibration_init(&gpu->calibration, i);
        controller->gpu_count++;
    }
    init_switching(controller);
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

/* ---- tests ------------------------------------------------------------------------------- */

/* This many of the job's iterations in iterations of the track, which may stand for several. */
static uint32_t of_track(const struct lull_controller *controller, uint32_t iterations)
{
    const uint32_t fold = controller->gpus[0].fold;

    return (iterations + fold - 1) / fold;
}

/*
 * Iterations per block: as many as take the least time that the user wants, and with noise as many
 * more as let some eight pairs decide. The spread is taken below the median, where hiccups of the
 * host do not reach.
 */
static double wanted_iterations(const struct lull_controller *controller, double *noise_out)
{
    const struct lull_quantile *recent = &controller->gpus[0].reference_iterations_ms;
    const double median_ms = lull_quantile_get(recent, 0.5);
    const double deviation = (median_ms - lull_quantile_get(recent, 0.1)) / (1.28 * median_ms);
    double wanted;

    *noise_out = deviation / (decisive_noise_share * controller->config.tolerance_ratio);
    wanted = fmax(ceil(controller->config.window_ms / median_ms),
                  fmin(ceil(*noise_out * *noise_out), NOISY_WINDOW_MAX));
    if (controller->config.tail_tolerance_ratio > 0.0)
        wanted = fmin(fmax(wanted, LULL_UPPER_TAIL_LEAST), LULL_UPPER_TAIL_MOST);
    return wanted;
}

static uint32_t at_least(double wanted, uint32_t least)
{
    if (!isfinite(wanted) || wanted < least)
        return least;
    return (uint32_t)fmin(wanted, WINDOW_MAX);
}

/* Of a proof, a check or a watch: at least as many as the user wants. */
uint32_t lull_controller_window(const struct lull_controller *controller)
{
    const struct lull_quantile *recent = &controller->gpus[0].reference_iterations_ms;
    uint32_t least = of_track(controller, controller->config.window_iterations);
    double noise;
    const double wanted = wanted_iterations(controller, &noise);

    if (recent->count >= LULL_TRACK_LEARN_ITERATIONS && noise < steady_noise_share)
        least = of_track(controller, STEADY_WINDOW);
    return at_least(wanted, least);
}

/* A longer iteration costs energy as well, so a steady point may cost less time than the user
 * allows. So do the clocks of gaps. But this is only a matter of profit, judged by the
 * estimate: noise that hides such a small slowdown must not keep them high. */
static double worth_of(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    double most = 0.0;

    if (targets->steady)
        most = controller->config.steady_tolerance_ratio;
    else if (targets->current != LULL_CONTROLLER_NO_TARGET &&
             targets->list[targets->current].of_gaps)
        most = LULL_GAP_WORTH;
    return fmin(most, controller->config.tolerance_ratio);
}

/* With other nodes a power of two, so that all of them choose the same. */
static uint32_t block_iterations(const struct lull_controller *controller,
                                 enum lull_trial_kind kind)
{
    const uint32_t own = lull_controller_window(controller);
    uint32_t iterations = 1;
    uint32_t factor = 1;
    double noise;

    if (controller->config.together) {
        while (iterations < own || iterations < controller->aligned_window)
            iterations *= 2;
        if (kind == LULL_TRIAL_SCREEN)
            iterations = lull_larger_u32(iterations / SCREEN_SHARE, STEADY_WINDOW);
        return lull_smaller_u32(iterations, WINDOW_MAX);
    }
    if (kind == LULL_TRIAL_SCREEN)
        return at_least(wanted_iterations(controller, &noise), of_track(controller, STEADY_WINDOW));
    if (kind != LULL_TRIAL_CHECK)
        return own;
    for (uint32_t i = 0; i < controller->acquittals && factor < CHECK_FACTOR_MAX; i++)
        factor *= 2;
    return lull_smaller_u32(
        lull_larger_u32(own * factor, lull_trial_telling_block(&controller->trial)), WINDOW_MAX);
}

/* A fresh trial: guards, pairs, and the iteration from which the schedule counts. */
static void begin_trial(struct lull_controller *controller, enum lull_trial_kind kind)
{
    struct lull_trial_terms terms = {
        .tolerance_ratio = controller->config.tolerance_ratio,
        .worth_ratio = worth_of(controller),
        .loss_ratio = controller->config.tolerance_ratio,
    };

    assert(controller->phase != LULL_PHASE_LEARNING);
    /* Where nothing is lowered nothing can be lost. */
    if (kind == LULL_TRIAL_WATCH && !lull_targets_are_lowered(&controller->targets))
        terms.loss_ratio = 0.0;
    lull_trial_begin(&controller->trial, kind, &terms, block_iterations(controller, kind),
                     lull_controller_present(controller));
    controller->trial_begin = lull_track_iteration(controller->gpus[0].track);
    lull_controller_place_test(controller);
}

/* ---- what to do next --------------------------------------------------------------------- */

/* A GPU with a single clock has nothing to calibrate and nothing to descend. */
static bool is_calibrated(const struct lull_controlled_gpu *gpu)
{
    return gpu->points < 2 || lull_switch_calibration_done(&gpu->calibration);
}

static bool all_ready(const struct lull_controller *controller)
{
    bool any_known = false;
    bool all_known = true;
    bool patience_over = false;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!lull_controller_is_active(gpu))
            continue;
        if (!lull_controller_is_known(gpu)) {
            all_known = false;
            continue;
        }
        any_known = true;
        if (!is_calibrated(gpu) ||
            lull_track_iteration(gpu->track) < LULL_CONTROLLER_MIN_OCCURRENCES)
            return false;
        if (lull_track_iteration(gpu->track) > PATIENCE_ITERATIONS)
            patience_over = true;
    }
    return any_known && (all_known || patience_over);
}

/* Finds which sections have which target now; if none has, one steady point is sought. */
static void map_targets(struct lull_controller *controller, bool afresh)
{
    struct lull_targets *targets = &controller->targets;

    if (targets->steady && afresh && !controller->config.only_steady &&
        lull_controller_any_section_pays(controller)) {
        targets->steady = false;
        targets->count = 0;
    }
    if (!targets->steady && !controller->config.only_steady)
        for (uint32_t i = 0; i < controller->gpu_count; i++)
            if (lull_controller_takes_part(&controller->gpus[i]))
                lull_controller_map_sections(controller, &controller->gpus[i]);
    if (targets->count == 0) {
        targets->steady = true;
        lull_targets_add(targets, 0, LULL_DESCENT_GALLOP);
    }
}

/* Decides what to do next after anything has changed: a section known, lost, settled, a rank gone.
 */
static void reconsider(struct lull_controller *controller)
{
    const bool afresh = controller->phase == LULL_PHASE_LEARNING;

    if (controller->config.observe_only || controller->held || controller->queue.suspended ||
        !all_ready(controller)) {
        controller->phase = LULL_PHASE_LEARNING;
        return;
    }
    map_targets(controller, afresh);
    lull_controller_apply_refusals(controller);
    controller->targets.current = lull_targets_next(&controller->targets);
    if (controller->targets.current != LULL_CONTROLLER_NO_TARGET) {
        controller->phase = LULL_PHASE_DESCENDING;
        begin_trial(controller, LULL_TRIAL_SCREEN);
        return;
    }
    if (!controller->is_proven && lull_targets_are_lowered(&controller->targets)) {
        controller->phase = LULL_PHASE_DESCENDING;
        begin_trial(controller, LULL_TRIAL_PROOF);
        return;
    }
    controller->phase = LULL_PHASE_SETTLED;
    if (controller->settled_after == 0)
        controller->settled_after = lull_track_iteration(controller->gpus[0].track);
    begin_trial(controller, LULL_TRIAL_WATCH);
}

void lull_controller_agree(struct lull_controller *controller, uint32_t index,
                           uint32_t agreed_point, uint64_t from_iteration, uint32_t refused_point)
{
    if (lull_controller_set_agreed(controller, index, agreed_point, from_iteration, refused_point))
        reconsider(controller);
}

/* ---- what the trial has found ------------------------------------------------------------ */

static void record(struct lull_controller *controller, struct lull_target *target,
                   enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;
    struct lull_descent_record *entry;

    lull_trial_estimate_test(&controller->trial, &estimate);
    if (target->record_count == LULL_CONTROLLER_MAX_HISTORY)
        return;
    entry = &target->records[target->record_count++];
    *entry = (struct lull_descent_record){
        .point = lull_controller_candidate(target),
        .gpu = target->turn,
        .slowdown_ratio = estimate.slowdown_ratio,
        .upper_ratio = estimate.upper_ratio,
        .pairs = estimate.pairs,
        .iterations =
            (uint32_t)(lull_track_iteration(controller->gpus[0].track) - controller->trial_begin),
        .verdict = verdict,
    };
}

/* What is settled changes: whatever has been proven of it before holds no more. */
static void forget_proof(struct lull_controller *controller)
{
    controller->is_proven = false;
    controller->acquittals = 0;
    lull_trial_drop_kept(&controller->trial);
}

/* The screen of the target under test has come out: the patent's steps S225 to S227. */
static void conclude_screen(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_target *target;

    assert(controller->targets.current != LULL_CONTROLLER_NO_TARGET);
    target = &controller->targets.list[controller->targets.current];
    record(controller, target, verdict);
    lull_trial_change_point(&controller->trial);
    if (verdict == LULL_VERDICT_NOT_DEGRADED)
        forget_proof(controller);
    target->power_lowered_w = (struct lull_moments){0};
    lull_targets_conclude(&controller->targets, target, verdict);
    reconsider(controller);
}

/* What is settled hurts after all, or cannot be proven harmless. Where screens do not see what
 * proofs see, the next proof must not be only one point higher. */
static void back_off(struct lull_controller *controller)
{
    const uint32_t points = UINT32_C(1) << lull_smaller_u32(controller->failures, 4);

    assert(points <= BACK_OFF_MAX);
    lull_targets_back_off(&controller->targets, points);
    lull_trial_change_point(&controller->trial);
    forget_proof(controller);
    controller->failures++;
    controller->check_spacing = FIRST_CHECK_SPACING;
    reconsider(controller);
}

static void conclude_proof(struct lull_controller *controller, enum lull_verdict verdict)
{
    if (verdict != LULL_VERDICT_NOT_DEGRADED) {
        back_off(controller);
        return;
    }
    lull_trial_keep(&controller->trial);
    controller->is_proven = true;
    controller->failures = 0;
    reconsider(controller);
}

/* What is not proven again is kept as long as it does not look slower than is tolerated. */
static void conclude_check(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;

    lull_trial_estimate_test(&controller->trial, &estimate);
    if (verdict == LULL_VERDICT_DEGRADED ||
        (verdict == LULL_VERDICT_UNPROVEN &&
         estimate.slowdown_ratio > controller->config.tolerance_ratio)) {
        back_off(controller);
        return;
    }
    lull_trial_keep(&controller->trial);
    controller->acquittals++;
    controller->next_check =
        lull_track_iteration(controller->gpus[0].track) + controller->check_spacing;
    if (controller->check_spacing < LONGEST_CHECK_SPACING)
        controller->check_spacing *= 2;
    begin_trial(controller, LULL_TRIAL_WATCH);
}

static void conclude(struct lull_controller *controller, enum lull_verdict verdict)
{
    switch (controller->trial.kind) {
    case LULL_TRIAL_SCREEN:
        conclude_screen(controller, verdict);
        break;
    case LULL_TRIAL_PROOF:
        conclude_proof(controller, verdict);
        break;
    case LULL_TRIAL_CHECK:
        conclude_check(controller, verdict);
        break;
    case LULL_TRIAL_WATCH:
        assert(false && "a watch gives no verdicts");
    }
}

/*
 * With other nodes there are no checks: a node that goes to the reference alone sees nothing if
 * another one holds the job up. There the watched pairs, which are the same on all, decide.
 */
static bool may_check(const struct lull_controller *controller)
{
    return !controller->config.together && lull_targets_are_lowered(&controller->targets) &&
           lull_track_iteration(controller->gpus[0].track) >= controller->next_check;
}

/* The next stretch of what is settled, longer than the one before. */
static void go_on_watching(struct lull_controller *controller)
{
    lull_trial_lengthen(&controller->trial);
    begin_trial(controller, LULL_TRIAL_WATCH);
}

static void act_on(struct lull_controller *controller, enum lull_trial_result result)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        conclude(controller, LULL_VERDICT_NOT_DEGRADED);
        break;
    case LULL_TRIAL_DEGRADED:
        conclude(controller, LULL_VERDICT_DEGRADED);
        break;
    case LULL_TRIAL_UNPROVEN:
        conclude(controller, LULL_VERDICT_UNPROVEN);
        break;
    case LULL_TRIAL_HURTS:
        back_off(controller);
        break;
    case LULL_TRIAL_SPENT:
        if (lull_trial_affords_check(&controller->trial))
            begin_trial(controller, LULL_TRIAL_CHECK);
        else
            back_off(controller);
        break;
    case LULL_TRIAL_HOLDS:
        go_on_watching(controller);
        break;
    case LULL_TRIAL_SLOW_PAIR:
        if (may_check(controller))
            begin_trial(controller, LULL_TRIAL_CHECK);
        else
            go_on_watching(controller);
        break;
    case LULL_TRIAL_SLOW_BLOCK:
        if (may_check(controller))
            begin_trial(controller, LULL_TRIAL_CHECK);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SET_ASIDE:
        break;
    }
}

/* An iteration of this GPU's rank has ended: it may complete a block, a pair, a verdict. */
static void take_iteration(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                           double iteration_ms)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const uint64_t ended = lull_track_iteration(gpu->track) - 1;
    struct lull_pair_slot slot;

    if (iteration_ms <= 0.0)
        return;
    if (controller->phase == LULL_PHASE_LEARNING) {
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
        lull_trial_take_unplaced(&controller->trial, index, iteration_ms,
                                 !lull_switch_calibration_runs(&gpu->calibration));
        return;
    }
    if (!lull_trial_slot(&controller->trial, index, ended, &slot)) {
        lull_trial_take_unplaced(&controller->trial, index, iteration_ms,
                                 ended > controller->trial_begin);
        return;
    }
    if (slot.measured && !slot.candidate)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    act_on(controller, lull_trial_add(&controller->trial, index, &slot, iteration_ms,
                                      lull_controller_present(controller)));
}

/* ---- trust ------------------------------------------------------------------------------- */

static uint32_t active_count(const struct lull_controller *controller)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++)
        count += lull_controller_is_active(&controller->gpus[i]);
    return lull_larger_u32(count, 1);
}

/* The longest section of all GPUs. Sections are looked at only where a call or wait of `ms` may be
 * too long; else the result is 0. */
static double longest_section_ms(const struct lull_controller *controller, double ms)
{
    double longest_ms = 0.0;

    if (ms <= lull_call_trust_limit_ms(0.0, 1))
        return 0.0;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        uint32_t count;
        const struct lull_section *sections =
            lull_track_sections(controller->gpus[i].track, &count);

        for (uint32_t j = 0; j < count; j++)
            longest_ms = fmax(longest_ms, sections[j].length_ms.mean);
    }
    return longest_ms;
}

/* Begins pulses on GPUs whose sections are known; on others they begin as soon as these are known.
 */
static void prove_anew(struct lull_controller *controller)
{
    controller->went_deep = false;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        lull_switch_calibration_forget(&gpu->calibration);
        if (gpu->points > 1 && lull_controller_takes_part(gpu))
            lull_switch_calibration_start(&gpu->calibration, controller->now_ns);
    }
}

/* While the driver is not trusted everything is raised, and no test runs. */
static void act_on_driver(struct lull_controller *controller, enum lull_driver_change change)
{
    switch (change) {
    case LULL_DRIVER_SUSPENDED:
        lull_controller_raise_all(controller);
        reconsider(controller);
        break;
    case LULL_DRIVER_RESUMED:
        prove_anew(controller);
        break;
    case LULL_DRIVER_UNCHANGED:
        break;
    }
}

void lull_controller_take_blocked(struct lull_controller *controller, uint32_t gpu,
                                  double blocked_ms)
{
    const double longest_ms = longest_section_ms(controller, blocked_ms);

    lull_switch_calibration_take_call(&controller->gpus[gpu].calibration, controller->now_ns);
    act_on_driver(controller,
                  lull_driver_queue_take_blocked(&controller->queue, controller->now_ns, blocked_ms,
                                                 longest_ms, active_count(controller),
                                                 controller->went_deep ? deep_loss : step_loss));
}

void lull_controller_take_waiting(struct lull_controller *controller, double waiting_ms)
{
    act_on_driver(controller,
                  lull_driver_queue_take_waiting(&controller->queue, controller->now_ns, waiting_ms,
                                                 longest_section_ms(controller, waiting_ms)));
}

/* ---- calls ------------------------------------------------------------------------------- */

static void section_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                           uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *section = &lull_track_sections(gpu->track, &count)[index];
    uint32_t point = lull_controller_planned_point(controller, gpu, gpu->target_of[index],
                                                   lull_track_iteration(gpu->track));

    gpu->open_section = (int32_t)index;
    if (section->recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        point = 0;
    if (gpu->expected_section != (int32_t)index)
        lull_controller_forecast(controller, gpu, section, &gpu->expected);
    if (!lull_feed_forward_begin(&gpu->feed, now_ns, point, &gpu->expected))
        return;
    lull_controller_post_feed(controller, gpu);
    gpu->command.answers_ns = point == 0 ? 0 : now_ns;
}

static void section_ends(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    uint32_t next = (index + 1) % count;
    uint64_t iteration = lull_track_iteration(gpu->track) + (next <= index);
    uint32_t point =
        lull_controller_planned_point(controller, gpu, gpu->target_of[next], iteration);

    gpu->open_section = -1;
    if (sections[next].recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        point = 0;
    lull_controller_forecast(controller, gpu, &sections[next], &gpu->expected);
    gpu->expected_section = (int32_t)next;
    if (lull_feed_forward_end(&gpu->feed, now_ns, point, &gpu->expected))
        lull_controller_post_feed(controller, gpu);
}

static void take_section(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         const struct lull_track_note *note, int64_t now_ns)
{
    if (note->begun_section >= 0)
        section_begins(controller, gpu, (uint32_t)note->begun_section, now_ns);
    if (note->ended_section >= 0)
        section_ends(controller, gpu, (uint32_t)note->ended_section, now_ns);
}

static void take_gap(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                     const struct lull_track_note *note, int64_t now_ns)
{
    if (note->begun_section >= 0)
        lull_controller_gap_begins(controller, gpu, (uint32_t)note->begun_section, now_ns);
    if (note->ended_section >= 0)
        lull_controller_gap_ends(controller, gpu, (uint32_t)note->ended_section, now_ns);
}

static void apply_steady(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                         int64_t now_ns)
{
    uint32_t point =
        lull_controller_planned_point(controller, gpu, 0, lull_track_iteration(gpu->track));

    if (point == gpu->feed.requested && (point == 0 || now_ns < gpu->steady_renew_ns))
        return;
    gpu->feed.requested = point;
    gpu->steady_renew_ns = now_ns + steady_valid_ns / 4;
    lull_controller_post(controller, gpu, point, now_ns + steady_valid_ns,
                         now_ns + steady_valid_ns);
}

void lull_controller_take_call(struct lull_controller *controller, uint32_t index,
                               const struct lull_call *call)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track_note note = lull_track_take(gpu->track, call);

    controller->now_ns = call->time_ns;
    if (note.deviated || note.became_known)
        lull_controller_forget_sections(gpu);
    if (note.deviated) {
        lull_trial_forget_level(&controller->trial, index);
        lull_controller_raise_now(controller, gpu);
        reconsider(controller);
    }
    if (note.became_known && gpu->points > 1 && !controller->config.observe_only &&
        !controller->queue.suspended)
        lull_switch_calibration_start(&gpu->calibration, call->time_ns);
    if (note.iteration_ended) {
        lull_allowance_earn(&controller->late, gpu->fold);
        gpu->late_now = 0;
        take_iteration(controller, gpu, note.iteration_ms);
        if (controller->phase == LULL_PHASE_LEARNING)
            reconsider(controller);
    }
    if (controller->targets.steady) {
        if (note.iteration_ended)
            apply_steady(controller, gpu, call->time_ns);
        return;
    }
    if (lull_switch_calibration_runs(&gpu->calibration))
        return;
    gpu->has_gaps = call->place != 0 && !controller->config.reactive;
    if (gpu->has_gaps)
        take_gap(controller, gpu, &note, call->time_ns);
    else
        take_section(controller, gpu, &note, call->time_ns);
}

void lull_controller_take_fold(struct lull_controller *controller, uint32_t index, uint32_t fold)
{
    controller->gpus[index].fold = fold;
}

void lull_controller_take_exit(struct lull_controller *controller, uint32_t index)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];

    if (gpu->exited)
        return;
    lull_controller_raise_now(controller, gpu);
    gpu->exited = true;
    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    act_on(controller,
           lull_trial_leave(&controller->trial, index, lull_controller_present(controller)));
}

void lull_controller_hold(struct lull_controller *controller, bool held)
{
    if (held == controller->held)
        return;
    controller->held = held;
    if (held)
        lull_controller_raise_all(controller);
    reconsider(controller);
}

bool lull_controller_take_start(struct lull_controller *controller, uint32_t index)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_track *track = lull_track_create(true);

    if (track == NULL)
        return false;
    lull_track_destroy(gpu->track);
    gpu->track = track;
    gpu->exited = false;
    lull_controller_forget_sections(gpu);
    /* What has been proven of the rank before says nothing of this one. */
    forget_proof(controller);
    return true;
}

void lull_controller_take_switch(struct lull_controller *controller, uint32_t index,
                                 const struct lull_switch_outcome *outcome)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];

    if (outcome->failed) {
        gpu->failed = true;
        reconsider(controller);
        return;
    }
    lull_switch_calibration_take_call(&gpu->calibration, controller->now_ns);
    if (!lull_switch_calibration_runs(&gpu->calibration))
        lull_controller_note_clock(controller, gpu, outcome);
    /* Times of a suspended driver tell nothing of it once it has proven itself anew. */
    if (controller->queue.suspended)
        return;
    lull_driver_queue_learn_call(&controller->queue, outcome->driver_ms);
    lull_controller_learn_cost(controller, gpu, outcome);
}

void lull_controller_take_throttle(struct lull_controller *controller, uint32_t index)
{
    if (lull_controller_is_active(&controller->gpus[index]))
        lull_trial_disturb(&controller->trial);
}

void lull_controller_take_power(struct lull_controller *controller, uint32_t index, double power_w)
{
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    int32_t target = controller->targets.steady ? 0 : LULL_CONTROLLER_NO_TARGET;

    if (controller->phase == LULL_PHASE_LEARNING)
        return;
    if (gpu->open_section >= 0)
        target = gpu->target_of[gpu->open_section];
    if (target == LULL_CONTROLLER_NO_TARGET)
        return;
    if (gpu->feed.requested == 0)
        lull_moments_add(&controller->targets.list[target].power_reference_w, power_w);
    else
        lull_moments_add(&controller->targets.list[target].power_lowered_w, power_w);
}

/* ---- time -------------------------------------------------------------------------------- */

static void advance(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                    int64_t now_ns)
{
    uint32_t point;

    if (lull_switch_calibration_poll(&gpu->calibration, now_ns, controller->queue.waiting_ms > 0.0,
                                     &point))
        lull_controller_post(controller, gpu, point, now_ns + lull_switch_calibration_pulse_ns,
                             now_ns + 2 * lull_switch_calibration_pulse_ns);
    if (!gpu->has_gaps && lull_feed_forward_poll(&gpu->feed, now_ns))
        lull_controller_post_feed(controller, gpu);
}

uint32_t lull_controller_poll(struct lull_controller *controller, int64_t now_ns,
                              struct lull_command *commands_out, uint32_t max)
{
    uint32_t count = 0;

    controller->now_ns = now_ns;
    act_on_driver(controller, lull_driver_queue_update_trust(&controller->queue, now_ns));
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        advance(controller, &controller->gpus[i], now_ns);
    lull_controller_poll_gaps(controller, now_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (gpu->command_waits && count < max) {
            commands_out[count++] = gpu->command;
            gpu->command_waits = false;
        }
    }
    return count;
}

int64_t lull_controller_wake_ns(const struct lull_controller *controller)
{
    const int64_t gaps_ns = lull_controller_gaps_wake_ns(controller);
    const int64_t trust_ns = lull_driver_queue_wake_ns(&controller->queue);
    int64_t wake_ns = lull_earlier_ns(gaps_ns, trust_ns);

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        int64_t feed_ns = gpu->has_gaps ? INT64_MAX : lull_feed_forward_wake_ns(&gpu->feed);
        int64_t calibration_ns = lull_switch_calibration_wake_ns(&gpu->calibration);

        if (gpu->command_waits)
            return 0;
        wake_ns = lull_earlier_ns(feed_ns, wake_ns);
        wake_ns = lull_earlier_ns(calibration_ns, wake_ns);
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
    *count_out = controller->targets.count;
    return controller->targets.list;
}

const struct lull_target *lull_controller_target_of(const struct lull_controller *controller,
                                                    uint32_t gpu, uint32_t section)
{
    const int32_t target = controller->gpus[gpu].target_of[section];

    if (controller->targets.steady || target == LULL_CONTROLLER_NO_TARGET)
        return NULL;
    return &controller->targets.list[target];
}

bool lull_controller_is_steady(const struct lull_controller *controller)
{
    return controller->targets.steady;
}

bool lull_controller_is_suspended(const struct lull_controller *controller)
{
    return controller->queue.suspended;
}

const struct lull_target *lull_controller_descending(const struct lull_controller *controller)
{
    if (controller->targets.current == LULL_CONTROLLER_NO_TARGET)
        return NULL;
    return &controller->targets.list[controller->targets.current];
}

void lull_controller_slowdown(const struct lull_controller *controller,
                              struct lull_guard_estimate *estimate_out)
{
    lull_trial_estimate(&controller->trial, estimate_out);
}

struct lull_whole_slowdown lull_controller_whole_slowdown(const struct lull_controller *controller)
{
    return lull_trial_whole(&controller->trial);
}

bool lull_controller_is_proven(const struct lull_controller *controller)
{
    return controller->is_proven;
}

double lull_controller_rarest_excluded(const struct lull_controller *controller)
{
    return lull_trial_rarest_excluded(&controller->trial);
}

bool lull_controller_has_settled(const struct lull_controller *controller)
{
    return controller->settled_after > 0 &&
           lull_targets_next(&controller->targets) == LULL_CONTROLLER_NO_TARGET &&
           (controller->is_proven || !lull_targets_are_lowered(&controller->targets));
}

uint64_t lull_controller_settled_after(const struct lull_controller *controller)
{
    return controller->settled_after;
}
