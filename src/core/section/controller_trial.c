/*
 * Trials: windows at the reference and at a candidate, and what follows from their verdict. A test
 * is what runs between two decisions: fresh guard, fresh windows, and per GPU a base iteration from
 * which the schedule counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller_state.h"

#include <math.h>
#include <string.h>

/* A settled stretch grows by doubling up to so many reference windows. */
enum { SETTLED_STRETCH_MAX = 2048 };
/* Settled iterations in a block that is compared with the reference; slower: a test decides. */
enum { SETTLED_BLOCK = 16, CHECK_SPACING_MAX = 8192 };
/* Deviation of an iteration, as a share of the tolerance, that windows of one iteration would bear.
 */
static const double decisive_noise_share = 0.35;
/* Windows grow to this at most for short iterations, and for noisy ones; of iterations that all
 * take the same time, two are enough. */
enum { WINDOW_MAX = 4000, NOISY_WINDOW_MAX = 12, STEADY_WINDOW = 2 };
static const double steady_noise_share = 0.1;
/* Pairs of windows before and until a verdict. */
enum { MIN_PAIRS = 4, MAX_PAIRS = 14 };
/* Candidate iterations this much longer than the reference, in a row: no need to wait for pairs. */
static const double abort_ratio = 0.3;
enum { ABORT_ITERATIONS = 3 };
/* Throttled pairs set aside in a row before one is taken all the same. */
enum { MAX_SET_ASIDE = 3 };
/* A track that is still searching is waited for this many iterations of another one. */
enum { PATIENCE_ITERATIONS = 60 };
/* Power samples on both sides before they may speak against a point. */
enum { MIN_POWER_SAMPLES = 8 };

/*
 * Iterations per window: at least what the user wants, and with noise as many more as let some
 * eight pairs decide. The spread is taken below the median, where hiccups of the host do not reach.
 */
static uint32_t window_iterations(const struct lull_controller *controller)
{
    const struct lull_quantile *recent = &controller->gpus[0].reference_iterations_ms;
    double median_ms = lull_quantile_get(recent, 0.5);
    double deviation = (median_ms - lull_quantile_get(recent, 0.1)) / (1.28 * median_ms);
    double ratio = deviation / (decisive_noise_share * controller->config.tolerance_ratio);
    double wanted = fmax(ceil(controller->config.window_ms / median_ms),
                         fmin(ceil(ratio * ratio), NOISY_WINDOW_MAX));
    uint32_t least = controller->config.window_iterations;

    if (controller->config.tail_tolerance_ratio > 0.0)
        wanted = fmin(fmax(wanted, LULL_UPPER_TAIL_LEAST), LULL_UPPER_TAIL_MOST);
    if (recent->count >= LULL_TRACK_LEARN_ITERATIONS && ratio < steady_noise_share)
        least = STEADY_WINDOW;
    if (!isfinite(wanted) || wanted < least)
        return least;
    return wanted > WINDOW_MAX ? WINDOW_MAX : (uint32_t)wanted;
}

/* What a steady point, or the clocks of gaps, cost in time costs energy as well. */
static double tolerance_of(const struct lull_controller *controller)
{
    double most = controller->config.tolerance_ratio;

    if (controller->steady)
        most = controller->config.steady_tolerance_ratio;
    else if (controller->current != LULL_CONTROLLER_NO_TARGET &&
             controller->targets[controller->current].of_gaps)
        most = LULL_GAP_TOLERANCE;
    return fmin(most, controller->config.tolerance_ratio);
}

static void begin_test(struct lull_controller *controller)
{
    struct lull_guard_config guard = {
        .tolerance_ratio = tolerance_of(controller),
        .confidence = controller->config.confidence,
        .min_pairs = MIN_PAIRS,
        .max_pairs = MAX_PAIRS,
        .abort_ratio = abort_ratio,
    };
    uint32_t iterations = window_iterations(controller);

    lull_guard_init(&controller->guard, &guard);
    if (controller->config.tail_tolerance_ratio > 0.0) {
        guard.tolerance_ratio = controller->config.tail_tolerance_ratio;
        lull_guard_init(&controller->tail_guard, &guard);
    }
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
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        gpu->base = lull_track_iteration(gpu->track) + 1;
        gpu->slow_iterations = 0;
        memset(gpu->windows, 0, sizeof(gpu->windows));
    }
}

