/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { BEGIN, END };

void lull_network_update(const struct curve *curve, struct flow_op *op)
{
    while (op->level < curve->steps && op->flow >= curve->threshold[op->level])
        op->level++;
    while (op->level > 0 && op->flow < curve->threshold[op->level - 1])
        op->level--;
    op->more_ns = curve->length_ns[op->level];
    op->less_ns = op->more_ns;
    if (op->level > 0 && op->flow == curve->threshold[op->level - 1])
        op->less_ns = curve->length_ns[op->level - 1];
}

static void list_carriers(struct network *network, struct flow_op *op)
{
    op->carriers = 0;
    for (uint32_t i = op->first_in; i < op[1].first_in; i++) {
        const struct flow_edge *edge = &network->edges[network->in_edges[i]];

        if (edge->flow > 0)
            network->carried_from[op->first_in + op->carriers++] = edge->from;
    }
}

void lull_network_carry(struct network *network, uint32_t edge, int64_t change)
{
    struct flow_edge *changed = &network->edges[edge];
    const bool carried = changed->flow > 0;

    changed->flow += change;
    if (carried != (changed->flow > 0))
        list_carriers(network, &network->ops[changed->to]);
}

static int allocate(struct network *network)
{
    const struct lull_pipeline_graph *graph = network->graph;
    const size_t nodes = 2 * graph->op_count;

    network->ops = calloc(graph->op_count + 1, sizeof(*network->ops));
    network->edges = calloc(graph->edge_count + 1, sizeof(*network->edges));
    network->in_edges = calloc(graph->edge_count + 1, sizeof(*network->in_edges));
    network->carried_from = calloc(graph->edge_count + 1, sizeof(*network->carried_from));
    network->sources = calloc(graph->op_count, sizeof(*network->sources));
    network->sinks = calloc(graph->op_count, sizeof(*network->sinks));
    network->way = calloc(nodes, sizeof(*network->way));
    network->settled = calloc(nodes, sizeof(*network->settled));
    if (network->ops == NULL || network->edges == NULL || network->in_edges == NULL ||
        network->carried_from == NULL || network->sources == NULL || network->sinks == NULL ||
        network->way == NULL || network->settled == NULL)
        return -ENOMEM;
    return 0;
}

/* The graph's edges, their ends named by place; `place` of every operation. */
static void copy_graph(struct network *network, const uint32_t *place)
{
    const struct lull_pipeline_graph *graph = network->graph;
    uint32_t in = 0;
    uint32_t out = 0;

    for (uint32_t i = 0; i < graph->op_count; i++) {
        const uint32_t op = graph->topological[i];

        network->ops[i].curve = network->curves.of_op[i];
        network->ops[i].first_in = in;
        network->ops[i].first_out = out;
        for (uint32_t j = graph->first_in[op]; j < graph->first_in[op + 1]; j++)
            network->in_edges[in++] = graph->in_edges[j];
        out += graph->first_out[op + 1] - graph->first_out[op];
        if (graph->first_in[op] == graph->first_in[op + 1])
            network->sources[network->source_count++] = i;
        if (graph->first_out[op] == graph->first_out[op + 1])
            network->sinks[network->sink_count++] = i;
    }
    network->ops[graph->op_count].first_in = in;
    network->ops[graph->op_count].first_out = out;
    for (size_t i = 0; i < graph->edge_count; i++) {
        network->edges[i].from = place[graph->edges[i].from];
        network->edges[i].to = place[graph->edges[i].to];
        network->edges[i].latency_ns = graph->edges[i].latency_ns;
    }
}

int lull_network_init(struct network *network, const struct lull_pipeline_problem *problem,
                      struct lull_error *err)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    uint32_t *place;
    int status;

    *network = (struct network){.graph = graph, .op_count = (uint32_t)graph->op_count};
    status = lull_curves_init(&network->curves, problem, err);
    if (status != 0)
        return status;
    place = malloc(graph->op_count * sizeof(*place));
    if (place == NULL || allocate(network) != 0) {
        free(place);
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    }
    for (uint32_t i = 0; i < graph->op_count; i++)
        place[graph->topological[i]] = i;
    copy_graph(network, place);
    free(place);
    lull_network_reset(network);
    return 0;
}

