/*
 * Watching: iterations become windows, windows pairs, and pairs evidence; for a test while one
 * runs, and against what is settled ever after.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include <string.h>

/* A settled stretch grows by doubling up to so many reference windows. */
enum { SETTLED_STRETCH_MAX = 2048 };
/* Settled iterations in a block that is compared with the reference; slower: a test decides. */
enum { SETTLED_BLOCK = 16, CHECK_SPACING_MAX = 8192 };
/* Iterations clearly slow in a row at the candidate: no need to wait for pairs. */
enum { ABORT_ITERATIONS = 3 };
/* Throttled pairs set aside in a row before one is taken all the same. */
enum { MAX_SET_ASIDE = 3 };
/* Of the gaps that a pair is to lower, so many at least must have been; such pairs in a test before
 * one counts all the same. */
static const double least_tried = 0.25;
enum { MAX_UNTRIED = 14 };
/* Pairs by which a rank may be ahead of the slowest and still wait for it. */
enum { AHEAD_MAX = 2 };

/* ---- what is settled --------------------------------------------------------------------- */

/* Do the results still hold? Answered by a test like the descent's, at the settled points. */
static void begin_check(struct lull_controller *controller)
{
    controller->checking = true;
    lull_controller_begin_test(controller);
}

static void conclude_check(struct lull_controller *controller, enum lull_verdict verdict)
{
    controller->checking = false;
    if (verdict == LULL_VERDICT_DEGRADED) {
        lull_controller_back_off(controller);
        return;
    }
    controller->settled_guard = *lull_joint_guard_worst(&controller->guard);
    controller->next_check =
        lull_track_iteration(controller->gpus[0].track) + controller->check_spacing;
    if (controller->check_spacing < CHECK_SPACING_MAX)
        controller->check_spacing *= 2;
    lull_controller_begin_test(controller);
}

/*
 * With other nodes there are no checks: a node that goes to the reference alone sees nothing if
 * another one holds the job up. There the settled windows, which are the same on all, decide.
 */
static bool may_check(const struct lull_controller *controller)
{
    return !controller->config.together &&
           lull_track_iteration(controller->gpus[0].track) >= controller->next_check;
}

static bool is_slow(const struct lull_controller *controller, double reference_ms,
                    double candidate_ms)
{
    return candidate_ms > reference_ms * (1.0 + controller->guard.mean.config.tolerance_ratio);
}

/* A verdict on settled windows, again and again. True: what is settled has been given up. */
static bool watch_together(struct lull_controller *controller, double reference_ms,
                           double candidate_ms)
{
    struct lull_guard *guard = &controller->watch_guard;
    struct lull_guard_estimate estimate;
    enum lull_verdict verdict;

    if (guard->config.max_pairs == 0)
        lull_guard_init(guard, &controller->guard.mean.config);
    lull_guard_add(guard, reference_ms, candidate_ms);
    verdict = lull_guard_verdict(guard);
    if (verdict == LULL_VERDICT_UNDECIDED)
        return false;
    lull_guard_estimate(guard, &estimate);
    lull_guard_init(guard, &controller->guard.mean.config);
    if (verdict != LULL_VERDICT_DEGRADED ||
        estimate.slowdown_ratio <= guard->config.tolerance_ratio)
        return false;
    lull_controller_back_off(controller);
    return true;
}

/* A long settled window and its short reference: evidence for the report, or a reason to check. */
static void watch_settled(struct lull_controller *controller, double reference_ms,
                          double candidate_ms)
{
    if (controller->settled_guard.log_ratios.count == 0)
        controller->settled_guard = controller->guard.mean;
    lull_guard_add(&controller->settled_guard, reference_ms, candidate_ms);
    if (controller->config.together && watch_together(controller, reference_ms, candidate_ms))
        return;
    if (is_slow(controller, reference_ms, candidate_ms) && may_check(controller)) {
        begin_check(controller);
        return;
    }
    if (controller->settled_stretch < SETTLED_STRETCH_MAX && !controller->config.together)
        controller->settled_stretch *= 2;
    lull_controller_begin_test(controller);
}

