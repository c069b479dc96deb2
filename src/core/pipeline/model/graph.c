/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/model/graph.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void lull_pipeline_graph_init(struct lull_pipeline_graph *graph)
{
    memset(graph, 0, sizeof(*graph));
}

void lull_pipeline_graph_fini(struct lull_pipeline_graph *graph)
{
    if (graph == NULL)
        return;
    free(graph->ops);
    free(graph->edges);
    lull_memory_free(&graph->memory);
    lull_pipeline_graph_init(graph);
}

int64_t lull_pipeline_graph_add(struct lull_pipeline_graph *graph,
                                const struct lull_pipeline_op *op)
{
    if (graph->op_count == LULL_PIPELINE_MAX_OPS || op->device >= LULL_PIPELINE_MAX_DEVICES)
        return -E2BIG;
    if (lull_array_grow(&graph->ops, graph->op_count, sizeof(*graph->ops)) < 0)
        return -ENOMEM;
    graph->ops[graph->op_count] = *op;
    if (op->device >= graph->device_count)
        graph->device_count = op->device + 1;
    return (int64_t)graph->op_count++;
}

static int pipeline_graph_add_edge(struct lull_pipeline_graph *graph,
                                   const struct lull_pipeline_edge *edge)
{
    if (graph->edge_count == LULL_PIPELINE_MAX_EDGES)
        return -E2BIG;
    if (lull_array_grow(&graph->edges, graph->edge_count, sizeof(*graph->edges)) < 0)
        return -ENOMEM;
    graph->edges[graph->edge_count++] = *edge;
    return 0;
}

int lull_pipeline_graph_connect(struct lull_pipeline_graph *graph, uint32_t from, uint32_t to,
                                int64_t latency_ns)
{
    const struct lull_pipeline_edge edge = {from, to, latency_ns};

    if (from >= graph->op_count || to >= graph->op_count)
        return -EINVAL;
    if (latency_ns < 0 || latency_ns > LULL_PIPELINE_MAX_TIME_NS)
        return -EINVAL;
    return pipeline_graph_add_edge(graph, &edge);
}

/*
 * Lists, for every key, the members that have it, in their order: those of key k are
 * members_out[first_out[k]..first_out[k + 1]]. key_at points to the key in the first of `count`
 * structs of `stride` bytes. first_out has keys + 1 places.
 */
static void list_by_key(const uint32_t *key_at, size_t stride, size_t count, size_t keys,
                        uint32_t *first_out, uint32_t *members_out)
{
    const size_t step = stride / sizeof(*key_at);

    memset(first_out, 0, (keys + 1) * sizeof(*first_out));
    for (size_t i = 0; i < count; i++)
        first_out[key_at[i * step] + 1]++;
    for (size_t key = 0; key < keys; key++)
        first_out[key + 1] += first_out[key];
    for (size_t i = 0; i < count; i++)
        members_out[first_out[key_at[i * step]]++] = (uint32_t)i;
    memmove(&first_out[1], &first_out[0], keys * sizeof(*first_out));
    first_out[0] = 0;
}

static uint32_t *pipeline_graph_allocate(struct lull_pipeline_graph *graph, size_t count)
{
    return lull_memory_take(&graph->memory, count, sizeof(uint32_t));
}

/* A device runs its operations one after the other. Edges without latency
 * express that order, so algorithms on a graph need no other representation of
 * it. */
static int order_devices(struct lull_pipeline_graph *graph)
{
    struct lull_pipeline_edge edge = {.latency_ns = 0};
    int status = 0;

    graph->first_on = pipeline_graph_allocate(graph, (size_t)graph->device_count + 1);
    graph->on_device = pipeline_graph_allocate(graph, graph->op_count);
    if (graph->memory.has_failed)
        return -ENOMEM;
    list_by_key(&graph->ops[0].device, sizeof(graph->ops[0]), graph->op_count, graph->device_count,
                graph->first_on, graph->on_device);
    for (uint32_t device = 0; device < graph->device_count; device++) {
        for (uint32_t i = graph->first_on[device] + 1; i < graph->first_on[device + 1]; i++) {
            edge.from = graph->on_device[i - 1];
            edge.to = graph->on_device[i];
            status = pipeline_graph_add_edge(graph, &edge);
            if (status != 0)
                return status;
        }
    }
    return 0;
}

/* Orders edges by their ends, and of those between the same operations puts the one with the
 * longest latency first, which drop_repeated keeps. */
