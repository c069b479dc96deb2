/*
 * Trials: windows at the reference and at a candidate, and what follows from their verdict. A test
 * is what runs between two decisions: fresh guard, fresh windows, and per GPU a base iteration from
 * which the schedule counts.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include <math.h>
#include <string.h>

/* Deviation of an iteration, as a share of the tolerance, that windows of one iteration would bear.
 */
static const double decisive_noise_share = 0.35;
/* Windows grow to this at most for short iterations, and for noisy ones; of iterations that all
 * take the same time, two are enough. */
enum { WINDOW_MAX = 4000, NOISY_WINDOW_MAX = 12, STEADY_WINDOW = 2 };
static const double steady_noise_share = 0.1;
/* Pairs of windows before and until a verdict. */
enum { MIN_PAIRS = 4, MAX_PAIRS = 14 };
/* A track that is still searching is waited for this many iterations of another one. */
enum { PATIENCE_ITERATIONS = 60 };
/* Power samples on both sides before they may speak against a point. */
enum { MIN_POWER_SAMPLES = 8 };

/* So many of the job's iterations in iterations of the track, which may stand for several. */
static uint32_t of_track(const struct lull_controller *controller, uint32_t iterations)
{
    const uint32_t fold = controller->gpus[0].fold;

    return (iterations + fold - 1) / fold;
}

/*
 * Iterations per window: at least what the user wants, and with noise as many more as let some
 * eight pairs decide. The spread is taken below the median, where hiccups of the host do not reach.
 */
uint32_t lull_controller_window(const struct lull_controller *controller)
{
    const struct lull_quantile *recent = &controller->gpus[0].reference_iterations_ms;
    double median_ms = lull_quantile_get(recent, 0.5);
    double deviation = (median_ms - lull_quantile_get(recent, 0.1)) / (1.28 * median_ms);
    double ratio = deviation / (decisive_noise_share * controller->config.tolerance_ratio);
    double wanted = fmax(ceil(controller->config.window_ms / median_ms),
                         fmin(ceil(ratio * ratio), NOISY_WINDOW_MAX));
    uint32_t least = of_track(controller, controller->config.window_iterations);

    if (controller->config.tail_tolerance_ratio > 0.0)
        wanted = fmin(fmax(wanted, LULL_UPPER_TAIL_LEAST), LULL_UPPER_TAIL_MOST);
    if (recent->count >= LULL_TRACK_LEARN_ITERATIONS && ratio < steady_noise_share)
        least = of_track(controller, STEADY_WINDOW);
    if (!isfinite(wanted) || wanted < least)
        return least;
    return wanted > WINDOW_MAX ? WINDOW_MAX : (uint32_t)wanted;
}

/* What a steady point costs in time costs energy as well. */
static double tolerance_of(const struct lull_controller *controller)
{
    double most = controller->config.tolerance_ratio;

    if (controller->steady)
        most = controller->config.steady_tolerance_ratio;
    return fmin(most, controller->config.tolerance_ratio);
}

/* So do the clocks of gaps, but noise that hides so little shall not keep them high. */
static double worth_of(const struct lull_controller *controller)
{
    const bool of_gaps = !controller->steady && controller->current != LULL_CONTROLLER_NO_TARGET &&
                         controller->targets[controller->current].of_gaps;

    return of_gaps ? fmin(LULL_GAP_WORTH, controller->config.tolerance_ratio) : 0.0;
}

static void begin_guards(struct lull_controller *controller)
{
    struct lull_guard_config guard = {
        .tolerance_ratio = tolerance_of(controller),
        .worth_ratio = worth_of(controller),
        .confidence = controller->config.confidence,
        .min_pairs = MIN_PAIRS,
        .max_pairs = MAX_PAIRS,
        .abort_ratio = LULL_CONTROLLER_ABORT_RATIO,
    };

    lull_joint_guard_init(&controller->guard, &guard, controller->gpu_count);
    if (controller->config.tail_tolerance_ratio > 0.0)
        guard.tolerance_ratio = controller->config.tail_tolerance_ratio;
    guard.worth_ratio = 0.0;
    lull_joint_guard_init(&controller->tail_guard, &guard, controller->gpu_count);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (lull_controller_is_active(gpu) && lull_controller_is_known(gpu))
            continue;
        lull_joint_guard_leave(&controller->guard, i);
        lull_joint_guard_leave(&controller->tail_guard, i);
    }
}

/* Iterations per window, which all nodes of the job should choose alike. */
static uint32_t window_iterations(const struct lull_controller *controller)
{
    const uint32_t own = lull_controller_window(controller);
    uint32_t iterations = 1;

    if (!controller->config.together)
        return own;
    while (iterations < own || iterations < controller->aligned_window)
        iterations *= 2;
    return iterations < WINDOW_MAX ? iterations : WINDOW_MAX;
}

