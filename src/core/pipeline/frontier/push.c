/*
 * Blocking flow: ways from the sink back to the source over arcs without slack, each from a node to
 * one that the search settled before it, so that there are no circles. An arc that has been tried
 * in vain is not tried again. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <string.h>

enum { BEGIN, END };

static const int64_t unbounded = INT64_MAX;

/* Room for more flow through an operation at length more_ns, and for less flow at less_ns. */
static int64_t room_for_more(const struct lull_frontier_curve *curve,
                             const struct lull_frontier_flow_op *op)
{
    if (op->level >= curve->steps)
        return unbounded;
    return curve->threshold[op->level] - op->flow;
}

static int64_t room_for_less(const struct lull_frontier_curve *curve,
                             const struct lull_frontier_flow_op *op)
{
    uint32_t level = op->level;

    if (level > 0 && op->flow == curve->threshold[level - 1])
        level--;
    if (level == 0)
        return op->flow;
    return op->flow - curve->threshold[level - 1];
}

/*
 * Returns whether flow can come over an arc from a node that was settled before. Arcs into the
 * start: the edges, forwards, then the operation, backwards.
 */
static inline bool comes_into_begin(const struct lull_frontier_network *network, uint32_t node,
                                    uint32_t number, uint32_t *from_out)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];
    const uint32_t index = op->first_in + number;

    if (index < op[1].first_in) {
        const struct lull_frontier_flow_edge *edge = &network->edges[network->in_edges[index]];

        *from_out = 2 * edge->from + END;
        return network->rank[*from_out] < network->rank[node] &&
               network->potential[node] - network->potential[*from_out] == edge->latency_ns;
    }
    *from_out = node + 1;
    return op->flow > 0 && network->rank[node + 1] < network->rank[node] &&
           network->potential[node + 1] - network->potential[node] == op->less_ns;
}

/* Arcs into the end: the operation, forwards, then the edges, backwards: flow that is taken back.
 */
static inline bool comes_into_end(const struct lull_frontier_network *network, uint32_t node,
                                  uint32_t number, uint32_t *from_out)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];

    if (number > 0) {
        const struct lull_frontier_flow_edge *edge = &network->edges[op->first_out + number - 1];

        *from_out = 2 * edge->to + BEGIN;
        return edge->flow > 0 && network->rank[*from_out] < network->rank[node];
    }
    *from_out = node - 1;
    return network->rank[node - 1] < network->rank[node] &&
           network->potential[node] - network->potential[node - 1] == op->more_ns;
}

/* Goes back by one arc, from the node on top of the way; false if there is none left. */
static bool step_back(struct lull_frontier_network *network, uint32_t node, uint32_t *from_out)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];
    uint32_t number = network->cursor[node];
    bool comes = false;

    if (node % 2 == BEGIN)
        for (; number <= op[1].first_in - op->first_in; number++) {
            comes = comes_into_begin(network, node, number, from_out);
            if (comes)
                break;
        }
    else
        for (; number <= op[1].first_out - op->first_out; number++) {
            comes = comes_into_end(network, node, number, from_out);
            if (comes)
                break;
        }
    network->cursor[node] = number;
    return comes;
}

/* Returns whether the arc that the way takes into a node is its operation, and if not, which edge.
 */
static inline bool is_op(const struct lull_frontier_network *network, uint32_t node,
                         uint32_t *edge_out)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];
    const uint32_t number = network->cursor[node];

    if (node % 2 == END) {
        *edge_out = op->first_out + number - 1;
        return number == 0;
    }
    if (op->first_in + number == op[1].first_in)
        return true;
    *edge_out = network->in_edges[op->first_in + number];
    return false;
}

/* Room on the arc by which the path enters a node. */
static inline int64_t room_into(const struct lull_frontier_network *network, uint32_t node)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];
    const struct lull_frontier_curve *curve = &network->curves.all[op->curve];
    uint32_t edge;

    if (is_op(network, node, &edge))
        return node % 2 == END ? room_for_more(curve, op) : room_for_less(curve, op);
    return node % 2 == BEGIN ? unbounded : network->edges[edge].flow;
}

/* An arc that is used backwards takes flow away from its operation or edge. */
static inline void push_into(struct lull_frontier_network *network, uint32_t node, int64_t amount)
{
    struct lull_frontier_flow_op *op = &network->ops[node / 2];
    uint32_t edge;

    if (is_op(network, node, &edge)) {
        op->flow += node % 2 == END ? amount : -amount;
        lull_network_update(&network->curves.all[op->curve], op);
    } else {
        lull_network_carry(network, edge, node % 2 == BEGIN ? amount : -amount);
    }
}

/*
 * Pushes what fits over a way of `length` nodes, the first next to the sink, the last next to the
 * source, and says in *amount how much that is; unbounded: nothing limits it, and nothing is
 * pushed. Returns how many nodes of the way can still be used.
 */
static uint32_t push_over_way(struct lull_frontier_network *network, const uint32_t *way,
                              uint32_t length, int64_t *amount)
{
    uint32_t usable = length;

    *amount = unbounded;
    for (uint32_t i = 0; i + 1 < length; i++) {
        const int64_t room = room_into(network, way[i]);

        if (room < *amount) {
            *amount = room;
            usable = i + 1;
        }
    }
    for (uint32_t i = 0; i + 1 < length && *amount != unbounded; i++)
        push_into(network, way[i], *amount);
    return usable;
}

static bool at_source(const struct lull_frontier_network *network, uint32_t node)
{
    const struct lull_frontier_flow_op *op = &network->ops[node / 2];

    return node % 2 == BEGIN && op->first_in == op[1].first_in &&
           network->potential[node] == -network->time_ns;
}

/* Pushes all that goes from the source to the sink through one last operation. */
static bool push_to(struct lull_frontier_network *network, uint32_t sink)
{
    uint32_t *way = network->way;
    uint32_t length = 1;
    uint32_t from;

    way[0] = 2 * sink + END;
    while (length > 0) {
        if (at_source(network, way[length - 1])) {
            int64_t amount;

            length = push_over_way(network, way, length, &amount);
            if (amount == unbounded)
                return false;
            assert(amount > 0);
            network->value += amount;
        } else if (step_back(network, way[length - 1], &from)) {
            way[length++] = from;
        } else {
            network->rank[way[--length]] = FLOW_UNSETTLED; /* never tried again */
        }
    }
    return true;
}

bool lull_network_push(struct lull_frontier_network *network)
{
    memset(network->cursor, 0, 2 * (size_t)network->op_count * sizeof(*network->cursor));
    for (uint32_t i = 0; i < network->sink_count; i++) {
        const uint32_t end = 2 * network->sinks[i] + END;

        if (network->potential[end] == 0 && network->rank[end] != FLOW_UNSETTLED &&
            !push_to(network, network->sinks[i]))
            return false;
    }
    return true;
}