static int by_ends(const void *a, const void *b)
{
    const struct lull_pipeline_edge *left = a;
    const struct lull_pipeline_edge *right = b;

    if (left->from != right->from)
        return (left->from > right->from) - (left->from < right->from);
    if (left->to != right->to)
        return (left->to > right->to) - (left->to < right->to);
    return (left->latency_ns < right->latency_ns) - (left->latency_ns > right->latency_ns);
}

/* Of edges between the same operations, only the one with the longest latency has an effect. */
static void drop_repeated(struct lull_pipeline_graph *graph)
{
    size_t kept = 0;

    if (graph->edge_count > 0)
        qsort(graph->edges, graph->edge_count, sizeof(graph->edges[0]), by_ends);
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[i];

        if (kept > 0 && graph->edges[kept - 1].from == edge->from &&
            graph->edges[kept - 1].to == edge->to)
            continue;
        graph->edges[kept++] = *edge;
    }
    graph->edge_count = kept;
}

/* Lists the edges by their ends. A graph without edges keeps the zeros of its new arrays. */
static void list_edges(struct lull_pipeline_graph *graph)
{
    if (graph->edge_count == 0)
        return;
    list_by_key(&graph->edges[0].to, sizeof(graph->edges[0]), graph->edge_count, graph->op_count,
                graph->first_in, graph->in_edges);
    list_by_key(&graph->edges[0].from, sizeof(graph->edges[0]), graph->edge_count, graph->op_count,
                graph->first_out, graph->out_edges);
}

static int make_lists(struct lull_pipeline_graph *graph)
{
    graph->first_in = pipeline_graph_allocate(graph, graph->op_count + 1);
    graph->first_out = pipeline_graph_allocate(graph, graph->op_count + 1);
    graph->in_edges = pipeline_graph_allocate(graph, graph->edge_count);
    graph->out_edges = pipeline_graph_allocate(graph, graph->edge_count);
    graph->topological = pipeline_graph_allocate(graph, graph->op_count);
    if (graph->memory.has_failed)
        return -ENOMEM;
    list_edges(graph);
    return 0;
}

/*
 * Takes operations one by one that wait for no remaining operation (Kahn). waiting has
 * op_count places; in the end it holds how many operations each one still waits for. Returns how
 * many were taken.
 */
static size_t sort_operations(struct lull_pipeline_graph *graph, uint32_t *waiting)
{
    size_t ready = 0;
    size_t taken = 0;

    for (uint32_t op = 0; op < graph->op_count; op++) {
        waiting[op] = graph->first_in[op + 1] - graph->first_in[op];
        if (waiting[op] == 0)
            graph->topological[ready++] = op;
    }
    while (taken < ready) {
        const uint32_t op = graph->topological[taken++];

        for (uint32_t i = graph->first_out[op]; i < graph->first_out[op + 1]; i++) {
            const uint32_t next = graph->edges[graph->out_edges[i]].to;

            assert(waiting[next] > 0);
            if (--waiting[next] == 0)
                graph->topological[ready++] = next;
        }
    }
    return taken;
}

/* Sorts the edges by their begin's place in the topological order, and lists them again. For the
 * sorting `from` is that place; no two edges have the same ends any more. */
static void pipeline_graph_sort_edges(struct lull_pipeline_graph *graph, uint32_t *place)
{
    for (uint32_t i = 0; i < graph->op_count; i++)
        place[graph->topological[i]] = i;
    for (size_t i = 0; i < graph->edge_count; i++)
        graph->edges[i].from = place[graph->edges[i].from];
    if (graph->edge_count > 0)
        qsort(graph->edges, graph->edge_count, sizeof(graph->edges[0]), by_ends);
    for (size_t i = 0; i < graph->edge_count; i++)
        graph->edges[i].from = graph->topological[graph->edges[i].from];
    list_edges(graph);
}

/* Returns an unsorted operation that the unsorted operation `op` waits for. */
static uint32_t waits_for(const struct lull_pipeline_graph *graph, const uint32_t *waiting,
                          uint32_t op)
{
    uint32_t i = graph->first_in[op];

    while (waiting[graph->edges[graph->in_edges[i]].from] == 0)
        i++;
    return graph->edges[graph->in_edges[i]].from;
}