void lull_controller_begin_test(struct lull_controller *controller)
{
    const uint32_t iterations = window_iterations(controller);

    begin_guards(controller);
    controller->schedule = (struct lull_window_schedule){iterations, iterations, false};
    if (controller->phase == LULL_PHASE_SETTLED && !controller->checking) {
        controller->schedule.candidate_first = true;
        controller->schedule.candidate_iterations = iterations * controller->settled_stretch;
    }
    controller->block = (struct lull_quantile){0};
    controller->tainted = false;
    controller->tested_gaps = 0;
    controller->lowered_gaps = 0;
    controller->untried_pairs = 0;
    controller->test_begin = lull_track_iteration(controller->gpus[0].track);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        gpu->slow_iterations = 0;
        memset(gpu->windows, 0, sizeof(gpu->windows));
        memset(gpu->pairs, 0, sizeof(gpu->pairs));
    }
    lull_controller_place_test(controller);
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
    if (controller->config.observe_only || controller->held || controller->withheld ||
        !all_ready(controller)) {
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
    lull_controller_heed_refusals(controller);
    controller->current = lull_controller_next_target(controller);
    controller->phase = controller->current == LULL_CONTROLLER_NO_TARGET ? LULL_PHASE_SETTLED
                                                                         : LULL_PHASE_DESCENDING;
    if (controller->phase == LULL_PHASE_SETTLED && controller->settled_after == 0)
        controller->settled_after = lull_track_iteration(controller->gpus[0].track);
    lull_controller_begin_test(controller);
}

static void record(struct lull_controller *controller, struct lull_target *target,
                   enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;
    struct lull_descent_record *entry;

    lull_guard_estimate(lull_joint_guard_worst(&controller->guard), &estimate);
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

void lull_controller_settle(struct lull_target *target)
{
    if (target->descent.good > 0 && saves_nothing(target)) {
        lull_controller_drop_own(target);
        lull_descent_init(&target->descent, target->descent.strategy, 1);
        target->reason = LULL_REASON_SAVES_NOTHING;
    } else if (target->descent.good == target->descent.count - 1) {
        target->reason = LULL_REASON_LOWEST;
    } else {
        target->reason = LULL_REASON_DEGRADES_BELOW;
    }
    target->settled = true;
}

/* The rank that was slowed most, where they are not coupled. */
static int32_t worst_rank(const struct lull_joint_guard *guard)
{
    for (uint32_t i = 0; i < guard->rank_count; i++)
        if (&guard->ranks[i].guard == lull_joint_guard_worst(guard))
            return (int32_t)i;
    return LULL_CONTROLLER_COUPLED;
}

/* S225, S226 and S227 are the descent's. */
void lull_controller_conclude(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_target *target = &controller->targets[controller->current];

    record(controller, target, verdict);
    if (verdict == LULL_VERDICT_NOT_DEGRADED) {
        controller->settled_guard = *lull_joint_guard_worst(&controller->guard);
        controller->worst_rank = worst_rank(&controller->guard);
    }
    lull_controller_take_verdict(target, verdict);
    target->power_lowered_w = (struct lull_moments){0};
    if (!lull_controller_goes_on(controller, target))
        lull_controller_settle(target);
    lull_controller_reconsider(controller);
}

void lull_controller_back_off(struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->target_count; i++) {
        struct lull_target *target = &controller->targets[i];

        if (target->descent.good == 0 && !target->has_own)
            continue;
        lull_controller_drop_own(target);
        lull_descent_back_off(&target->descent);
        target->settled = lull_descent_done(&target->descent);
    }
    controller->settled_stretch = LULL_CONTROLLER_SETTLED_STRETCH;
    controller->check_spacing = LULL_CONTROLLER_CHECK_SPACING;
    memset(&controller->settled_guard, 0, sizeof(controller->settled_guard));
    lull_controller_reconsider(controller);
}

enum lull_verdict lull_controller_verdict(const struct lull_controller *controller)
{
    const enum lull_verdict mean = lull_joint_guard_verdict(&controller->guard);
    enum lull_verdict tail = mean;

    if (controller->config.tail_tolerance_ratio > 0.0)
        tail = lull_joint_guard_verdict(&controller->tail_guard);
    if (mean == LULL_VERDICT_DEGRADED || tail == LULL_VERDICT_DEGRADED)
        return LULL_VERDICT_DEGRADED;
    return mean != tail ? LULL_VERDICT_UNDECIDED : mean;
}
