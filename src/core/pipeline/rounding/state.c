/*
 * Rounding: what is prepared for a problem. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/state.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The number of the ladder of a class at a blocking power; it makes a new one, still without steps,
 * where there is none. */
static uint32_t find_ladder(struct lull_pipeline_rounding *rounding, uint32_t class_index,
                            double blocking_w)
{
    struct lull_rounding_ladder *ladders = rounding->ladders;

    for (uint32_t i = rounding->ladder_count; i-- > 0;)
        if (ladders[i].class_index == class_index && !(ladders[i].blocking_w < blocking_w) &&
            !(ladders[i].blocking_w > blocking_w))
            return i;
    ladders[rounding->ladder_count].class_index = class_index;
    ladders[rounding->ladder_count].blocking_w = blocking_w;
    return rounding->ladder_count++;
}

/* Makes a ladder for each class and blocking power, and allocates steps for all operating points of
 * these.
 */
static int make_ladders(struct lull_pipeline_rounding *rounding)
{
    const struct lull_pipeline_problem *problem = rounding->problem;
    size_t most = 0;

    rounding->ladders =
        lull_memory_take(&rounding->memory, rounding->count, sizeof(*rounding->ladders));
    rounding->ladder_of =
        lull_memory_take(&rounding->memory, rounding->count, sizeof(*rounding->ladder_of));
    if (rounding->memory.has_failed)
        return -ENOMEM;
    for (uint32_t op = 0; op < rounding->count; op++) {
        const struct lull_pipeline_op *it = &problem->graph->ops[rounding->place[op]];

        rounding->ladder_of[op] =
            find_ladder(rounding, it->class_index, problem->blocking_w[it->device]);
    }
    for (uint32_t i = 0; i < rounding->ladder_count; i++)
        most += problem->profile->classes[rounding->ladders[i].class_index].point_count;
    rounding->steps = lull_memory_take(&rounding->memory, most, sizeof(*rounding->steps));
    return rounding->memory.has_failed ? -ENOMEM : 0;
}

/* Cost of a ladder's first step less that of its last, nJ. */
static double span_nj(const struct lull_pipeline_class *class, const uint32_t *chosen, size_t count,
                      double blocking_w)
{
    return lull_pipeline_effective_nj(&class->points[chosen[0]], blocking_w) -
           lull_pipeline_effective_nj(&class->points[chosen[count - 1]], blocking_w);
}

/* Chooses the steps; returns the sum of all operations' spans, nJ. */
static double choose_steps(struct lull_pipeline_rounding *rounding)
{
    double sum_nj = 0.0;

    for (uint32_t i = 0; i < rounding->ladder_count; i++) {
        struct lull_rounding_ladder *ladder = &rounding->ladders[i];
        const struct lull_pipeline_class *class =
            &rounding->problem->profile->classes[ladder->class_index];
        uint32_t chosen[LULL_PIPELINE_MAX_OPTIONS];

        ladder->first = rounding->step_count;
        ladder->steps = rounding->steps + ladder->first;
        ladder->count = (uint32_t)lull_pipeline_pareto(class, ladder->blocking_w, false, chosen);
        ladder->span_nj = span_nj(class, chosen, ladder->count, ladder->blocking_w);
        assert(ladder->count > 0);
        for (uint32_t k = 0; k < ladder->count; k++)
            ladder->steps[k] =
                (struct lull_rounding_ladder_step){class->points[chosen[k]].time_ns, 0, chosen[k]};
        rounding->step_count += ladder->count;
    }
    for (uint32_t op = 0; op < rounding->count; op++)
        sum_nj += ladder_at(rounding, op)->span_nj;
    return sum_nj;
}

/* Sets costs, which are 0 at the last step and scaled so that the dearest plan stays below
 * COST_LIMIT. */
static void price_steps(struct lull_pipeline_rounding *rounding, double sum_nj)
{
    double scale = sum_nj > 0.0 ? (double)COST_LIMIT / 2.0 / sum_nj : 1.0;

    for (uint32_t i = 0; i < rounding->ladder_count; i++) {
        const struct lull_rounding_ladder *ladder = &rounding->ladders[i];
        const struct lull_pipeline_point *points =
            rounding->problem->profile->classes[ladder->class_index].points;
        double least = lull_pipeline_effective_nj(&points[ladder->steps[ladder->count - 1].point],
                                                  ladder->blocking_w);

        for (uint32_t k = 0; k < ladder->count; k++) {
            double nj =
                lull_pipeline_effective_nj(&points[ladder->steps[k].point], ladder->blocking_w);

            ladder->steps[k].cost = llround((nj - least) * scale);
            assert(ladder->steps[k].cost >= 0 && ladder->steps[k].cost < COST_LIMIT);
        }
    }
}

