/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/periodic_expand.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/smaller.h"

static int compare(uint32_t left, uint32_t right)
{
    return (left > right) - (left < right);
}

/* Compares all of a key but its repeat. */
static int by_name(const struct lull_periodic_op_key *left,
                   const struct lull_periodic_op_key *right)
{
    int order = compare(left->op.device, right->op.device);

    if (order == 0)
        order = compare(left->op.class_index, right->op.class_index);
    if (order == 0)
        order = compare(left->op.chunk, right->op.chunk);
    if (order == 0)
        order = compare(left->op.microbatch, right->op.microbatch);
    return order;
}

static int by_index(const void *a, const void *b)
{
    const struct lull_periodic_op_key *left = a;
    const struct lull_periodic_op_key *right = b;
    const int order = by_name(left, right);

    if (order != 0)
        return order;
    return compare(left->index, right->index);
}

static int by_repeat(const void *a, const void *b)
{
    const struct lull_periodic_op_key *left = a;
    const struct lull_periodic_op_key *right = b;
    const int order = by_name(left, right);

    if (order != 0)
        return order;
    return compare(left->repeat, right->repeat);
}

/* Lists the keys of all operations, sorted. Returns null where there is no memory. */
static struct lull_periodic_op_key *list_keys(struct lull_memory *memory,
                                              const struct lull_pipeline_graph *graph)
{
    struct lull_periodic_op_key *const keys =
        lull_memory_take(memory, graph->op_count, sizeof(*keys));

    if (keys == NULL)
        return NULL;
    for (uint32_t i = 0; i < graph->op_count; i++)
        keys[i] = (struct lull_periodic_op_key){graph->ops[i], 0, i};
    qsort(keys, graph->op_count, sizeof(*keys), by_index);
    for (size_t i = 1; i < graph->op_count; i++)
        if (by_name(&keys[i - 1], &keys[i]) == 0)
            keys[i].repeat = keys[i - 1].repeat + 1;
    return keys;
}

/* Lists sorted keys in the order of the operations. Returns null where there is no memory. */
static struct lull_periodic_op_key *
list_keys_by_op(struct lull_memory *memory, const struct lull_periodic_op_key *sorted, size_t count)
{
    struct lull_periodic_op_key *const keys = lull_memory_take(memory, count, sizeof(*keys));

    for (size_t i = 0; sorted != NULL && keys != NULL && i < count; i++)
        keys[sorted[i].index] = sorted[i];
    return keys;
}

static uint32_t microbatches_of(const struct lull_pipeline_graph *graph)
{
    uint32_t last = 0;

    for (size_t i = 0; i < graph->op_count; i++)
        last = lull_larger_u32(graph->ops[i].microbatch, last);
    return last + 1;
}

/* The micro-batch of the small pipeline that stands for one of the full pipeline. */
static uint32_t small_microbatch(const struct lull_periodic_expansion *expansion,
                                 uint32_t microbatch)
{
    const int64_t added = expansion->periods * expansion->period;

    if (microbatch < expansion->column)
        return microbatch;
    if (microbatch >= expansion->column + expansion->period + added)
        return (uint32_t)(microbatch - added);
    return expansion->column + (microbatch - expansion->column) % expansion->period;
}

const struct lull_periodic_op_key *
lull_periodic_expansion_find(const struct lull_periodic_expansion *expansion,
                             const struct lull_periodic_op_key *key)
{
    return bsearch(key, expansion->small, expansion->problem->small.graph->op_count, sizeof(*key),
                   by_repeat);
}

/* Every operation of the full pipeline must have one that stands for it, or the graphs do not
 * continue each other. */
static int find_representatives(struct lull_periodic_expansion *expansion, struct lull_error *err)
{
    const struct lull_pipeline_graph *full = expansion->problem->full.graph;

    for (size_t op = 0; op < full->op_count; op++) {
        struct lull_periodic_op_key key = expansion->full[op];
        const struct lull_periodic_op_key *found;

        key.op.microbatch = small_microbatch(expansion, key.op.microbatch);
        found = lull_periodic_expansion_find(expansion, &key);
        if (found == NULL)
            return lull_error_set(err, -EINVAL,
                                  "operation %zu (device %" PRIu32 ", microbatch %" PRIu32
                                  ") has no like in the shorter pipeline",
                                  op, full->ops[op].device, full->ops[op].microbatch);
        expansion->stands_for[op] = found->index;
    }
    return 0;
}