void lull_network_fini(struct network *network)
{
    lull_curves_fini(&network->curves);
    free(network->ops);
    free(network->edges);
    free(network->in_edges);
    free(network->carried_from);
    free(network->sources);
    free(network->sinks);
    free(network->heap);
    free(network->way);
    free(network->settled);
}

void lull_network_reset(struct network *network)
{
    network->value = 0;
    network->time_ns = 0;
    for (size_t i = 0; i < network->graph->edge_count; i++)
        network->edges[i].flow = 0;
    for (uint32_t i = 0; i < network->op_count; i++) {
        struct flow_op *op = &network->ops[i];
        int64_t begin = 0;

        for (uint32_t j = op->first_in; j < op[1].first_in; j++) {
            const struct flow_edge *edge = &network->edges[network->in_edges[j]];
            const int64_t ready = network->ops[edge->from].potential[END] + edge->latency_ns;

            begin = ready > begin ? ready : begin;
        }
        op->flow = 0;
        op->level = 0;
        op->carriers = 0;
        lull_network_update(&network->curves.all[op->curve], op);
        op->potential[BEGIN] = begin;
        op->potential[END] = begin + op->more_ns;
        if (op->potential[END] > network->time_ns)
            network->time_ns = op->potential[END];
    }
    for (uint32_t i = 0; i < network->op_count; i++) {
        network->ops[i].potential[BEGIN] -= network->time_ns;
        network->ops[i].potential[END] -= network->time_ns;
        network->ops[i].distance[BEGIN] = INT64_MAX;
        network->ops[i].distance[END] = INT64_MAX;
    }
}

