/*
 * GPUs whose sections are gaps in computation: the lowering ahead of a gap across those that are
 * not switched, the requests to the node's driver and their times (driver_queue.h), and the account
 * of computation that began low.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "core/section/controller/state.h"
#include "core/section/gaps/gap_choice.h"

/* A lowering is planned this long ahead, at most: several times the longest typical latency. */
static const double horizon_ms = 200.0;

/* ---- ahead ------------------------------------------------------------------------------- */

/* The point at which a gap is to run, with its forecast; 0: it is not switched. */
static uint32_t gap_control_point_of(const struct lull_controller *controller,
                                     const struct lull_controlled_gpu *gpu, uint32_t index,
                                     uint64_t iteration, struct lull_forecast *forecast_out)
{
    uint32_t count;
    const struct lull_section *section = &lull_track_sections(gpu->track, &count)[index];
    const uint32_t point =
        lull_controller_planned_point(controller, gpu, gpu->target_of[index], iteration);

    if (point == 0 || section->place == 0 || !lull_allowance_is_open(&controller->late) ||
        section->recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        return 0;
    lull_controller_forecast(controller, gpu, section, forecast_out);
    if (!lull_forecast_pays(forecast_out))
        return 0;
    return point;
}

/*
 * Finds the next gap that is switched, and its point; 0: there is none within the horizon. wait_ms:
 * the time from now until the gap `index` has ended.
 */
static uint32_t gap_control_find_next(const struct lull_controller *controller,
                                      const struct lull_controlled_gpu *gpu, uint32_t index,
                                      double wait_ms, uint32_t *next_out,
                                      struct lull_forecast *forecast_out)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    const double scale_ms = lull_controller_gap_need(controller, gpu).ahead_scale_ms;
    uint64_t iteration = lull_track_iteration(gpu->track);
    uint32_t next = index;

    for (uint32_t hops = 0; hops < count && wait_ms < horizon_ms; hops++) {
        uint32_t point;

        next = (next + 1) % count;
        iteration += next == 0;
        wait_ms += lull_quantile_soft_most(&sections[next].recent_gap, scale_ms) +
                   lull_controller_stretch_ms(gpu, &sections[next]);
        point = gap_control_point_of(controller, gpu, next, iteration, forecast_out);
        if (point != 0) {
            forecast_out->gap_low_ms = wait_ms;
            forecast_out->gap_high_ms = wait_ms;
            *next_out = next;
            return point;
        }
        wait_ms += lull_quantile_soft_most(&sections[next].recent_length, scale_ms);
    }
    return 0;
}

/* Raises, and plans the lowering for the next gap that is switched. */
static void gap_control_look_ahead(struct lull_controller *controller,
                                   struct lull_controlled_gpu *gpu, uint32_t index, double wait_ms,
                                   int64_t now_ns)
{
    struct lull_forecast expected = {0};
    uint32_t next = 0;
    const uint32_t point = gap_control_find_next(controller, gpu, index, wait_ms, &next, &expected);

    /* A gap that is nearer than a lowering may be requested ahead of it: the lowering is requested
     * at once, if there is nothing to raise. */
    if (gpu->feed.requested == 0 && expected.ahead_ms >= expected.gap_low_ms)
        expected.ahead_ms = expected.gap_low_ms * 0.99;
    if (lull_feed_forward_end(&gpu->feed, now_ns, point, &expected))
        lull_controller_post_feed(controller, gpu);
    gpu->ahead_section = gpu->feed.lower_at_ns == INT64_MAX ? -1 : (int32_t)next;
}

/* A lowering has been requested ahead of a gap that has yet to begin. */
static bool is_ahead(const struct lull_controlled_gpu *gpu)
{
    return gpu->ahead_section >= 0 && gpu->feed.requested != 0;
}

/* A screen tests one target. Every other trial tests all lowered targets together. */
static bool is_under_test(const struct lull_controller *controller,
                          const struct lull_controlled_gpu *gpu, uint32_t index)
{
    const int32_t target = gpu->target_of[index];

    if (controller->targets.current == LULL_CONTROLLER_NO_TARGET)
        return target != LULL_CONTROLLER_NO_TARGET;
    return target == controller->targets.current;
}

void lull_controller_gap_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    struct lull_forecast expected;
    const uint32_t point =
        gap_control_point_of(controller, gpu, index, lull_track_iteration(gpu->track), &expected);

    if (is_under_test(controller, gpu, index) &&
        lull_controller_planned_point(controller, gpu, gpu->target_of[index],
                                      lull_track_iteration(gpu->track)) != 0)
        lull_trial_want_change(&controller->trial);
    assert(index < count);
    gpu->open_section = (int32_t)index;
    if (gpu->ahead_section == (int32_t)index)
        gpu->ahead_section = -1;
    if (point != 0) {
        gpu->low_section = (int32_t)index;
        gpu->ahead_section = -1;
        lull_low_interval_gap_begins(&gpu->low, now_ns);
        lull_feed_forward_plan(&gpu->feed, now_ns, point, &expected);
    } else if (!is_ahead(gpu)) {
        gap_control_look_ahead(
            controller, gpu, index,
            lull_quantile_soft_most(&sections[index].recent_length,
                                    lull_controller_gap_need(controller, gpu).ahead_scale_ms),
            now_ns);
    }
}

void lull_controller_gap_ends(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                              uint32_t index, int64_t now_ns)
{
    if (gpu->low_section == (int32_t)index)
        lull_low_interval_gap_ends(&gpu->low, now_ns);
    gpu->open_section = -1;
    gpu->low_section = -1;
    if (!is_ahead(gpu))
        gap_control_look_ahead(controller, gpu, index, 0.0, now_ns);
}

/* A GPU that was low outside the gaps that are switched computed while it was low. That is paid for
 * once per iteration. */
