/*
 * The search: Dijkstra over slacks, first come, first settled at equal distance.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { BEGIN, END };

/* An entry is not moved when its node is reached over a shorter way: it is skipped when it comes
 * out (curve_search_settle_nearest). */
static int heap_push(struct lull_frontier_network *network, int64_t distance, uint32_t node)
{
    size_t i = network->heap_count;

    if (lull_array_reserve(&network->heap, &network->heap_room, i, sizeof(*network->heap)) < 0)
        return -ENOMEM;
    network->heap_count++;
    while (i > 0 && network->heap[(i - 1) / 2].distance > distance) {
        network->heap[i] = network->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    network->heap[i] = (struct lull_frontier_flow_key){distance, node};
    return 0;
}

static struct lull_frontier_flow_key heap_pop(struct lull_frontier_network *network)
{
    struct lull_frontier_flow_key *heap = network->heap;
    const struct lull_frontier_flow_key top = heap[0];
    const struct lull_frontier_flow_key last = heap[--network->heap_count];
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

/* State that the search carries from node to node; no pointer to it leaves this file's inline
 * functions, so that its members live in registers. */
struct curve_search {
    struct lull_frontier_network *network;
    const struct lull_frontier_flow_op *ops;
    const struct lull_frontier_flow_edge *edges;
    const int64_t *potential;
    int64_t *distance_to;
    uint32_t *rank;
    uint32_t *settled;
    uint32_t settled_count;
    uint32_t looked_at; /* of the settled nodes */
    int64_t distance;   /* of the node that is looked at */
    int64_t shift_ns;
    int status;
};

static inline void curve_search_settle(struct curve_search *search, uint32_t node)
{
    search->rank[node] = search->settled_count;
    search->settled[search->settled_count++] = node;
}

/* A node that is farther away than what is looked at can be reached over an arc of this slack. */
static inline void curve_search_reach(struct curve_search *search, uint32_t node, int64_t slack)
{
    const int64_t distance = search->distance + slack;

    if (distance >= search->distance_to[node] || distance >= search->shift_ns)
        return;
    assert(slack >= 0);
    search->distance_to[node] = distance;
    if (slack == 0)
        curve_search_settle(search, node);
    else if (search->status == 0)
        search->status = heap_push(search->network, distance, node);
}

static inline bool is_farther(const struct curve_search *search, uint32_t node)
{
    return search->distance_to[node] > search->distance;
}

/* From an operation's begin the search continues to its end, and back over edges whose flow can be
 * taken away. */
static inline void curve_search_expand_begin(struct curve_search *search, uint32_t node)
{
    const struct lull_frontier_flow_op *op = &search->ops[node / 2];

    if (is_farther(search, node + 1))
        curve_search_reach(search, node + 1,
                           search->potential[node + 1] - search->potential[node] - op->more_ns);
    /* Flow can be taken back only from edges that have some, and those have no slack. */
    for (uint32_t i = op->first_in; i < op->first_in + op->carriers; i++) {
        const uint32_t from = 2 * search->network->carried_from[i] + END;

        if (is_farther(search, from))
            curve_search_reach(search, from, 0);
    }
}

/* From an operation's end the search continues to those that wait for it, to the sink if there are
 * none, and back to its start if it has flow that can be taken away. */
static inline void curve_search_expand_end(struct curve_search *search, uint32_t node)
{
    const struct lull_frontier_flow_op *op = &search->ops[node / 2];
    const int64_t potential = search->potential[node];

    for (uint32_t i = op->first_out; i < op[1].first_out; i++) {
        const struct lull_frontier_flow_edge *edge = &search->edges[i];
        const uint32_t to = 2 * edge->to + BEGIN;

        if (is_farther(search, to))
            curve_search_reach(search, to, search->potential[to] - potential - edge->latency_ns);
    }
    if (op->first_out == op[1].first_out && search->distance - potential < search->shift_ns)
        search->shift_ns = search->distance - potential;
    if (op->flow > 0 && is_farther(search, node - 1))
        curve_search_reach(search, node - 1, op->less_ns - potential + search->potential[node - 1]);
}

/* Looks from what has been settled at the search's distance, in that order, until the sink is. */
static inline void curve_search_survey(struct curve_search *search)
{
    while (search->looked_at < search->settled_count && search->shift_ns > search->distance) {
        const uint32_t next = search->settled[search->looked_at++];

        if (next % 2 == BEGIN)
            curve_search_expand_begin(search, next);
        else
            curve_search_expand_end(search, next);
    }
}

static void forget_search(struct lull_frontier_network *network)
{
    const size_t nodes = 2 * (size_t)network->op_count;

    for (size_t node = 0; node < nodes; node++)
        network->distance[node] = INT64_MAX;
    memset(network->rank, 0xff, nodes * sizeof(*network->rank)); /* FLOW_UNSETTLED */
    network->heap_count = 0;
}

static struct curve_search curve_search_begin(struct lull_frontier_network *network)
{
    return (struct curve_search){
        .network = network,
        .ops = network->ops,
        .edges = network->edges,
        .potential = network->potential,
        .distance_to = network->distance,
        .rank = network->rank,
        .settled = network->settled,
        .shift_ns = INT64_MAX,
    };
}

/* Settles the nearest of the nodes that have been reached and not settled; false: none is nearer
 * than the sink. */
static inline bool curve_search_settle_nearest(struct curve_search *search)
{
    while (search->status == 0 && search->network->heap_count > 0) {
        const struct lull_frontier_flow_key next = heap_pop(search->network);

        if (next.distance >= search->shift_ns)
            return false;
        if (next.distance > search->distance_to[next.node])
            continue;
        search->distance = next.distance;
        curve_search_settle(search, next.node);
        return true;
    }
    return false;
}

int lull_network_search(struct lull_frontier_network *network)
{
    struct curve_search search = curve_search_begin(network);

    forget_search(network);
    for (uint32_t i = 0; i < network->source_count; i++) {
        const uint32_t begin = 2 * network->sources[i] + BEGIN;

        curve_search_reach(&search, begin, network->potential[begin] + network->time_ns);
    }
    do
        curve_search_survey(&search);
    while (curve_search_settle_nearest(&search));
    network->settled_count = search.settled_count;
    network->shift_ns = search.shift_ns;
    return search.status;
}

void lull_network_shift(struct lull_frontier_network *network, int64_t by_ns)
{
    if (by_ns == 0)
        return;
    for (uint32_t i = 0; i < network->settled_count; i++) {
        const uint32_t node = network->settled[i];

        if (network->distance[node] < by_ns)
            network->potential[node] += by_ns - network->distance[node];
    }
    network->time_ns -= by_ns;
}
