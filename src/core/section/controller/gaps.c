/*
 * Gaps in a GPU's computation: which of them are switched, the lowering ahead of them across those
 * that are not, and the account of computation that began low.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "core/section/gaps/gap_choice.h"

/*
 * Of all GPUs' iterations, those in which a kernel may begin on a lowered clock: what is earned is
 * less than the one in a hundred that is promised. What is aimed at with a full allowance is a
 * third more, so that a tail that looks longer than it is gets corrected: it settles where both are
 * equal. With much more it swings, and saves less on average.
 */
static const double late_earned = 0.0075;
static const double late_wanted = 0.01;
/* For each GPU; at first, about what is left where as much is earned as is spent. */
static const double late_saved = 3.0;
static const double late_saved_at_first = 2.0;
/* With an empty allowance nothing is switched; just above it one is no more careful than this. */
static const double least_fullness = 0.05;
/* Gaps switched per second, on average: very frequent calls delay NCCL (its issue 1551). As many as
 * the writer's budget lets through without a gap between them. */
static const double gaps_per_s = 20.0;
/* With fewer changes of its own a GPU goes by what all of its model have seen: a tail that is known
 * from some dozens is off by a third. */
static const uint32_t own_changes = 1024;
/* A lowering is planned this long ahead, at most. */
static const double horizon_ms = 200.0;

void lull_controller_init_gaps(struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        controller->gpus[i].fold = 1;
        controller->gpus[i].low_section = -1;
        controller->gpus[i].ahead_section = -1;
    }
    lull_allowance_init(&controller->late, late_earned, late_saved * controller->gpu_count,
                        late_saved_at_first * controller->gpu_count);
}

/* Of the track's iterations, those in which something may be late, at this fullness. */
static double late_share(const struct lull_controlled_gpu *gpu, double fullness)
{
    return late_wanted * fmax(fullness, least_fullness) * gpu->fold;
}

/* A few slow changes of its own, and a GPU would never be switched and never know better. */
static const struct lull_switch_cost *cost_of(const struct lull_controlled_gpu *gpu)
{
    return gpu->changes < own_changes ? &gpu->model_cost : &gpu->cost;
}

/* What switching each of the gaps that are switched needs now. */
static struct lull_gap_need need_of(const struct lull_controller *controller,
                                    const struct lull_controlled_gpu *gpu)
{
    const uint32_t sharing = gpu->switched_gaps > 0 ? gpu->switched_gaps : 1;
    struct lull_gap_need need;

    lull_gap_need_find(
        cost_of(gpu), late_share(gpu, lull_allowance_fullness(&controller->late)) / sharing, &need);
    return need;
}

void lull_controller_expect_gap(const struct lull_controller *controller,
                                const struct lull_controlled_gpu *gpu,
                                const struct lull_section *section, struct lull_forecast *out)
{
    const struct lull_gap_need need = need_of(controller, gpu);

    /* Ends as early and begins as late as is as rare as a slow driver: both add up. */
    out->length_ms = lull_quantile_soft_least(&section->recent_length, need.lead_scale_ms);
    out->gap_high_ms = lull_quantile_soft_most(&section->recent_gap, need.ahead_scale_ms);
    out->gap_low_ms = out->gap_high_ms;
    out->ahead_ms = need.ahead_ms;
    out->lead_ms = need.lead_ms;
    out->least_ms = need.least_ms;
    out->serve_ms = need.call_ms;
}

static int descending(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left < right) - (left > right);
}

double lull_controller_choose_gaps(struct lull_controlled_gpu *gpu)
{
    const double iteration_ms = lull_track_iteration_ms(gpu->track)->mean;
    const double share = late_share(gpu, late_earned / late_wanted);
    struct lull_gap_need need;
    double lengths_ms[LULL_TRACK_MAX_SECTIONS];
    uint32_t lengths = 0;
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);

    lull_gap_need_find(cost_of(gpu), share, &need);
    for (uint32_t i = 0; i < count; i++)
        if (sections[i].place != 0 &&
            sections[i].recent_length.count >= LULL_CONTROLLER_MIN_OCCURRENCES)
            lengths_ms[lengths++] =
                lull_quantile_soft_least(&sections[i].recent_length, need.lead_scale_ms);
    qsort(lengths_ms, lengths, sizeof(lengths_ms[0]), descending);
    gpu->switched_gaps = lull_gap_choose(
        lengths_ms, lengths, (uint32_t)(gaps_per_s * iteration_ms * 1e-3) + 1, cost_of(gpu), share);
    return gpu->switched_gaps == 0 ? INFINITY : lengths_ms[gpu->switched_gaps - 1];
}

/* ---- ahead ------------------------------------------------------------------------------- */

/* The point at which a gap is to run, with its forecast; 0: not switched. */
static uint32_t point_of(const struct lull_controller *controller,
                         const struct lull_controlled_gpu *gpu, uint32_t index, uint64_t iteration,
                         struct lull_forecast *forecast_out)
{
    uint32_t count;
    const struct lull_section *section = &lull_track_sections(gpu->track, &count)[index];
    const uint32_t point =
        lull_controller_planned_point(controller, gpu, gpu->target_of[index], iteration);