/* A GPU with a single clock has nothing to calibrate and nothing to descend. */
static bool is_calibrated(const struct lull_controlled_gpu *gpu)
{
    return gpu->points < 2 || lull_calibration_done(&gpu->calibration);
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

/* Decides what to do next after anything has changed: a section known, lost, settled, a rank gone.
 */
void lull_controller_reconsider(struct lull_controller *controller)
{
    bool afresh = controller->phase == LULL_PHASE_LEARNING;

    controller->checking = false;
    if (controller->config.observe_only || !all_ready(controller)) {
        controller->phase = LULL_PHASE_LEARNING;
        return;
    }
    if (controller->steady && afresh && !controller->config.only_steady &&
        lull_controller_any_section_pays(controller)) {
        controller->steady = false;
        controller->target_count = 0;
    }
    if (!controller->steady && !controller->config.only_steady)
        for (uint32_t i = 0; i < controller->gpu_count; i++)
            if (lull_controller_is_active(&controller->gpus[i]) &&
                lull_controller_is_known(&controller->gpus[i]))
                lull_controller_map_sections(controller, &controller->gpus[i]);
    if (controller->target_count == 0) {
        controller->steady = true;
        lull_controller_add_target(controller, 0, LULL_DESCENT_GALLOP);
    }
    controller->current = lull_controller_next_target(controller);
    controller->phase = controller->current == LULL_CONTROLLER_NO_TARGET ? LULL_PHASE_SETTLED
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
        .iterations =
            (uint32_t)(lull_track_iteration(controller->gpus[0].track) - controller->test_begin),
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
    lull_controller_reconsider(controller);
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
    controller->settled_stretch = LULL_CONTROLLER_SETTLED_STRETCH;
    controller->check_spacing = LULL_CONTROLLER_CHECK_SPACING;
    memset(&controller->settled_guard, 0, sizeof(controller->settled_guard));
    lull_controller_reconsider(controller);
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

/* Iteration times of a window that all GPUs have completed, means over them. */
struct window_times {
    double mean_ms; /* 0: not completed by all */
    double p99_ms;
};

static struct window_times joint_window(const struct lull_controller *controller, uint32_t window)
{
    struct window_times sum = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_window_sum *mine =
            &controller->gpus[i].windows[window % LULL_CONTROLLER_WINDOWS_KEPT];

        if (!lull_controller_is_active(&controller->gpus[i]) ||
            !lull_controller_is_known(&controller->gpus[i]))
            continue;
        if (mine->window != window || !mine->complete || mine->iterations_ms.count == 0)
            return (struct window_times){0};
        sum.mean_ms += lull_quantile_lower_mean(&mine->iterations_ms);
        sum.p99_ms += lull_upper_tail_p99(&mine->tail_ms);
        count++;
    }
    if (count == 0)
        return (struct window_times){0};
    return (struct window_times){sum.mean_ms / count, sum.p99_ms / count};
}

/* Degraded by either measure; not degraded only by both. */
static enum lull_verdict joint_verdict(const struct lull_controller *controller)
{
    const enum lull_verdict mean = lull_guard_verdict(&controller->guard);
    enum lull_verdict tail = mean;

    if (controller->config.tail_tolerance_ratio > 0.0)
        tail = lull_guard_verdict(&controller->tail_guard);
    if (mean == LULL_VERDICT_DEGRADED || tail == LULL_VERDICT_DEGRADED)
        return LULL_VERDICT_DEGRADED;
    return mean == tail ? mean : LULL_VERDICT_UNDECIDED;
}

static void judge_pair(struct lull_controller *controller, struct window_times reference,
                       struct window_times candidate)
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
        watch_settled(controller, reference.mean_ms, candidate.mean_ms);
        return;
    }
    lull_guard_add(&controller->guard, reference.mean_ms, candidate.mean_ms);
    if (controller->config.tail_tolerance_ratio > 0.0)
        lull_guard_add(&controller->tail_guard, reference.p99_ms, candidate.p99_ms);
    verdict = joint_verdict(controller);
    if (verdict == LULL_VERDICT_UNDECIDED)
        return;
    if (controller->checking)
        conclude_check(controller, verdict);
    else
        conclude_test(controller, verdict);
}

void lull_controller_look_for_pair(struct lull_controller *controller)
{
    uint32_t window = 2 * controller->next_pair;
    struct window_times first = joint_window(controller, window);
    struct window_times second = joint_window(controller, window + 1);

    if (first.mean_ms <= 0.0 || second.mean_ms <= 0.0)
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
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!lull_controller_is_active(gpu) || !lull_controller_is_known(gpu))
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

void lull_controller_note_iteration(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu, double iteration_ms)
{
    uint64_t ended = lull_track_iteration(gpu->track) - 1;
    struct lull_schedule_slot slot;
    struct lull_window_sum *window;
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
    window = &gpu->windows[slot.window % LULL_CONTROLLER_WINDOWS_KEPT];
    if (window->window != slot.window)
        *window = (struct lull_window_sum){.window = slot.window};
    if (slot.measured) {
        lull_quantile_add(&window->iterations_ms, iteration_ms);
        lull_upper_tail_add(&window->tail_ms, iteration_ms);
    }
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
        lull_controller_look_for_pair(controller);
    else if (slot.candidate && slot.measured && gpu == &controller->gpus[0] &&
             controller->phase == LULL_PHASE_SETTLED && !controller->checking)
        watch_block(controller, reference_ms, iteration_ms);
}