static void append_name(const struct lull_pipeline_graph *graph,
                        const struct lull_pipeline_profile *profile, uint32_t op,
                        const char *between, struct lull_error *err)
{
    const struct lull_pipeline_op *named = &graph->ops[op];
    const struct lull_error before = *err;

    lull_error_set(err, -ELOOP, "%.160s%s%s of microbatch %" PRIu32 " on device %" PRIu32,
                   before.text, between,
                   lull_pipeline_kind_name(profile->classes[named->class_index].kind),
                   named->microbatch, named->device);
}

/* Names a cycle: an operation that still waits after sorting waits for itself in the end, so that a
 * walk back comes round. */
static int name_cycle(const struct lull_pipeline_graph *graph,
                      const struct lull_pipeline_profile *profile, const uint32_t *waiting,
                      struct lull_error *err)
{
    enum { NAMED = 3 };
    struct lull_error text;
    uint32_t length = 1;
    uint32_t op = 0;

    while (waiting[op] == 0)
        op++;
    for (size_t i = 0; i < graph->op_count; i++)
        op = waits_for(graph, waiting, op); /* on the cycle by now */
    for (uint32_t i = waits_for(graph, waiting, op); i != op; i = waits_for(graph, waiting, i))
        length++;
    lull_error_set(&text, -ELOOP, "%" PRIu32 " operation%s in a circle: ", length,
                   length == 1 ? " waits for itself" : "s wait for each other");
    for (uint32_t i = 0; i < length && i < NAMED; i++) {
        append_name(graph, profile, op, i == 0 ? "" : " after ", &text);
        op = waits_for(graph, waiting, op);
    }
    return lull_error_set(err, -ELOOP, "%s%s", text.text, length > NAMED ? " after ..." : "");
}

/* Users of a finished graph look classes up without a check, so
 * a graph of unknown classes must not be finished. */
static int check_classes(const struct lull_pipeline_graph *graph,
                         const struct lull_pipeline_profile *profile, struct lull_error *err)
{
    if (graph->op_count == 0)
        return lull_error_set(err, -EINVAL, "no operations in the task graph");
    for (size_t op = 0; op < graph->op_count; op++) {
        if (graph->ops[op].class_index >= profile->class_count)
            return lull_error_set(err, -EINVAL,
                                  "operation %zu on device %" PRIu32 " has no class in the profile",
                                  op, graph->ops[op].device);
    }
    return 0;
}

/* The topological sort never takes the operations of a cycle. Only if
 * some are left is the cycle searched for, to name it in the message. */
int lull_pipeline_graph_finish(struct lull_pipeline_graph *graph,
                               const struct lull_pipeline_profile *profile, struct lull_error *err)
{
    uint32_t *scratch = NULL;
    int status = check_classes(graph, profile, err);

    if (status != 0)
        return status;
    status = order_devices(graph);
    if (status == -E2BIG)
        return lull_error_set(err, status, "more than %d edges", (int)LULL_PIPELINE_MAX_EDGES);
    if (status == 0)
        scratch = calloc(graph->op_count, sizeof(*scratch));
    if (scratch != NULL) {
        drop_repeated(graph);
        status = make_lists(graph);
    }
    if (scratch == NULL || status != 0) {
        free(scratch);
        return lull_error_set(err, -ENOMEM, "no memory for the task graph");
    }
    if (sort_operations(graph, scratch) == graph->op_count)
        pipeline_graph_sort_edges(graph, scratch);
    else
        status = name_cycle(graph, profile, scratch, err);
    free(scratch);
    return status;
}

int64_t lull_pipeline_earliest(const struct lull_pipeline_graph *graph, const int64_t *duration_ns,
                               int64_t *begin_out)
{
    int64_t *begin = begin_out != NULL ? begin_out : malloc(graph->op_count * sizeof(*begin));
    int64_t makespan = 0;

    if (begin == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < graph->op_count; i++) {
        const uint32_t op = graph->topological[i];
        int64_t ready = 0;

        for (uint32_t j = graph->first_in[op]; j < graph->first_in[op + 1]; j++) {
            const struct lull_pipeline_edge *edge = &graph->edges[graph->in_edges[j]];
            const int64_t arrival = begin[edge->from] + duration_ns[edge->from] + edge->latency_ns;

            if (arrival > ready)
                ready = arrival;
        }
        begin[op] = ready;
        if (ready + duration_ns[op] > makespan)
            makespan = ready + duration_ns[op];
    }
    if (begin_out == NULL)
        free(begin);
    return makespan;
}