/* A settled block of GPU 0 that is slower than the reference: do not wait for the next probe. */
static void watch_block(struct lull_controller *controller, double reference_ms,
                        double iteration_ms)
{
    lull_quantile_add(&controller->block, iteration_ms);
    if (controller->block.count < SETTLED_BLOCK)
        return;
    if (is_slow(controller, reference_ms, lull_quantile_lower_mean(&controller->block)) &&
        may_check(controller))
        begin_check(controller);
    controller->block = (struct lull_quantile){0};
}

/* ---- pairs ------------------------------------------------------------------------------- */

static bool takes_part(const struct lull_controlled_gpu *gpu)
{
    return lull_controller_is_active(gpu) && lull_controller_is_known(gpu);
}

static bool is_watching(const struct lull_controller *controller)
{
    return controller->phase == LULL_PHASE_SETTLED && !controller->checking;
}

void lull_controller_excuse_pair(struct lull_controller *controller)
{
    if (!is_watching(controller))
        controller->tainted = true;
}

static void act_on_verdict(struct lull_controller *controller)
{
    const enum lull_verdict verdict = lull_controller_verdict(controller);

    if (verdict == LULL_VERDICT_UNDECIDED)
        return;
    if (controller->checking)
        conclude_check(controller, verdict);
    else
        lull_controller_conclude(controller, verdict);
}

static bool is_disturbed(const struct lull_controller *controller)
{
    return controller->tainted && controller->set_aside < MAX_SET_ASIDE;
}

/* Gaps stay high for want of allowance or of the driver's time, or while latencies are hardly
 * known: a pair without them shows nothing. */
static bool is_untried(const struct lull_controller *controller)
{
    return controller->lowered_gaps < least_tried * controller->tested_gaps &&
           controller->untried_pairs < MAX_UNTRIED;
}

/* Means over the ranks of a pair that all have completed. */
static void judge_pair(struct lull_controller *controller, const struct lull_window_pair *pair)
{
    const bool disturbed = is_disturbed(controller);
    const bool untried = is_untried(controller);

    controller->next_pair++;
    controller->set_aside = disturbed ? controller->set_aside + 1 : 0;
    controller->untried_pairs += untried;
    controller->tainted = false;
    controller->tested_gaps = 0;
    controller->lowered_gaps = 0;
    if (disturbed || untried)
        return;
    if (is_watching(controller)) {
        watch_settled(controller, pair->reference.mean_ms, pair->candidate.mean_ms);
        return;
    }
    lull_joint_guard_add_mean(&controller->guard, pair->reference.mean_ms, pair->candidate.mean_ms);
    lull_joint_guard_add_mean(&controller->tail_guard, pair->reference.p99_ms,
                              pair->candidate.p99_ms);
    act_on_verdict(controller);
}

/* The next pair of this rank, or NULL. */
static const struct lull_window_pair *next_pair_of(const struct lull_controller *controller,
                                                   const struct lull_controlled_gpu *gpu)
{
    const struct lull_window_pair *pair =
        &gpu->pairs[controller->next_pair % LULL_CONTROLLER_PAIRS_KEPT];

    return pair->is_complete && pair->pair == controller->next_pair ? pair : NULL;
}

static void add_times(struct lull_window_times *sum, const struct lull_window_times *times)
{
    sum->mean_ms += times->mean_ms;
    sum->p99_ms += times->p99_ms;
}

static void divide_times(struct lull_window_times *sum, uint32_t count)
{
    sum->mean_ms /= count;
    sum->p99_ms /= count;
}

void lull_controller_look_for_pair(struct lull_controller *controller)
{
    struct lull_window_pair sum = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        const struct lull_window_pair *pair = next_pair_of(controller, gpu);

        if (!takes_part(gpu))
            continue;
        if (pair == NULL)
            return;
        /* Settled ranks that do not wait for each other: the worst stands for all. */
        if (is_watching(controller) && controller->worst_rank == (int32_t)i) {
            sum = *pair;
            count = 1;
            break;
        }
        add_times(&sum.reference, &pair->reference);
        add_times(&sum.candidate, &pair->candidate);
        count++;
    }
    if (count == 0)
        return;
    divide_times(&sum.reference, count);
    divide_times(&sum.candidate, count);
    judge_pair(controller, &sum);
}