/* Checks that the three pipelines differ by whole periods, before any operation is looked up. */
static int compare_sizes(struct lull_periodic_expansion *expansion, struct lull_error *err)
{
    const struct lull_periodic_problem *problem = expansion->problem;
    const uint32_t small = microbatches_of(problem->small.graph);
    const uint32_t larger = microbatches_of(problem->larger.graph);
    const uint32_t full = microbatches_of(problem->full.graph);
    const size_t per_period = problem->larger.graph->op_count - problem->small.graph->op_count;

    if (larger <= small || full < small || (full - small) % (larger - small) != 0)
        return lull_error_set(err, -EINVAL,
                              "%" PRIu32 ", %" PRIu32 " and %" PRIu32
                              " micro-batches are not a small pipeline, one period and several",
                              small, larger, full);
    expansion->small_microbatches = small;
    expansion->period = larger - small;
    expansion->periods = (full - small) / expansion->period;
    if (problem->full.graph->op_count !=
        problem->small.graph->op_count + (size_t)expansion->periods * per_period)
        return lull_error_set(err, -EINVAL, "the pipeline does not repeat itself: %zu operations",
                              problem->full.graph->op_count);
    if (expansion->period >= small)
        return lull_error_set(err, -EINVAL, "%" PRIu32 " micro-batches are too few", small);
    expansion->column = (small - expansion->period) / 2;
    return 0;
}

int lull_periodic_expansion_init(struct lull_periodic_expansion *expansion,
                                 const struct lull_periodic_problem *problem,
                                 struct lull_error *err)
{
    const struct lull_pipeline_graph *small = problem->small.graph;
    const struct lull_pipeline_graph *full = problem->full.graph;
    struct lull_memory *const memory = &expansion->memory;
    struct lull_memory scratch = {0}; /* of the full graph's sorted keys */
    int status;

    expansion->problem = problem;
    status = compare_sizes(expansion, err);
    if (status != 0)
        return status;
    expansion->small = list_keys(memory, small);
    expansion->small_by_op = list_keys_by_op(memory, expansion->small, small->op_count);
    expansion->full = list_keys_by_op(memory, list_keys(&scratch, full), full->op_count);
    expansion->stands_for = lull_memory_take(memory, full->op_count, sizeof(uint32_t));
    expansion->small_duration_ns = lull_memory_take(memory, small->op_count, sizeof(int64_t));
    expansion->begin_ns = lull_memory_take(memory, full->op_count, sizeof(int64_t));
    status = memory->has_failed || scratch.has_failed ? -ENOMEM : 0;
    lull_memory_free(&scratch);
    if (status != 0 || lull_certificate_init(&expansion->small_flow, small) != 0)
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    return find_representatives(expansion, err);
}

void lull_periodic_expansion_fini(struct lull_periodic_expansion *expansion)
{
    lull_memory_free(&expansion->memory);
    lull_certificate_fini(&expansion->small_flow);
}

bool lull_periodic_expansion_choose(struct lull_periodic_expansion *expansion, uint32_t number)
{
    const uint32_t columns = expansion->small_microbatches - expansion->period;
    const uint32_t away = (number + 1) / 2;

    if (number > 0 && number >= columns)
        return false;
    expansion->column = number % 2 == 1 ? columns / 2 - away : columns / 2 + away;
    /* Tells whether there are representatives does not depend on the column. */
    return find_representatives(expansion, NULL) == 0;
}

void lull_periodic_expansion_durations(const struct lull_periodic_expansion *expansion,
                                       const struct lull_frontier *small, int64_t *duration_out)
{
    lull_frontier_durations(small, expansion->small_duration_ns);
    for (size_t op = 0; op < expansion->problem->full.graph->op_count; op++)
        duration_out[op] = expansion->small_duration_ns[expansion->stands_for[op]];
}

/* How alike two edges are at their begin: 2 the begins are alike and as many micro-batches back, 1
 * they are alike, 0 they are not. */
static int likeness(const struct lull_periodic_op_key *from, const struct lull_periodic_op_key *to,
                    const struct lull_periodic_op_key *small_from,
                    const struct lull_periodic_op_key *small_to)
{
    if (from->op.device != small_from->op.device || from->op.chunk != small_from->op.chunk ||
        from->op.class_index != small_from->op.class_index || from->repeat != small_from->repeat)
        return 0;
    if (to->op.microbatch - from->op.microbatch !=
        small_to->op.microbatch - small_from->op.microbatch)
        return 1;
    return 2;
}

/* The flow of the small graph's edge that stands for one of the full graph: of those into the
 * operation at its end, the one most alike. */
