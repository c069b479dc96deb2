/*
 * For tests of schedules: a profile whose operations all take one unit, and a simulation of an
 * order that shares no code with the graph's.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_PIPELINE_PIPELINE_UNIT_H
#define LULL_TESTS_CORE_PIPELINE_PIPELINE_UNIT_H

#include <stdlib.h>

#include "core/pipeline/schedule/schedule.h"
#include "../property.h"

enum { UNIT_NS = 1000 };

/* Two stages of one clock: forward, input, weight, overlap and recompute take one unit, backward
 * backward_units. */
static inline void unit_profile(struct lull_pipeline_profile *profile, int64_t backward_units)
{
    const enum lull_pipeline_kind kinds[] = {LULL_PIPELINE_FORWARD, LULL_PIPELINE_BACKWARD,
                                             LULL_PIPELINE_INPUT, LULL_PIPELINE_WEIGHT,
                                             LULL_PIPELINE_RECOMPUTE};

    lull_pipeline_profile_init(profile);
    for (uint32_t stage = 0; stage < 2; stage++) {
        for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
            const struct lull_pipeline_point point = {
                kinds[i] == LULL_PIPELINE_BACKWARD ? backward_units * UNIT_NS : UNIT_NS, 1000,
                1000};

            assert_int_equal(
                lull_pipeline_profile_add(profile, 0, stage, kinds[i], 0, &point, NULL), 0);
        }
    }
    for (uint32_t pair = 0; pair < 4; pair++) {
        const struct lull_pipeline_point point = {UNIT_NS, 1000, 1000};

        assert_int_equal(lull_pipeline_profile_add(profile, 0, pair / 2, LULL_PIPELINE_OVERLAP,
                                                   pair % 2, &point, NULL),
                         0);
    }
}

/* The longest path with every operation at its first option. */
static inline int64_t makespan_ns(const struct lull_pipeline_graph *graph,
                                  const struct lull_pipeline_profile *profile)
{
    int64_t *const duration_ns = calloc(graph->op_count, sizeof(*duration_ns));
    int64_t end_ns;

    assert_non_null(duration_ns);
    for (size_t i = 0; i < graph->op_count; i++)
        duration_ns[i] = profile->classes[graph->ops[i].class_index].points[0].time_ns;
    end_ns = lull_pipeline_earliest(graph, duration_ns, NULL);
    free(duration_ns);
    return end_ns;
}

/* Ends of forwards and input gradients in units; -1: not yet. */
struct unit_simulation {
    const struct lull_pipeline_order *order;
    int64_t *forward;
    int64_t *gradient;
};

static inline int64_t unit_end(const struct unit_simulation *run, const int64_t *ends,
                               uint32_t stage, uint32_t microbatch)
{
    return ends[(size_t)stage * run->order->microbatches + microbatch];
}

/* Returns the time at which the action's data are available; -1: not yet. */
static inline int64_t unit_data(const struct unit_simulation *run,
                                const struct lull_pipeline_action *action)
{
    const bool is_overlap = action->kind == LULL_PIPELINE_OVERLAP;
    const uint32_t s = is_overlap ? action->partner_stage : action->stage;
    const uint32_t m = is_overlap ? action->partner_microbatch : action->microbatch;
    int64_t ready = 0;

    if ((is_overlap || action->kind == LULL_PIPELINE_FORWARD) && action->stage > 0)
        ready = unit_end(run, run->forward, action->stage - 1, action->microbatch);
    if (ready < 0 || action->kind == LULL_PIPELINE_FORWARD)
        return ready;
    if (action->kind == LULL_PIPELINE_WEIGHT)
        return unit_end(run, run->gradient, s, m);
    const int64_t own = unit_end(run, run->forward, s, m);
    const int64_t next = action->kind == LULL_PIPELINE_RECOMPUTE || s + 1 == run->order->stages
                             ? own
                             : unit_end(run, run->gradient, s + 1, m);
    if (own < 0 || next < 0)
        return -1;
    ready = own > ready ? own : ready;
    return next > ready ? next : ready;
}

static inline void unit_finish(const struct unit_simulation *run,
                               const struct lull_pipeline_action *action, int64_t end)
{
    const uint32_t width = run->order->microbatches;

    if (action->kind == LULL_PIPELINE_FORWARD || action->kind == LULL_PIPELINE_OVERLAP)
        run->forward[(size_t)action->stage * width + action->microbatch] = end;
    if (action->kind == LULL_PIPELINE_OVERLAP)
        run->gradient[(size_t)action->partner_stage * width + action->partner_microbatch] = end;
    if (action->kind == LULL_PIPELINE_BACKWARD || action->kind == LULL_PIPELINE_INPUT)
        run->gradient[(size_t)action->stage * width + action->microbatch] = end;
}

/* Replays the order, every action one unit (a backward backward_units); -1: it gets stuck. */
static inline int64_t unit_simulate(const struct lull_pipeline_order *order, int64_t backward_units)
{
    const size_t cells = (size_t)order->stages * order->microbatches;
    struct unit_simulation run = {order, calloc(cells, sizeof(int64_t)),
                                  calloc(cells, sizeof(int64_t))};
    size_t *const next = calloc(order->devices, sizeof(*next));
    int64_t *const free_at = calloc(order->devices, sizeof(*free_at));
    int64_t end = 0;
    bool has_moved = true;

    assert_true(run.forward != NULL && run.gradient != NULL && next != NULL && free_at != NULL);
    for (size_t i = 0; i < cells; i++)
        run.forward[i] = run.gradient[i] = -1;
    while (has_moved) {
        has_moved = false;
        for (uint32_t d = 0; d < order->devices; d++) {
            const struct lull_pipeline_action *action = &order->rows[d].actions[next[d]];
            const int64_t data = next[d] < order->rows[d].count ? unit_data(&run, action) : -1;

            if (data < 0)
                continue;
            free_at[d] = (data > free_at[d] ? data : free_at[d]) +
                         (action->kind == LULL_PIPELINE_BACKWARD ? backward_units : 1);
            end = free_at[d] > end ? free_at[d] : end;
            unit_finish(&run, action, free_at[d]);
            next[d]++;
            has_moved = true;
        }
    }
    for (uint32_t d = 0; d < order->devices; d++)
        end = next[d] < order->rows[d].count ? -1 : end;
    free(free_at);
    free(next);
    free(run.gradient);
    free(run.forward);
    return end;
}

#endif
