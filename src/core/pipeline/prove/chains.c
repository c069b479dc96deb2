/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/prove/chains.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

/* Two options, one after the other. */
struct sum {
    struct lull_pipeline_option option;
    struct chain_pick pick;
    double effective_nj;
};

static bool is_pair(const struct chains *chains, uint32_t chain)
{
    return chains->tail[chain] != chains->head[chain];
}

static double blocking_w(const struct chains *chains, uint32_t op)
{
    return chains->asked->blocking_w[chains->asked->graph->ops[op].device];
}

/* ---- options of two ----------------------------------------------------------------------- */

/* All sums of options worth having; sums: to be freed. How many, -ENOMEM. */
static int64_t add_up(const struct chains *chains, uint32_t head, uint32_t tail,
                      struct sum **sums_out)
{
    const struct lull_pipeline_class *first = lull_pipeline_class_of(chains->asked, head);
    const struct lull_pipeline_class *then = lull_pipeline_class_of(chains->asked, tail);
    const double wait_w = blocking_w(chains, head);
    uint32_t chosen[2][LULL_PIPELINE_MAX_OPTIONS];
    const size_t firsts = lull_pipeline_pareto(first, wait_w, false, chosen[0]);
    const size_t thens = lull_pipeline_pareto(then, wait_w, false, chosen[1]);
    struct sum *sum = calloc(firsts * thens, sizeof(*sum));

    *sums_out = sum;
    if (sum == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < firsts; i++)
        for (size_t j = 0; j < thens; j++, sum++) {
            const struct lull_pipeline_option *a = &first->options[chosen[0][i]];
            const struct lull_pipeline_option *b = &then->options[chosen[1][j]];

            sum->option = (struct lull_pipeline_option){.time_ns = a->time_ns + b->time_ns,
                                                        .energy_nj = a->energy_nj + b->energy_nj};
            sum->pick = (struct chain_pick){chosen[0][i], chosen[1][j]};
            sum->effective_nj = lull_pipeline_effective_nj(&sum->option, wait_w);
        }
    return (int64_t)(firsts * thens);
}

static int by_time(const void *left, const void *right)
{
    const struct sum *a = left;
    const struct sum *b = right;

    if (a->option.time_ns != b->option.time_ns)
        return a->option.time_ns < b->option.time_ns ? -1 : 1;
    return (a->effective_nj > b->effective_nj) - (a->effective_nj < b->effective_nj);
}

/* Leaves those that nothing as fast is cheaper than, in the order of their times. */
static size_t leave_best(struct sum *sums, size_t count)
{
    double least_nj = INFINITY;
    size_t kept = 0;

    qsort(sums, count, sizeof(*sums), by_time);
    for (size_t i = 0; i < count; i++)
        if (sums[i].effective_nj < least_nj) {
            least_nj = sums[i].effective_nj;
            sums[kept++] = sums[i];
        }
    return kept;
}

static int keep(struct chains *chains, const struct sum *sums, size_t count)
{
    const size_t need = chains->option_count + count;

    if (need > chains->option_room) {
        const size_t room = 2 * need;
        void *options = realloc(chains->options, room * sizeof(*chains->options));
        void *picks;

        if (options == NULL)
            return -ENOMEM;
        chains->options = options;
        picks = realloc(chains->picks, room * sizeof(*chains->picks));
        if (picks == NULL)
            return -ENOMEM;
        chains->picks = picks;
        chains->option_room = room;
    }
    for (size_t i = 0; i < count; i++) {
        chains->options[chains->option_count] = sums[i].option;
        chains->picks[chains->option_count++] = sums[i].pick;
    }
    return 0;
}

/* ---- who is one with whom ----------------------------------------------------------------- */

/* The operation that this one alone goes on from, on its device; itself: there is none. */
static uint32_t before(const struct lull_pipeline_graph *graph, uint32_t op)
{
    const struct lull_pipeline_edge *edge;

    if (graph->first_in[op + 1] - graph->first_in[op] != 1)
        return op;
    edge = &graph->edges[graph->in_edges[graph->first_in[op]]];
    return edge->latency_ns == 0 && graph->ops[edge->from].device == graph->ops[op].device &&
                   graph->first_out[edge->from + 1] - graph->first_out[edge->from] == 1
               ? edge->from
               : op;
}

/* Makes the operation part of the one before it, if that leaves few enough options: no third one.
 * 1, 0, -ENOMEM. */
