/*
 * Time of a plan when clocks need time to settle. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/switching/switching_state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

uint32_t lull_switching_point_below(const struct lull_pipeline_class *class, uint32_t mhz)
{
    assert(class->point_count > 0);
    return (uint32_t)lull_min_size(lull_pipeline_first_not_above(class, mhz),
                                   class->point_count - 1);
}

double lull_switching_stray_nj(const struct lull_pipeline_problem *problem, uint32_t op,
                               uint32_t point, uint32_t mhz, int64_t time_ns)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);
    const double blocking_w = problem->blocking_w[problem->graph->ops[op].device];
    const struct lull_pipeline_point *stray =
        &class->points[lull_switching_point_below(class, mhz)];

    if (time_ns <= 0)
        return 0.0;
    return fmin((double)time_ns / (double)stray->time_ns, 1.0) *
           (lull_pipeline_effective_nj(stray, blocking_w) -
            lull_pipeline_effective_nj(&class->points[point], blocking_w));
}

/* Commands the clock of the device's next operation, as soon as the one before has ended. */
static void switch_time_command_next(struct lull_switching_clock_state *clock,
                                     const struct lull_pipeline_switching *switching, uint32_t mhz,
                                     int64_t *short_ns)
{
    uint32_t low = clock->target_mhz;

    if (mhz == clock->target_mhz)
        return;
    if (clock->end_ns < clock->settled_ns && clock->low_mhz < low)
        low = clock->low_mhz;
    clock->settled_ns = clock->end_ns + (mhz > low ? switching->up_ns : switching->down_ns);
    clock->low_mhz = lull_min_u32(mhz, low);
    clock->target_mhz = mhz;
    if (clock->commands == 0)
        clock->first_command_ns = clock->end_ns;
    else if (clock->end_ns - clock->last_command_ns < switching->dwell_ns)
        *short_ns += switching->dwell_ns - (clock->end_ns - clock->last_command_ns);
    clock->last_command_ns = clock->end_ns;
    clock->commands++;
}

/* Duration of an operation that begins at begin_ns. Until the clock has settled it runs at the
 * slower one. */
static int64_t worst_duration(const struct lull_pipeline_class *class, uint32_t point,
                              const struct lull_switching_clock_state *clock, int64_t begin_ns)
{
    int64_t settled = class->points[point].time_ns;
    int64_t settling = clock->settled_ns - begin_ns;
    int64_t slow;

    if (settling <= 0 || class->points[point].sm_mhz == 0)
        return settled;
    slow = class->points[lull_switching_point_below(class, clock->low_mhz)].time_ns;
    if (slow <= settled)
        return settled;
    if (settling >= slow)
        return slow;
    /* The work that is left runs at the settled clock; its time is rounded up. */
    return settling + (int64_t)((double)(slow - settling) / (double)slow * (double)settled) + 1;
}

/* Sets the clocks that the iteration before leaves. */
static void begin_clocks(const struct lull_pipeline_problem *problem, const uint32_t *point,
                         struct lull_switching_clock_state *clocks)
{
    const struct lull_pipeline_graph *graph = problem->graph;

    memset(clocks, 0, graph->device_count * sizeof(*clocks));
    for (uint32_t device = 0; device < graph->device_count; device++)
        for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++) {
            uint32_t op = graph->on_device[k];
            uint32_t mhz = lull_pipeline_point_of(problem, point, op)->sm_mhz;

            if (mhz > 0)
                clocks[device].target_mhz = mhz;
        }
}

/* By how much the next iteration's first change comes too soon after the last one of this
 * iteration. */
static int64_t short_around(const struct lull_switching_clock_state *clock, int64_t dwell_ns,
                            int64_t period_ns)
{
    int64_t apart = period_ns + clock->first_command_ns - clock->last_command_ns;

    return clock->commands > 0 && apart < dwell_ns ? dwell_ns - apart : 0;
}

/* Operations are visited in topological order, so that all that one waits for has its end already;
 * devices carry their clock state along. */
struct lull_switching_verdict lull_switching_walk(const struct lull_pipeline_problem *problem,
                                                  const struct lull_pipeline_switching *switching,
                                                  const uint32_t *point, int64_t period_ns,
                                                  struct lull_switching_clock_state *clocks,
                                                  int64_t *begin_ns, int64_t *end_ns)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    struct lull_switching_verdict verdict = {0};

    begin_clocks(problem, point, clocks);
    for (size_t i = 0; i < graph->op_count; i++) {
        uint32_t op = graph->topological[i];
        struct lull_switching_clock_state *clock = &clocks[graph->ops[op].device];
        const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);
        uint32_t mhz = class->points[point[op]].sm_mhz;
        int64_t begin = 0;

        for (uint32_t k = graph->first_in[op]; k < graph->first_in[op + 1]; k++) {
            const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[k]];

            if (end_ns[edge->from] + edge->latency_ns > begin)
                begin = end_ns[edge->from] + edge->latency_ns;
        }
        if (mhz > 0)
            switch_time_command_next(clock, switching, mhz, &verdict.short_ns);
        assert(point[op] < class->point_count);
        if (switching->is_fed_forward)
            end_ns[op] = begin + class->points[point[op]].time_ns;
        else
            end_ns[op] = begin + worst_duration(class, point[op], clock, begin);
        clock->end_ns = end_ns[op];
        if (begin_ns != NULL)
            begin_ns[op] = begin;
        if (end_ns[op] > verdict.time_ns)
            verdict.time_ns = end_ns[op];
    }
    for (uint32_t device = 0; device < graph->device_count; device++) {
        verdict.short_ns += short_around(&clocks[device], switching->dwell_ns, period_ns);
        verdict.switches += clocks[device].commands;
    }
    return verdict;
}

int64_t lull_pipeline_switching_timeline(const struct lull_pipeline_problem *problem,
                                         const struct lull_pipeline_switching *switching,
                                         const uint32_t *point, int64_t *begin_out,
                                         int64_t *end_out)
{
    struct lull_switching_clock_state *clocks =
        malloc(problem->graph->device_count * sizeof(*clocks));
    int64_t *end_ns = malloc(problem->graph->op_count * sizeof(*end_ns));
    int64_t makespan_ns = -ENOMEM;

    if (clocks != NULL && end_ns != NULL) {
        makespan_ns =
            lull_switching_walk(problem, switching, point, 0, clocks, begin_out, end_ns).time_ns;
        if (end_out != NULL)
            memcpy(end_out, end_ns, problem->graph->op_count * sizeof(*end_ns));
    }
    free(clocks);
    free(end_ns);
    return makespan_ns;
}