static int64_t edge_flow(const struct lull_periodic_expansion *expansion,
                         const struct lull_pipeline_edge *edge)
{
    const struct lull_pipeline_graph *small = expansion->problem->small.graph;
    const uint32_t to = expansion->stands_for[edge->to];
    int best = 0;
    int64_t flow = 0;

    for (uint32_t i = small->first_in[to]; i < small->first_in[to + 1]; i++) {
        const uint32_t index = small->in_edges[i];
        const int like = likeness(&expansion->full[edge->from], &expansion->full[edge->to],
                                  &expansion->small_by_op[small->edges[index].from],
                                  &expansion->small_by_op[to]);

        if (like > best) {
            best = like;
            flow = expansion->small_flow.edge_flow[index];
        }
    }
    return flow;
}

/* The full graph's edges, and the flow over them that is to be conserved. */
struct fan {
    const struct lull_pipeline_graph *graph;
    const int64_t *begin_ns;
    const int64_t *duration_ns;
    int64_t *flow; /* by edge */
};

static int64_t slack_ns(const struct fan *fan, uint32_t index)
{
    const struct lull_pipeline_edge *edge = &fan->graph->edges[index];

    return fan->begin_ns[edge->to] - fan->begin_ns[edge->from] - fan->duration_ns[edge->from] -
           edge->latency_ns;
}

/* Lets the rest flow over the edge with the least slack. */
static void add_rest(const struct fan *fan, uint32_t op, int64_t rest)
{
    const struct lull_pipeline_graph *graph = fan->graph;
    uint32_t best = graph->out_edges[graph->first_out[op]];

    for (uint32_t i = graph->first_out[op] + 1; i < graph->first_out[op + 1]; i++) {
        if (slack_ns(fan, graph->out_edges[i]) < slack_ns(fan, best))
            best = graph->out_edges[i];
    }
    fan->flow[best] += rest;
}

/* Takes away the flow that does not come, from the edges with the most slack. */
static void take_away(const struct fan *fan, uint32_t op, int64_t missing)
{
    const struct lull_pipeline_graph *graph = fan->graph;

    while (missing > 0) {
        uint32_t worst = UINT32_MAX;
        int64_t part;

        for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++) {
            const uint32_t index = graph->out_edges[i];

            if (fan->flow[index] > 0 &&
                (worst == UINT32_MAX || slack_ns(fan, index) > slack_ns(fan, worst)))
                worst = index;
        }
        assert(worst != UINT32_MAX);
        part = fan->flow[worst] < missing ? fan->flow[worst] : missing;
        fan->flow[worst] -= part;
        missing -= part;
    }
}

/*
 * Where the small pipeline's flow does not repeat itself exactly, more or less flow comes to an
 * operation than leaves it. In the order of the operations, this lets leave what comes.
 */
static void conserve(const struct fan *fan, struct lull_certificate *certificate)
{
    const struct lull_pipeline_graph *graph = fan->graph;

    certificate->value = 0;
    for (size_t place = 0; place < graph->op_count; place++) {
        const uint32_t op = graph->topological[place];
        int64_t comes = 0;
        int64_t leaves = 0;

        for (uint32_t i = graph->first_in[op]; i < graph->first_in[op + 1]; i++)
            comes += fan->flow[graph->in_edges[i]];
        if (graph->first_in[op] == graph->first_in[op + 1]) {
            comes = certificate->op_flow[op];
            certificate->value += comes;
        }
        certificate->op_flow[op] = comes;
        for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++)
            leaves += fan->flow[graph->out_edges[i]];
        if (graph->first_out[op] == graph->first_out[op + 1])
            continue;
        if (comes > leaves)
            add_rest(fan, op, comes - leaves);
        else
            take_away(fan, op, leaves - comes);
    }
}

int lull_periodic_expansion_certify(struct lull_periodic_expansion *expansion,
                                    const struct lull_frontier *small, const int64_t *duration_ns,
                                    struct lull_certificate *certificate)
{
    const struct lull_pipeline_graph *full = expansion->problem->full.graph;
    const struct fan fan = {full, expansion->begin_ns, duration_ns, certificate->edge_flow};

    lull_frontier_certify(small, &expansion->small_flow);
    lull_pipeline_earliest(full, duration_ns, expansion->begin_ns);
    certificate->unit_w = expansion->small_flow.unit_w;
    for (size_t op = 0; op < full->op_count; op++)
        certificate->op_flow[op] = expansion->small_flow.op_flow[expansion->stands_for[op]];
    for (size_t i = 0; i < full->edge_count; i++)
        certificate->edge_flow[i] = edge_flow(expansion, &full->edges[i]);
    conserve(&fan, certificate);
    return lull_certificate_check(certificate, full, NULL);
}