    if (point == 0 || section->place == 0 || !lull_allowance_is_open(&controller->late) ||
        section->recent_length.count < LULL_CONTROLLER_MIN_OCCURRENCES)
        return 0;
    lull_controller_forecast(controller, gpu, section, forecast_out);
    return lull_forecast_pays(forecast_out) ? point : 0;
}

/*
 * The next gap to be switched, wait_ms from the edge of the gap `index` that is now on, and its
 * point; 0: none within the horizon.
 */
static uint32_t find_next(const struct lull_controller *controller,
                          const struct lull_controlled_gpu *gpu, uint32_t index, double wait_ms,
                          uint32_t *next_out, struct lull_forecast *forecast_out)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    const double scale_ms = need_of(controller, gpu).ahead_scale_ms;
    uint64_t iteration = lull_track_iteration(gpu->track);
    uint32_t next = index;

    for (uint32_t hops = 0; hops < count && wait_ms < horizon_ms; hops++) {
        uint32_t point;

        next = (next + 1) % count;
        iteration += next == 0;
        wait_ms += lull_quantile_soft_most(&sections[next].recent_gap, scale_ms);
        point = point_of(controller, gpu, next, iteration, forecast_out);
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

/* Raises, and plans the lowering of the next gap that is switched, wait_ms and more from now. */
static void look_ahead(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                       uint32_t index, double wait_ms, int64_t now_ns)
{
    struct lull_forecast expected = {0};
    uint32_t next = 0;
    const uint32_t point = find_next(controller, gpu, index, wait_ms, &next, &expected);

    /* Nearer than that: at once, if there is nothing to raise. */
    if (gpu->feed.requested == 0 && expected.ahead_ms >= expected.gap_low_ms)
        expected.ahead_ms = expected.gap_low_ms * 0.99;
    if (lull_feed_forward_end(&gpu->feed, now_ns, point, &expected))
        lull_controller_post_feed(controller, gpu);
    gpu->ahead_section = gpu->feed.lower_at_ns == INT64_MAX ? -1 : (int32_t)next;
}

/* A lowering has been asked for ahead of a gap that has yet to begin. */
static bool is_ahead(const struct lull_controlled_gpu *gpu)
{
    return gpu->ahead_section >= 0 && gpu->feed.requested != 0;
}

static bool is_under_test(const struct lull_controller *controller,
                          const struct lull_controlled_gpu *gpu, uint32_t index)
{
    return controller->current != LULL_CONTROLLER_NO_TARGET &&
           gpu->target_of[index] == controller->current;
}

void lull_controller_note_lowering(struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu)
{
    const int32_t index = gpu->ahead_section >= 0 ? gpu->ahead_section : gpu->low_section;

    if (index >= 0 && is_under_test(controller, gpu, (uint32_t)index))
        controller->lowered_gaps++;
}

void lull_controller_gap_begins(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t index, int64_t now_ns)
{
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    struct lull_forecast expected;
    const uint32_t point =
        point_of(controller, gpu, index, lull_track_iteration(gpu->track), &expected);

    if (is_under_test(controller, gpu, index) &&
        lull_controller_planned_point(controller, gpu, gpu->target_of[index],
                                      lull_track_iteration(gpu->track)) != 0)
        controller->tested_gaps++;
    gpu->open_section = (int32_t)index;
    if (gpu->ahead_section == (int32_t)index)
        gpu->ahead_section = -1;
    if (point != 0) {
        gpu->low_section = (int32_t)index;
        gpu->ahead_section = -1;
        lull_low_interval_gap_begins(&gpu->low, now_ns);
        lull_feed_forward_plan(&gpu->feed, now_ns, point, &expected);
    } else if (!is_ahead(gpu)) {
        look_ahead(controller, gpu, index,
                   lull_quantile_soft_most(&sections[index].recent_length,
                                           need_of(controller, gpu).ahead_scale_ms),
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
        look_ahead(controller, gpu, index, 0.0, now_ns);
}

/* An overtaken lowering has effect when lowerings usually have, if the GPU is not high by then. */
static int64_t low_from_ns(const struct lull_controlled_gpu *gpu,
                           const struct lull_switch_outcome *outcome)
{
    const double usual_ms = lull_switch_cost_total_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5) -
                            lull_switch_cost_call_ms(&gpu->cost, LULL_DIRECTION_DOWN, 0.5);

    return outcome->effect_ns +
           (outcome->overtaken ? lull_ns_from_ms(fmax(usual_ms - outcome->settle_ms, 0.0)) : 0);
}

/* Outside a gap that is switched something computes, low: an iteration counts once. */
void lull_controller_note_clock(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome)
{
    if (outcome->point != 0)
        lull_low_interval_lowered(&gpu->low, low_from_ns(gpu, outcome));
    else if (lull_low_interval_raised(&gpu->low, outcome->effect_ns) && gpu->switched_gaps > 0 &&
             gpu->late_now++ < gpu->fold) {
        lull_allowance_spend(&controller->late);
        lull_controller_excuse_pair(controller);
    }
}