/* Lists the edges by the places of their operations, in both directions. */
static void number_edges(struct lull_pipeline_rounding *rounding)
{
    const struct lull_pipeline_graph *graph = rounding->problem->graph;
    uint32_t *where = rounding->trial; /* not in use yet */
    uint32_t ins = 0;
    uint32_t outs = 0;

    for (uint32_t op = 0; op < rounding->count; op++)
        where[rounding->place[op]] = op;
    for (uint32_t op = 0; op < rounding->count; op++) {
        uint32_t id = rounding->place[op];

        rounding->first_in[op] = ins;
        for (uint32_t k = graph->first_in[id]; k < graph->first_in[id + 1]; k++) {
            const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[k]];

            rounding->in[ins++] = (struct lull_rounding_link){where[edge->from], edge->latency_ns};
        }
        rounding->first_out[op] = outs;
        for (uint32_t k = graph->first_out[id]; k < graph->first_out[id + 1]; k++) {
            const struct lull_pipeline_edge *edge = &graph->edges[graph->out_edges[k]];

            rounding->out[outs++] = (struct lull_rounding_link){where[edge->to], edge->latency_ns};
        }
    }
    assert(ins == graph->edge_count && outs == graph->edge_count);
    rounding->first_in[rounding->count] = ins;
    rounding->first_out[rounding->count] = outs;
}

/* Allocates what every rounding needs. */
static int rounding_state_make_room(struct lull_pipeline_rounding *rounding)
{
    struct lull_memory *const memory = &rounding->memory;
    const size_t count = rounding->count;
    const size_t edges = rounding->problem->graph->edge_count;

    rounding->first_in = lull_memory_take(memory, count + 1, sizeof(*rounding->first_in));
    rounding->first_out = lull_memory_take(memory, count + 1, sizeof(*rounding->first_out));
    rounding->in = lull_memory_take(memory, edges, sizeof(*rounding->in));
    rounding->out = lull_memory_take(memory, edges, sizeof(*rounding->out));
    rounding->end_ns = lull_memory_take(memory, count, sizeof(*rounding->end_ns));
    rounding->latest_begin_ns = lull_memory_take(memory, count, sizeof(int64_t));
    rounding->duration_ns = lull_memory_take(memory, count, sizeof(*rounding->duration_ns));
    rounding->step = lull_memory_take(memory, count, sizeof(*rounding->step));
    rounding->trial = lull_memory_take(memory, count, sizeof(*rounding->trial));
    rounding->shorter = lull_memory_take(memory, count, sizeof(*rounding->shorter));
    rounding->point = lull_memory_take(memory, count, sizeof(*rounding->point));
    return memory->has_failed ? -ENOMEM : 0;
}

/* Allocates what only moves need: the roundings for a frontier make none. */
static int make_move_room(struct lull_pipeline_rounding *rounding)
{
    struct lull_memory *const memory = &rounding->memory;
    const size_t widths = (size_t)rounding->step_count * WIDTHS_OF_A_STEP;

    rounding->widths = lull_memory_take(memory, widths, sizeof(*rounding->widths));
    rounding->users = lull_memory_take(memory, rounding->step_count, sizeof(*rounding->users));
    rounding->gain = lull_memory_take(memory, rounding->count, sizeof(*rounding->gain));
    rounding->op_flow = lull_memory_take(memory, rounding->count, sizeof(*rounding->op_flow));
    rounding->edge_flow = lull_memory_take(memory, rounding->problem->graph->edge_count,
                                           sizeof(*rounding->edge_flow));
    return lull_cut_create(rounding);
}

int lull_round_prepare_moves(struct lull_pipeline_rounding *rounding)
{
    if (rounding->cut.node_count == 0 && make_move_room(rounding) < 0)
        return -ENOMEM;
    /* A plan must not depend on those made before. */
    memset(rounding->op_flow, 0, rounding->count * sizeof(*rounding->op_flow));
    memset(rounding->edge_flow, 0,
           rounding->first_out[rounding->count] * sizeof(*rounding->edge_flow));
    return 0;
}

int lull_pipeline_rounding_create(const struct lull_pipeline_problem *problem,
                                  struct lull_pipeline_rounding **rounding_out)
{
    struct lull_pipeline_rounding *rounding = calloc(1, sizeof(*rounding));
    int rc;

    if (rounding == NULL)
        return -ENOMEM;
    rounding->problem = problem;
    rounding->count = (uint32_t)problem->graph->op_count;
    rounding->place = problem->graph->topological;
    rc = rounding_state_make_room(rounding);
    if (rc < 0)
        goto fail;
    rc = make_ladders(rounding);
    if (rc < 0)
        goto fail;
    price_steps(rounding, choose_steps(rounding));
    number_edges(rounding);
    *rounding_out = rounding;
    return 0;
fail:
    lull_pipeline_rounding_destroy(rounding);
    return rc;
}

void lull_pipeline_rounding_destroy(struct lull_pipeline_rounding *rounding)
{
    if (rounding == NULL)
        return;
    lull_memory_free(&rounding->memory);
    free(rounding);
}