static int join(struct chains *chains, uint32_t op)
{
    const uint32_t from = before(chains->asked->graph, op);
    const uint32_t chain = chains->chain_of[from];
    struct sum *sums;
    int64_t count;
    int result;

    if (from == op || is_pair(chains, chain))
        return 0;
    count = add_up(chains, from, op, &sums);
    if (count < 0)
        return (int)count;
    count = (int64_t)leave_best(sums, (size_t)count);
    result = count <= LULL_PIPELINE_MAX_OPTIONS;
    if (result == 1) {
        chains->chain_of[op] = chain;
        chains->tail[chain] = op;
        chains->first[chain] = chains->option_count;
        chains->profile.classes[chain].option_count = (size_t)count;
        if (keep(chains, sums, (size_t)count) < 0)
            result = -ENOMEM;
    }
    free(sums);
    return result;
}

static int begin(struct chains *chains, uint32_t op)
{
    struct lull_pipeline_op made = chains->asked->graph->ops[op];
    int64_t chain;

    made.class_index = (uint32_t)chains->graph.op_count;
    chain = lull_pipeline_graph_add(&chains->graph, &made);
    if (chain < 0)
        return (int)chain;
    chains->chain_of[op] = (uint32_t)chain;
    chains->head[chain] = chains->tail[chain] = op;
    chains->profile.classes[chain] = *lull_pipeline_class_of(chains->asked, op);
    return 0;
}

/* Each device's operations in its order, so that chains have it as well. */
static int add_all(struct chains *chains)
{
    const struct lull_pipeline_graph *graph = chains->asked->graph;

    for (size_t i = 0; i < graph->op_count; i++) {
        int result = join(chains, graph->on_device[i]);

        if (result == 0)
            result = begin(chains, graph->on_device[i]);
        if (result < 0)
            return result;
    }
    chains->profile.class_count = chains->graph.op_count;
    for (uint32_t chain = 0; chain < chains->graph.op_count; chain++)
        if (is_pair(chains, chain))
            chains->profile.classes[chain].options = &chains->options[chains->first[chain]];
    return 0;
}

static int connect(struct chains *chains)
{
    const struct lull_pipeline_graph *graph = chains->asked->graph;

    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[i];
        const uint32_t from = chains->chain_of[edge->from];
        const uint32_t to = chains->chain_of[edge->to];
        const int result =
            from != to ? lull_pipeline_graph_connect(&chains->graph, from, to, edge->latency_ns)
                       : 0;

        if (result < 0)
            return result;
    }
    return lull_pipeline_graph_finish(&chains->graph, &chains->profile, NULL);
}

/* ---- made and used ------------------------------------------------------------------------ */

int lull_chains_init(struct chains *chains, const struct lull_pipeline_problem *asked)
{
    const size_t count = asked->graph->op_count;
    int result;

    *chains = (struct chains){
        .asked = asked,
        .profile.classes = calloc(count, sizeof(*chains->profile.classes)),
        .chain_of = calloc(count, sizeof(*chains->chain_of)),
        .head = calloc(count, sizeof(*chains->head)),
        .tail = calloc(count, sizeof(*chains->tail)),
        .first = calloc(count, sizeof(*chains->first)),
    };
    if (chains->profile.classes == NULL || chains->chain_of == NULL || chains->head == NULL ||
        chains->tail == NULL || chains->first == NULL)
        return -ENOMEM;
    result = add_all(chains);
    chains->problem =
        (struct lull_pipeline_problem){&chains->profile, &chains->graph, asked->blocking_w};
    return result == 0 ? connect(chains) : result;
}

void lull_chains_fini(struct chains *chains)
{
    lull_pipeline_graph_fini(&chains->graph);
    free(chains->profile.classes);
    free(chains->chain_of);
    free(chains->head);
    free(chains->tail);
    free(chains->first);
    free(chains->options);
    free(chains->picks);
}

void lull_chains_plan(const struct chains *chains, const uint32_t *option, uint32_t *option_out)
{
    for (uint32_t chain = 0; chain < chains->graph.op_count; chain++)
        if (is_pair(chains, chain)) {
            const struct chain_pick pick = chains->picks[chains->first[chain] + option[chain]];

            option_out[chains->head[chain]] = pick.head;
            option_out[chains->tail[chain]] = pick.tail;
        } else {
            option_out[chains->head[chain]] = option[chain];
        }
}