int lull_network_keep(const struct network *network, struct kept *kept)
{
    int64_t *next =
        malloc((3 * (size_t)network->op_count + network->graph->edge_count) * sizeof(*next));

    if (next == NULL)
        return -ENOMEM;
    kept->numbers = next;
    kept->time_ns = network->time_ns;
    kept->value = network->value;
    for (uint32_t i = 0; i < network->op_count; i++) {
        *next++ = network->ops[i].potential[BEGIN];
        *next++ = network->ops[i].potential[END];
        *next++ = network->ops[i].flow;
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        *next++ = network->edges[i].flow;
    return 0;
}

void lull_network_return(struct network *network, const struct kept *kept)
{
    const int64_t *next = kept->numbers;

    network->time_ns = kept->time_ns;
    network->value = kept->value;
    for (uint32_t i = 0; i < network->op_count; i++) {
        struct flow_op *op = &network->ops[i];

        op->potential[BEGIN] = *next++;
        op->potential[END] = *next++;
        op->flow = *next++;
        lull_network_update(&network->curves.all[op->curve], op);
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        network->edges[i].flow = *next++;
    for (uint32_t i = 0; i < network->op_count; i++)
        list_carriers(network, &network->ops[i]);
}

/* --- The search: Dijkstra over slacks, first come, first settled at equal distance. --- */

static int heap_push(struct network *network, int64_t distance, uint32_t node)
{
    size_t i = network->heap_count;

    if (i == network->heap_room) {
        const size_t room = i == 0 ? 1024 : 2 * i;
        struct flow_key *heap = realloc(network->heap, room * sizeof(*heap));

        if (heap == NULL)
            return -ENOMEM;
        network->heap = heap;
        network->heap_room = room;
    }
    network->heap_count++;
    while (i > 0 && network->heap[(i - 1) / 2].distance > distance) {
        network->heap[i] = network->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    network->heap[i] = (struct flow_key){distance, node};
    return 0;
}

static struct flow_key heap_pop(struct network *network)
{
    struct flow_key *heap = network->heap;
    const struct flow_key top = heap[0];
    const struct flow_key last = heap[--network->heap_count];
    const size_t count = network->heap_count;
    size_t i = 0;

    for (;;) {
        size_t child = 2 * i + 1;

        if (child >= count)
            break;
        if (child + 1 < count && heap[child + 1].distance < heap[child].distance)
            child++;
        if (heap[child].distance >= last.distance)
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

/* What the search carries from node to node. */
struct search {
    struct network *network;
    int64_t distance;   /* of the node that is looked at */
    uint32_t looked_at; /* of the settled nodes */
    int status;
};

static void settle(struct network *network, uint32_t node)
{
    network->ops[node / 2].rank[node % 2] = network->settled_count;
    network->settled[network->settled_count++] = node;
}

/* A node can be reached over an arc of this slack. */
static inline void reach(struct search *search, uint32_t place, int side, int64_t slack)
{
    struct network *network = search->network;
    struct flow_op *op = &network->ops[place];
    const int64_t distance = search->distance + slack;

    if (distance >= op->distance[side] || distance >= network->shift_ns)
        return;
    assert(slack >= 0);
    op->distance[side] = distance;
    if (slack == 0)
        settle(network, 2 * place + (uint32_t)side);
    else if (search->status == 0)
        search->status = heap_push(network, distance, 2 * place + (uint32_t)side);
}

static void look_from_begin(struct search *search, uint32_t place)
{
    struct network *network = search->network;
    const struct flow_op *op = &network->ops[place];

    reach(search, place, END, op->potential[END] - op->potential[BEGIN] - op->more_ns);
    /* Flow can be taken back only from edges that have some, and those have no slack. */
    for (uint32_t i = 0; i < op->carriers; i++)
        reach(search, network->carried_from[op->first_in + i], END, 0);
}

static void look_from_end(struct search *search, uint32_t place)
{
    struct network *network = search->network;
    const struct flow_op *op = &network->ops[place];

    for (uint32_t i = op->first_out; i < op[1].first_out; i++) {
        const struct flow_edge *edge = &network->edges[i];
        const int64_t begin = network->ops[edge->to].potential[BEGIN];

        reach(search, edge->to, BEGIN, begin - op->potential[END] - edge->latency_ns);
    }
    if (op->first_out == op[1].first_out &&
        search->distance - op->potential[END] < network->shift_ns)
        network->shift_ns = search->distance - op->potential[END];
    if (op->flow > 0)
        reach(search, place, BEGIN, op->less_ns - op->potential[END] + op->potential[BEGIN]);
}

static void forget_search(struct network *network)
{
    for (uint32_t i = 0; i < network->op_count; i++) {
        network->ops[i].distance[BEGIN] = INT64_MAX;
        network->ops[i].distance[END] = INT64_MAX;
        network->ops[i].rank[BEGIN] = FLOW_UNSETTLED;
        network->ops[i].rank[END] = FLOW_UNSETTLED;
    }
    network->heap_count = 0;
    network->settled_count = 0;
    network->shift_ns = INT64_MAX;
}

/* Looks from what has been settled at the search's distance, in that order, until the sink is. */
static void look_around(struct search *search)
{
    struct network *network = search->network;

    while (search->looked_at < network->settled_count && network->shift_ns > search->distance) {
        const uint32_t next = network->settled[search->looked_at++];

        if (next % 2 == BEGIN)
            look_from_begin(search, next / 2);
        else
            look_from_end(search, next / 2);
    }
}

int lull_network_search(struct network *network)
{
    struct search search = {.network = network};

    forget_search(network);
    for (uint32_t i = 0; i < network->source_count; i++)
        reach(&search, network->sources[i], BEGIN,
              network->ops[network->sources[i]].potential[BEGIN] + network->time_ns);
    look_around(&search);
    while (search.status == 0 && network->heap_count > 0) {
        const struct flow_key next = heap_pop(network);

        if (next.distance >= network->shift_ns)
            break;
        if (next.distance > network->ops[next.node / 2].distance[next.node % 2])
            continue;
        search.distance = next.distance;
        settle(network, next.node);
        look_around(&search);
    }
    return search.status;
}

void lull_network_shift(struct network *network, int64_t by_ns)
{
    if (by_ns == 0)
        return;
    for (uint32_t i = 0; i < network->settled_count; i++) {
        const uint32_t node = network->settled[i];
        struct flow_op *op = &network->ops[node / 2];

        if (op->distance[node % 2] < by_ns)
            op->potential[node % 2] += by_ns - op->distance[node % 2];
    }
    network->time_ns -= by_ns;
}