void lull_controller_note_clock(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome)
{
    const bool is_raising = outcome->point < outcome->was_point;

    if (!is_raising && outcome->point > gpu->steady)
        lull_low_interval_lowered(&gpu->low, outcome->effect_ns);
    if (is_raising && gpu->low.is_low && outcome->effect_ns > gpu->low.from_ns)
        gpu->low_ns += outcome->effect_ns - gpu->low.from_ns;
    if (is_raising && lull_low_interval_raised(&gpu->low, outcome->effect_ns) &&
        gpu->switched_gaps > 0 && gpu->late_now++ < gpu->fold)
        lull_allowance_spend(&controller->late);
}

/* ---- the driver -------------------------------------------------------------------------- */

static bool has_gaps(const struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].has_gaps)
            return true;
    return false;
}

/* Only the first `count` places of the plan are set: this runs at every poll. */
static void gap_control_make_plan(const struct lull_controller *controller,
                                  struct lull_driver_plan *plan_out)
{
    lull_driver_queue_init_plan(&controller->queue, plan_out);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        plan_out->raise_by_ns[i] = INT64_MAX;
        if (gpu->has_gaps && gpu->feed.requested != 0)
            plan_out->raise_by_ns[i] = gpu->feed.raise_by_ns;
    }
}

static void raise_due(struct lull_controller *controller, struct lull_driver_plan *plan,
                      int64_t now_ns)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];

    lull_driver_plan_begins(plan, begins_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!gpu->has_gaps || lull_earlier_ns(begins_ns[i], gpu->feed.raise_at_ns) > now_ns)
            continue;
        plan->raise_by_ns[i] = INT64_MAX;
        if (!lull_feed_forward_raise(&gpu->feed))
            continue;
        lull_controller_post_feed(controller, gpu);
        gpu->raises_as_planned = true;
        lull_driver_queue_keep_busy(&controller->queue, now_ns);
    }
}

/* The lowering wins nothing now: it is looked at again when the next raising is over. Without one
 * there is nothing to wait for. */
static void gap_control_defer(struct lull_controlled_gpu *gpu, const struct lull_driver_plan *plan,
                              int64_t now_ns)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t next_ns;

    lull_driver_plan_begins(plan, begins_ns);
    next_ns = lull_driver_plan_next_ns(begins_ns, plan->count, now_ns);
    gpu->feed.lower_at_ns = next_ns;
    if (next_ns != INT64_MAX)
        gpu->feed.lower_at_ns += plan->call_ns;
}

/* Finds the lowering that wins most among those that are due; null: none wins anything. */
static struct lull_controlled_gpu *gap_control_find_lowering(struct lull_controller *controller,
                                                             const struct lull_driver_plan *plan,
                                                             int64_t now_ns)
{
    struct lull_lowering due[LULL_DRIVER_PLAN_GPUS];
    const struct lull_lowering *best;
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (gpu->has_gaps && gpu->feed.lower_at_ns <= now_ns)
            due[count++] = (struct lull_lowering){.gpu = i, .raise_by_ns = gpu->feed.raise_by_ns};
    }
    best = lull_driver_queue_choose(&controller->queue, plan, now_ns, due, count);
    for (uint32_t i = 0; i < count; i++)
        if (due[i].gain_ns <= controller->queue.config.min_gain_ns)
            gap_control_defer(&controller->gpus[due[i].gpu], plan, now_ns);
    if (best == NULL)
        return NULL;
    return &controller->gpus[best->gpu];
}

/* A lowering is requested now: if a test is about its gap, that much of the test has taken place.
 */
static void note_lowering(struct lull_controller *controller, const struct lull_controlled_gpu *gpu)
{
    const int32_t index = gpu->ahead_section >= 0 ? gpu->ahead_section : gpu->low_section;

    if (index >= 0 && is_under_test(controller, gpu, (uint32_t)index))
        lull_trial_make_change(&controller->trial);
}

void lull_controller_poll_gaps(struct lull_controller *controller, int64_t now_ns)
{
    struct lull_driver_plan plan;
    struct lull_controlled_gpu *lowered;

    if (!has_gaps(controller))
        return;
    gap_control_make_plan(controller, &plan);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (controller->gpus[i].command_waits)
            lull_driver_queue_keep_busy(&controller->queue, now_ns);
    raise_due(controller, &plan, now_ns);
    if (!lull_driver_queue_may_lower(&controller->queue, now_ns))
        return;
    lowered = gap_control_find_lowering(controller, &plan, now_ns);
    if (lowered == NULL)
        return;
    note_lowering(controller, lowered);
    lull_feed_forward_lower(&lowered->feed);
    lull_controller_post_feed(controller, lowered);
    lull_driver_queue_keep_busy(&controller->queue, now_ns);
}

int64_t lull_controller_gaps_wake_ns(const struct lull_controller *controller)
{
    int64_t begins_ns[LULL_DRIVER_PLAN_GPUS];
    int64_t wake_ns = INT64_MAX;
    struct lull_driver_plan plan;

    if (!has_gaps(controller))
        return INT64_MAX;
    gap_control_make_plan(controller, &plan);
    lull_driver_plan_begins(&plan, begins_ns);
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!gpu->has_gaps)
            continue;
        wake_ns = lull_earlier_ns(wake_ns, lull_earlier_ns(begins_ns[i], gpu->feed.raise_at_ns));
        if (gpu->feed.lower_at_ns > controller->queue.free_ns)
            wake_ns = lull_earlier_ns(wake_ns, gpu->feed.lower_at_ns);
        else if (controller->queue.free_ns > 0)
            wake_ns = lull_earlier_ns(wake_ns, controller->queue.free_ns);
    }
    return wake_ns;
}
