/*
 * Plans that pay for their changes. Time has a price on each operation, from the flow that proves
 * the frontier's bound; each device by itself then has a cheapest sequence of clocks, changes
 * included. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/switching/switching_state.h"

/* The operations of a device that have a clock, and the cheapest sequences that lead up to them. */
struct lane {
    const struct lull_switching_search *search;
    const struct lull_pipeline_problem *problem; /* the search's */
    const double *price_w;
    uint32_t *ops;
    uint32_t count;
    uint32_t width;   /* the most operating points that an operation has */
    uint32_t *before; /* [place][operating point]: the operating point of the operation before */
    double *cost_nj;  /* [operating point]: the cost up to here */
    double *next_nj;
};

static double effective_nj(const struct lane *lane, uint32_t op, uint32_t point)
{
    const struct lull_pipeline_problem *problem = lane->problem;

    return lull_pipeline_effective_nj(&lull_pipeline_class_of(problem, op)->points[point],
                                      problem->blocking_w[problem->graph->ops[op].device]);
}

/* What the change from one operation's operating point to the next one's costs, nJ. */
static double change_nj(const struct lane *lane, uint32_t place, uint32_t from, uint32_t to)
{
    const struct lull_pipeline_switching *switching = lane->search->switching;
    const uint32_t before = lane->ops[place - 1];
    const uint32_t op = lane->ops[place];
    const uint32_t from_mhz = lull_pipeline_class_of(lane->problem, before)->points[from].sm_mhz;
    const uint32_t to_mhz = lull_pipeline_class_of(lane->problem, op)->points[to].sm_mhz;
    const int64_t *end_ns = lane->search->end_ns;
    const int64_t pause_ns =
        end_ns[op] - lull_pipeline_point_of(lane->problem, lane->search->plan, op)->time_ns -
        end_ns[before];
    const double change = switching->switch_j * 1e9;

    if (to_mhz == from_mhz)
        return 0.0;
    if (to_mhz > from_mhz)
        return change + lull_switching_stray_nj(lane->problem, before, from, to_mhz,
                                                switching->early_ns - pause_ns);
    return change +
           lull_switching_stray_nj(lane->problem, op, to, from_mhz, switching->down_ns - pause_ns);
}

/* Extends the sequences by the operation at a place. */
static void extend(struct lane *lane, uint32_t place)
{
    const uint32_t op = lane->ops[place];
    const struct lull_pipeline_class *class = lull_pipeline_class_of(lane->problem, op);
    const size_t before_count =
        place > 0 ? lull_pipeline_class_of(lane->problem, lane->ops[place - 1])->point_count : 0;
    double *const swapped = lane->cost_nj;

    for (uint32_t to = 0; to < class->point_count; to++) {
        uint32_t best = 0;
        double best_nj = INFINITY;

        for (uint32_t from = 0; from < before_count; from++) {
            const double sum_nj = lane->cost_nj[from] + change_nj(lane, place, from, to);

            if (sum_nj < best_nj) {
                best_nj = sum_nj;
                best = from;
            }
        }
        lane->before[(size_t)place * lane->width + to] = best;
        lane->next_nj[to] = (place > 0 ? best_nj : 0.0) + effective_nj(lane, op, to) +
                            lane->price_w[op] * (double)class->points[to].time_ns;
    }
    lane->cost_nj = lane->next_nj;
    lane->next_nj = swapped;
}

/* Writes the cheapest sequence. */
static void choose(const struct lane *lane, uint32_t *point_out)
{
    const uint32_t last = lane->ops[lane->count - 1];
    uint32_t best = 0;

    for (uint32_t i = 1; i < lull_pipeline_class_of(lane->problem, last)->point_count; i++)
        if (lane->cost_nj[i] < lane->cost_nj[best])
            best = i;
    for (uint32_t place = lane->count; place-- > 0;) {
        point_out[lane->ops[place]] = best;
        /* NOLINTNEXTLINE(clang-analyzer-core.uninitialized.Assign): extend() has written it. */
        best = lane->before[(size_t)place * lane->width + best];
    }
}

/* Operations without a clock are left out: they neither ask for a change nor stand in the way of
 * one. */
static void plan_device(struct lane *lane, uint32_t device, uint32_t *point_out)
{
    const struct lull_pipeline_graph *graph = lane->problem->graph;

    lane->count = 0;
    for (uint32_t k = graph->first_on[device]; k < graph->first_on[device + 1]; k++)
        if (lull_pipeline_class_of(lane->problem, graph->on_device[k])->points[0].sm_mhz > 0)
            lane->ops[lane->count++] = graph->on_device[k];
    for (uint32_t place = 0; place < lane->count; place++)
        extend(lane, place);
    if (lane->count > 0)
        choose(lane, point_out);
}

int lull_switching_price(struct lull_switching_search *search, const double *price_w)
{
    const struct lull_pipeline_graph *graph = search->problem->graph;
    struct lane lane = {.search = search, .problem = search->problem, .price_w = price_w};
    struct lull_memory memory = {0};
    int rc = 0;

    for (size_t i = 0; i < search->problem->profile->class_count; i++)
        if (search->problem->profile->classes[i].point_count > lane.width)
            lane.width = (uint32_t)search->problem->profile->classes[i].point_count;
    assert(lane.width > 0);
    lane.ops = lull_memory_take(&memory, graph->op_count, sizeof(*lane.ops));
    lane.before = lull_memory_take(&memory, graph->op_count * lane.width, sizeof(*lane.before));
    lane.cost_nj = lull_memory_take(&memory, lane.width, sizeof(*lane.cost_nj));
    lane.next_nj = lull_memory_take(&memory, lane.width, sizeof(*lane.next_nj));
    if (memory.has_failed) {
        rc = -ENOMEM;
        goto done;
    }
    lull_switching_verdict(search, search->plan); /* changes read its times */
    memcpy(search->trial, search->plan, graph->op_count * sizeof(*search->trial));
    for (uint32_t device = 0; device < graph->device_count; device++)
        plan_device(&lane, device, search->trial);
    memcpy(search->plan, search->trial, graph->op_count * sizeof(*search->plan));
done:
    lull_memory_free(&memory);
    return rc;
}
