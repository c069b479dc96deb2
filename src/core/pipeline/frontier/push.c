/*
 * Blocking flow: ways from the sink back to the source over arcs without slack, each from a
 * node to one that the search settled before it, so that there are no circles. What has been tried
 * in vain is not tried again.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"

enum { BEGIN, END };

static const int64_t unbounded = INT64_MAX;

/* An arc into a node: where it comes from and what fits through, 0 if it must not be used. */
struct arc {
    uint32_t from;
    uint32_t edge; /* of use where it is one */
    bool is_op;
    int64_t room;
};

/* How much more flows through an operation at length more_ns, and how much less at less_ns. */
static int64_t room_for_more(const struct curve *curve, const struct flow_op *op)
{
    return op->level < curve->steps ? curve->threshold[op->level] - op->flow : unbounded;
}

static int64_t room_for_less(const struct curve *curve, const struct flow_op *op)
{
    uint32_t level = op->level;

    if (level > 0 && op->flow == curve->threshold[level - 1])
        level--;
    return op->flow - (level > 0 ? curve->threshold[level - 1] : 0);
}

/* Arcs into the begin: the edges, forwards, then the operation, backwards. */
static inline struct arc arc_into_begin(const struct network *network, uint32_t place,
                                        uint32_t number)
{
    const struct flow_op *op = &network->ops[place];
    const uint32_t index = op->first_in + number;
    struct arc arc = {.from = 2 * place + END, .is_op = true};

    if (index < op[1].first_in) {
        const struct flow_edge *edge = &network->edges[network->in_edges[index]];
        const struct flow_op *from = &network->ops[edge->from];

        arc = (struct arc){2 * edge->from + END, network->in_edges[index], false, 0};
        if (op->potential[BEGIN] - from->potential[END] == edge->latency_ns)
            arc.room = unbounded;
    } else if (op->flow > 0 && op->potential[END] - op->potential[BEGIN] == op->less_ns) {
        arc.room = room_for_less(&network->curves.all[op->curve], op);
    }
    return arc;
}

/* Arcs into the end: the operation, forwards, then the edges, backwards: flow that is taken back.
 */
static inline struct arc arc_into_end(const struct network *network, uint32_t place,
                                      uint32_t number)
{
    const struct flow_op *op = &network->ops[place];
    struct arc arc = {.from = 2 * place + BEGIN, .is_op = true};

    if (number > 0) {
        const uint32_t index = op->first_out + number - 1;

        return (struct arc){2 * network->edges[index].to + BEGIN, index, false,
                            network->edges[index].flow};
    }
    if (op->potential[END] - op->potential[BEGIN] == op->more_ns)
        arc.room = room_for_more(&network->curves.all[op->curve], op);
    return arc;
}

static uint32_t arcs_into(const struct network *network, uint32_t node)
{
    const struct flow_op *op = &network->ops[node / 2];

    return 1 +
           (node % 2 == BEGIN ? op[1].first_in - op->first_in : op[1].first_out - op->first_out);
}

static inline struct arc arc_into(const struct network *network, uint32_t node, uint32_t number)
{
    return node % 2 == BEGIN ? arc_into_begin(network, node / 2, number)
                             : arc_into_end(network, node / 2, number);
}

static uint32_t *rank_of(const struct network *network, uint32_t node)
{
    return &network->ops[node / 2].rank[node % 2];
}

/* Goes back by one arc, from the node on top of the way; false if there is none left. */
static bool step_back(struct network *network, uint32_t node, uint32_t *from_out)
{
    uint32_t *cursor = &network->ops[node / 2].cursor[node % 2];
    const uint32_t count = arcs_into(network, node);

    for (; *cursor < count; ++*cursor) {
        const struct arc arc = arc_into(network, node, *cursor);

        if (arc.room > 0 && *rank_of(network, arc.from) < *rank_of(network, node)) {
            *from_out = arc.from;
            return true;
        }
    }
    return false;
}

static struct arc current_arc(const struct network *network, uint32_t node)
{
    return arc_into(network, node, network->ops[node / 2].cursor[node % 2]);
}

static void push_over(struct network *network, uint32_t node, const struct arc *arc, int64_t amount)
{
    struct flow_op *op = &network->ops[node / 2];

    if (arc->is_op) {
        op->flow += node % 2 == END ? amount : -amount;
        lull_network_update(&network->curves.all[op->curve], op);
    } else {
        lull_network_carry(network, arc->edge, node % 2 == BEGIN ? amount : -amount);
    }
}

/*
 * Pushes what fits over a way of `length` nodes, the first next to the sink, the last next to the
 * source. Returns how much of the way can still be used; 0 with *amount unbounded: all of it, ever.
 */
static uint32_t push_over_way(struct network *network, const uint32_t *way, uint32_t length,
                              int64_t *amount)
{
    uint32_t usable = length;

    *amount = unbounded;
    for (uint32_t i = 0; i + 1 < length; i++) {
        const struct arc arc = current_arc(network, way[i]);

        if (arc.room < *amount) {
            *amount = arc.room;
            usable = i + 1;
        }
    }
    for (uint32_t i = 0; i + 1 < length && *amount != unbounded; i++) {
        const struct arc arc = current_arc(network, way[i]);

        push_over(network, way[i], &arc, *amount);
    }
    return usable;
}

static bool at_source(const struct network *network, uint32_t node)
{
    const struct flow_op *op = &network->ops[node / 2];

    return node % 2 == BEGIN && op->first_in == op[1].first_in &&
           op->potential[BEGIN] == -network->time_ns;
}

/* All that goes from the source to the sink behind one operation. */
static bool push_to(struct network *network, uint32_t sink)
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
            network->value += amount;
        } else if (step_back(network, way[length - 1], &from)) {
            way[length++] = from;
        } else {
            *rank_of(network, way[--length]) = FLOW_UNSETTLED; /* never tried again */
        }
    }
    return true;
}

bool lull_network_push(struct network *network)
{
    for (uint32_t i = 0; i < network->settled_count; i++) {
        const uint32_t node = network->settled[i];

        network->ops[node / 2].cursor[node % 2] = 0;
    }
    for (uint32_t i = 0; i < network->sink_count; i++) {
        const uint32_t sink = network->sinks[i];

        if (network->ops[sink].potential[END] == 0 &&
            network->ops[sink].rank[END] != FLOW_UNSETTLED && !push_to(network, sink))
            return false;
    }
    return true;
}
