/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/follow/device_plan.h"

#include <assert.h>
#include <stdbool.h>

static bool is_fixed(const struct lull_pipeline_problem *problem, uint32_t op)
{
    return lull_pipeline_class_of(problem, op)->kind == LULL_PIPELINE_FIXED;
}

uint32_t lull_device_plan_count(const struct lull_pipeline_problem *problem, uint32_t device)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    uint32_t count = 0;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++)
        count += !is_fixed(problem, graph->on_device[i]);
    return count;
}

/* The device at the other end of the first edge that leads to another device, or comes from one. */
static uint32_t other_device(const struct lull_pipeline_problem *problem, uint32_t op,
                             bool is_outgoing)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    const uint32_t *first = is_outgoing ? graph->first_out : graph->first_in;
    const uint32_t *edges = is_outgoing ? graph->out_edges : graph->in_edges;

    for (uint32_t i = first[op]; i < first[op + 1]; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[edges[i]];
        const uint32_t other = is_outgoing ? edge->to : edge->from;

        if (graph->ops[other].device != graph->ops[op].device && !is_fixed(problem, other))
            return graph->ops[other].device;
    }
    return LULL_OP_TRACKER_NONE;
}

void lull_device_plan_track(const struct lull_pipeline_problem *problem, const uint32_t *point,
                            uint32_t device, struct lull_op_tracker_op *ops_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const uint32_t op = graph->on_device[i];
        const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);

        if (class->kind == LULL_PIPELINE_FIXED)
            continue;
        *ops_out++ = (struct lull_op_tracker_op){
            .is_backward =
                class->kind != LULL_PIPELINE_FORWARD && class->kind != LULL_PIPELINE_RECOMPUTE,
            .receives_from = other_device(problem, op, false),
            .sends_to = other_device(problem, op, true),
            .length_ns = class->points[point[op]].time_ns,
        };
    }
}

/* The lowest clock that is not below mhz, as an index from the highest one down; mhz 0: the
 * operation has no clock, and the index is 0. */
static uint32_t device_plan_point_of(uint32_t mhz, const uint32_t *clocks_mhz, uint32_t clock_count)
{
    uint32_t point = 0;

    assert(clock_count >= 1);
    while (mhz != 0 && point + 1 < clock_count && clocks_mhz[point + 1] >= mhz)
        point++;
    return point;
}

void lull_device_plan_control(const struct lull_pipeline_problem *problem, const uint32_t *point,
                              const int64_t *begin_ns, uint32_t device, const uint32_t *clocks_mhz,
                              uint32_t clock_count, struct lull_plan_controller_op *ops_out)
{
    const struct lull_pipeline_graph *graph = problem->graph;

    for (uint32_t i = graph->first_on[device]; i < graph->first_on[device + 1]; i++) {
        const uint32_t op = graph->on_device[i];
        const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);
        const struct lull_pipeline_point *chosen = &class->points[point[op]];

        if (class->kind == LULL_PIPELINE_FIXED)
            continue;
        *ops_out++ = (struct lull_plan_controller_op){
            .point = device_plan_point_of(chosen->sm_mhz, clocks_mhz, clock_count),
            .begin_ns = begin_ns[op],
            .end_ns = begin_ns[op] + chosen->time_ns,
        };
    }
}