/* A rank's own pair: for its own test, and for the one of all once each has it. */
static void take_pair(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                      const struct lull_window_pair *pair)
{
    const uint32_t rank = (uint32_t)(gpu - controller->gpus);

    gpu->pairs[pair->pair % LULL_CONTROLLER_PAIRS_KEPT] = *pair;
    if (!is_watching(controller) && !is_disturbed(controller) && !is_untried(controller)) {
        lull_joint_guard_add(&controller->guard, rank, pair->reference.mean_ms,
                             pair->candidate.mean_ms);
        lull_joint_guard_add(&controller->tail_guard, rank, pair->reference.p99_ms,
                             pair->candidate.p99_ms);
    }
    if (pair->pair <= controller->next_pair + AHEAD_MAX) {
        lull_controller_look_for_pair(controller);
        return;
    }
    lull_joint_guard_part(&controller->guard);
    lull_joint_guard_part(&controller->tail_guard);
    if (!is_watching(controller))
        act_on_verdict(controller);
}

static struct lull_window_times times_of(const struct lull_window_sum *window)
{
    return (struct lull_window_times){lull_quantile_lower_mean(&window->iterations_ms),
                                      lull_upper_tail_p99(&window->tail_ms)};
}

/* The second window of a pair has ended. */
static void end_pair(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                     uint32_t second_window)
{
    const struct lull_window_sum *first = &gpu->windows[0];
    const struct lull_window_sum *second = &gpu->windows[1];
    const bool reference_first =
        (first->window % 4 == 0) != controller->schedule.candidate_first;
    struct lull_window_pair pair = {.is_complete = true, .pair = second_window / 2};

    if (first->window + 1 != second_window || !first->complete ||
        pair.pair < controller->next_pair || first->iterations_ms.count == 0 ||
        second->iterations_ms.count == 0)
        return;
    pair.reference = times_of(reference_first ? first : second);
    pair.candidate = times_of(reference_first ? second : first);
    take_pair(controller, gpu, &pair);
}

/* ---- iterations -------------------------------------------------------------------------- */

/* True if every active GPU has run clearly slow at the candidate: no need to wait for the guard. */
static bool is_hopeless(const struct lull_controller *controller)
{
    bool any = false;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!takes_part(gpu))
            continue;
        if (gpu->slow_iterations < ABORT_ITERATIONS)
            return false;
        any = true;
    }
    return any;
}

static void add_to_window(struct lull_window_sum *window, const struct lull_window_slot *slot,
                          double iteration_ms)
{
    if (window->window != slot->window || window->complete)
        *window = (struct lull_window_sum){.window = slot->window};
    if (slot->measured) {
        lull_quantile_add(&window->iterations_ms, iteration_ms);
        lull_upper_tail_add(&window->tail_ms, iteration_ms);
    }
    window->complete = slot->window_ends;
}

void lull_controller_note_iteration(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu, double iteration_ms)
{
    uint64_t ended = lull_track_iteration(gpu->track) - 1;
    struct lull_window_slot slot;
    struct lull_window_sum *window;
    double reference_ms;

    if (iteration_ms <= 0.0)
        return;
    if (controller->phase == LULL_PHASE_LEARNING)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    if (controller->phase == LULL_PHASE_LEARNING || ended < gpu->base)
        return;
    slot = lull_window_slot(&controller->schedule, ended - gpu->base);
    if (slot.measured && !slot.candidate)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    window = &gpu->windows[slot.window % LULL_CONTROLLER_WINDOWS_KEPT];
    add_to_window(window, &slot, iteration_ms);
    reference_ms = gpu->reference_ms;
    if (!slot.candidate && slot.window_ends)
        gpu->reference_ms = lull_quantile_lower_mean(&window->iterations_ms);
    if (slot.candidate && iteration_ms > (1.0 + LULL_CONTROLLER_ABORT_RATIO) * reference_ms)
        gpu->slow_iterations++;
    else if (slot.candidate)
        gpu->slow_iterations = 0;
    if (controller->phase == LULL_PHASE_DESCENDING && is_hopeless(controller)) {
        lull_joint_guard_add_mean(&controller->guard, reference_ms, iteration_ms);
        lull_controller_conclude(controller, LULL_VERDICT_DEGRADED);
        return;
    }
    if (slot.window_ends && slot.window % 2 == 1)
        end_pair(controller, gpu, slot.window);
    else if (slot.candidate && slot.measured && gpu == &controller->gpus[0] &&
             is_watching(controller))
        watch_block(controller, reference_ms, iteration_ms);
}
