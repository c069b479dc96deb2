/*
 * Jump: the optimal flow for one iteration time, without the points before it. If stages differ and
 * have many clocks, a frontier has tens of thousands of points.
 *
 * Cost scaling by push and relabel (Goldberg and Tarjan 1990) with global price updates (Goldberg
 * 1997), on a circulation: an arc of length -time_ns returns from the end of the pipeline to its
 * begin. Potentials are scaled by the number of nodes and one: an error of 1 then proves the
 * optimum, and exact potentials in nanoseconds follow. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/minmax.h"

enum { BEGIN, END };

/* By how much the error falls from one phase to the next. */
enum { PHASE_RATIO = 8 };

/* Prices are updated after one relabel for so many nodes. */
enum { RELABELS_SHARE = 2 };

/* Of a scaled potential, and of what one price update adds to it: together far below INT64_MAX. */
static const int64_t max_scaled = INT64_MAX / 64;
static const int64_t max_raised = INT64_MAX / 16;
static const uint32_t nowhere = UINT32_MAX;
static const int64_t endless = INT64_MAX;

/* Room for more and for less flow on one of the network's arcs, and the (scaled) length of each. */
struct jump_arc {
    int64_t more_length;
    int64_t less_length;
    int64_t more_room;
    int64_t less_room;
    int64_t flow;
    uint32_t tail;
    uint32_t head;
    uint32_t level;
    const struct lull_frontier_curve *curve; /* null: one length, and room without end */
};

/* An arc as seen from the node at one of its ends. */
struct jump_link {
    uint32_t arc;
    bool leaves; /* this node */
};

struct jump {
    struct lull_frontier_network *network;
    struct lull_memory memory; /* of the arrays below */
    struct jump_arc *arcs; /* operations, edges, from the source, to the sink; the last returns */
    struct jump_link *links;
    uint32_t *first_link; /* by node, and one more */
    int64_t *potential;
    int64_t *excess;
    uint32_t *current; /* by node: the first link that may be admissible */
    uint32_t *queue;   /* a ring of the nodes with an excess */
    bool *is_queued;
    uint32_t *bucket;   /* of a price update: the first node at each distance */
    uint32_t *neighbor; /* two by node: the next one in its bucket, and the one before */
    uint32_t *distance;
    uint32_t arc_count;
    uint32_t nodes; /* of operations, then the source and the sink */
    uint32_t source;
    uint32_t sink;
    uint32_t queue_head;
    uint32_t queue_count;
    uint32_t relabels; /* since the last price update */
    int64_t scale;
    int64_t error; /* no arc with room has a slack below its negative */
    int64_t min_value;
};

/* ---- arcs ----------------------------------------------------------------------------------- */

/* Sets what an operation's arc can carry, after its flow has changed. */
static void update_op(struct jump_arc *arc, int64_t scale)
{
    const struct lull_frontier_curve *const curve = arc->curve;
    uint32_t level = arc->level;

    while (level < curve->steps && arc->flow >= curve->threshold[level])
        level++;
    while (level > 0 && arc->flow < curve->threshold[level - 1])
        level--;
    arc->level = level;
    arc->more_length = curve->length_ns[level] * scale;
    arc->more_room = endless;
    if (level < curve->steps)
        arc->more_room = curve->threshold[level] - arc->flow;
    if (level > 0 && arc->flow == curve->threshold[level - 1])
        level--;
    arc->less_length = curve->length_ns[level] * scale;
    arc->less_room = arc->flow;
    if (level > 0)
        arc->less_room -= curve->threshold[level - 1];
}

static void set_flow(struct jump *jump, uint32_t index, int64_t flow)
{
    struct jump_arc *const arc = &jump->arcs[index];
    const int64_t more = flow - arc->flow;

    jump->excess[arc->tail] -= more;
    jump->excess[arc->head] += more;
    arc->flow = flow;
    if (arc->curve != NULL)
        update_op(arc, jump->scale);
    else
        arc->less_room = flow - (index + 1 == jump->arc_count ? jump->min_value : 0);
}

/* Cost of a path over the arc beyond the difference of the potentials, when it carries more. */
static inline int64_t slack_for_more(const struct jump *jump, const struct jump_arc *arc)
{
    return jump->potential[arc->head] - jump->potential[arc->tail] - arc->more_length;
}

/* The same, when it carries less. */
static inline int64_t slack_for_less(const struct jump *jump, const struct jump_arc *arc)
{
    return arc->less_length - jump->potential[arc->head] + jump->potential[arc->tail];
}

static void add_arc(struct jump *jump, uint32_t tail, uint32_t head, int64_t length_ns,
                    const struct lull_frontier_curve *curve)
{
    struct jump_arc *const arc = &jump->arcs[jump->arc_count++];
    const int64_t length = length_ns * jump->scale;

    *arc = (struct jump_arc){.more_length = length,
                             .less_length = length,
                             .more_room = endless,
                             .tail = tail,
                             .head = head,
                             .curve = curve};
    if (curve != NULL)
        update_op(arc, jump->scale);
}

static void add_arcs(struct jump *jump, int64_t time_ns)
{
    const struct lull_frontier_network *const network = jump->network;

    for (uint32_t i = 0; i < network->op_count; i++)
        add_arc(jump, 2 * i + BEGIN, 2 * i + END, 0, &network->curves.all[network->ops[i].curve]);
    for (size_t i = 0; i < network->graph->edge_count; i++) {
        const struct lull_frontier_flow_edge *const edge = &network->edges[i];

        add_arc(jump, 2 * edge->from + END, 2 * edge->to + BEGIN, edge->latency_ns, NULL);
    }
    for (uint32_t i = 0; i < network->source_count; i++)
        add_arc(jump, jump->source, 2 * network->sources[i] + BEGIN, 0, NULL);
    for (uint32_t i = 0; i < network->sink_count; i++)
        add_arc(jump, 2 * network->sinks[i] + END, jump->sink, 0, NULL);
    add_arc(jump, jump->sink, jump->source, -time_ns, NULL);
}

static void add_links(struct jump *jump)
{
    uint32_t *const next = jump->current;

    for (uint32_t i = 0; i < jump->arc_count; i++) {
        jump->first_link[jump->arcs[i].tail + 1]++;
        jump->first_link[jump->arcs[i].head + 1]++;
    }
    for (uint32_t node = 0; node < jump->nodes; node++) {
        jump->first_link[node + 1] += jump->first_link[node];
        next[node] = jump->first_link[node];
    }
    for (uint32_t i = 0; i < jump->arc_count; i++) {
        jump->links[next[jump->arcs[i].tail]++] = (struct jump_link){i, true};
        jump->links[next[jump->arcs[i].head]++] = (struct jump_link){i, false};
    }
}

static int jump_allocate(struct jump *jump)
{
    const struct lull_frontier_network *const network = jump->network;
    const size_t arcs = network->op_count + network->graph->edge_count + network->source_count +
                        network->sink_count + 1;
    const size_t nodes = jump->nodes;
    struct lull_memory *const memory = &jump->memory;

    jump->arcs = lull_memory_take(memory, arcs, sizeof(*jump->arcs));
    jump->links = lull_memory_take(memory, 2 * arcs, sizeof(*jump->links));
    jump->first_link = lull_memory_take(memory, nodes + 1, sizeof(*jump->first_link));
    jump->potential = lull_memory_take(memory, nodes, sizeof(*jump->potential));
    jump->excess = lull_memory_take(memory, nodes, sizeof(*jump->excess));
    jump->current = lull_memory_take(memory, nodes, sizeof(*jump->current));
    jump->queue = lull_memory_take(memory, nodes, sizeof(*jump->queue));
    jump->is_queued = lull_memory_take(memory, nodes, sizeof(*jump->is_queued));
    jump->bucket = lull_memory_take(memory, nodes + 1, sizeof(*jump->bucket));
    jump->neighbor = lull_memory_take(memory, 2 * nodes, sizeof(*jump->neighbor));
    jump->distance = lull_memory_take(memory, nodes, sizeof(*jump->distance));
    return memory->has_failed ? -ENOMEM : 0;
}

/* ---- price update ---------------------------------------------------------------------------- */

static void put_in_bucket(struct jump *jump, uint32_t node, uint32_t distance)
{
    const uint32_t first = jump->bucket[distance];

    jump->distance[node] = distance;
    jump->neighbor[2 * (size_t)node] = first;
    jump->neighbor[2 * (size_t)node + 1] = nowhere;
    if (first != nowhere)
        jump->neighbor[2 * (size_t)first + 1] = node;
    jump->bucket[distance] = node;
}

static void take_from_bucket(struct jump *jump, uint32_t node)
{
    const uint32_t next = jump->neighbor[2 * (size_t)node];
    const uint32_t before = jump->neighbor[2 * (size_t)node + 1];

    if (next != nowhere)
        jump->neighbor[2 * (size_t)next + 1] = before;
    if (before != nowhere)
        jump->neighbor[2 * (size_t)before] = next;
    else
        jump->bucket[jump->distance[node]] = next;
}

/* Looks from a node at `distance` back at those that can send flow to it. */
static void jump_look_back(struct jump *jump, uint32_t node, uint32_t distance)
{
    for (uint32_t i = jump->first_link[node]; i < jump->first_link[node + 1]; i++) {
        const struct jump_link link = jump->links[i];
        const struct jump_arc *const arc = &jump->arcs[link.arc];
        const uint32_t from = link.leaves ? arc->head : arc->tail;
        int64_t away;

        if (jump->distance[from] <= distance ||
            (link.leaves ? arc->less_room : arc->more_room) == 0)
            continue;
        away = link.leaves ? slack_for_less(jump, arc) : slack_for_more(jump, arc);
        away = distance + (away < 0 ? 0 : away / jump->error + 1);
        if (away >= (int64_t)jump->distance[from])
            continue;
        if (jump->distance[from] < jump->nodes)
            take_from_bucket(jump, from);
        put_in_bucket(jump, from, (uint32_t)away);
    }
}

/* Finds how many errors each node is away from the nearest lack of flow, up to the farthest excess
 * or the number of nodes, and returns that limit. */
static uint32_t find_distances(struct jump *jump)
{
    uint32_t left = jump->queue_count;
    uint32_t distance = 0;

    memset(jump->bucket, 0xff, jump->nodes * sizeof(*jump->bucket)); /* nowhere */
    for (uint32_t node = 0; node < jump->nodes; node++)
        jump->distance[node] = jump->nodes;
    for (uint32_t node = 0; node < jump->nodes; node++)
        if (jump->excess[node] < 0)
            put_in_bucket(jump, node, 0);
    for (; distance < jump->nodes; distance++)
        for (uint32_t node = jump->bucket[distance]; node != nowhere;
             node = jump->bucket[distance]) {
            take_from_bucket(jump, node);
            jump_look_back(jump, node, distance);
            if (jump->excess[node] > 0 && --left == 0)
                return distance;
        }
    return distance;
}

/* Raises the potentials so that admissible arcs lead from every excess to a lack of flow. */
static void update_prices(struct jump *jump)
{
    const uint32_t most = find_distances(jump);

    for (uint32_t node = 0; node < jump->nodes; node++) {
        jump->potential[node] += lull_min_u32(jump->distance[node], most) * jump->error;
        jump->current[node] = jump->first_link[node];
    }
    jump->relabels = 0;
}

/* ---- push and relabel ------------------------------------------------------------------------ */

static void jump_enqueue(struct jump *jump, uint32_t node)
{
    uint32_t place = jump->queue_head + jump->queue_count;

    if (jump->is_queued[node] || jump->excess[node] <= 0)
        return;
    if (place >= jump->nodes)
        place -= jump->nodes;
    jump->queue[place] = node;
    jump->queue_count++;
    jump->is_queued[node] = true;
}

static uint32_t jump_dequeue(struct jump *jump)
{
    const uint32_t node = jump->queue[jump->queue_head];

    if (++jump->queue_head == jump->nodes)
        jump->queue_head = 0;
    jump->queue_count--;
    jump->is_queued[node] = false;
    return node;
}

/* Sends what it can of a node's excess over a link; over an operation at one length after the
 * other, as long as that is admissible. */
static void jump_push(struct jump *jump, uint32_t node, struct jump_link link)
{
    struct jump_arc *const arc = &jump->arcs[link.arc];

    if (link.leaves)
        while (jump->excess[node] > 0 && slack_for_more(jump, arc) < 0)
            set_flow(jump, link.arc,
                     arc->flow + lull_earlier_ns(arc->more_room, jump->excess[node]));
    else
        while (jump->excess[node] > 0 && arc->less_room > 0 && slack_for_less(jump, arc) < 0)
            set_flow(jump, link.arc,
                     arc->flow - lull_earlier_ns(arc->less_room, jump->excess[node]));
    jump_enqueue(jump, link.leaves ? arc->head : arc->tail);
}

/* Raises a node's potential as far as no slack falls below the error. */
static void jump_relabel(struct jump *jump, uint32_t node)
{
    int64_t least = INT64_MAX;

    for (uint32_t i = jump->first_link[node]; i < jump->first_link[node + 1]; i++) {
        const struct jump_link link = jump->links[i];
        const struct jump_arc *const arc = &jump->arcs[link.arc];

        if (link.leaves)
            least = lull_earlier_ns(least, slack_for_more(jump, arc));
        else if (arc->less_room > 0)
            least = lull_earlier_ns(least, slack_for_less(jump, arc));
    }
    assert(least >= 0 && least < INT64_MAX);
    jump->potential[node] += least + jump->error;
    jump->current[node] = jump->first_link[node];
    jump->relabels++;
}

static void jump_discharge(struct jump *jump, uint32_t node)
{
    while (jump->excess[node] > 0) {
        if (jump->current[node] == jump->first_link[node + 1]) {
            jump_relabel(jump, node);
            continue;
        }
        jump_push(jump, node, jump->links[jump->current[node]]);
        if (jump->excess[node] > 0)
            jump->current[node]++;
    }
}

/* ---- phases ---------------------------------------------------------------------------------- */

/* Raises what follows a node over arcs whose room has no end: their slack cannot be undone by
 * flow. */
static void raise_next(struct jump *jump, uint32_t node)
{
    for (uint32_t i = jump->first_link[node]; i < jump->first_link[node + 1]; i++) {
        const struct jump_link link = jump->links[i];
        const struct jump_arc *const arc = &jump->arcs[link.arc];
        int64_t length = arc->more_length;

        if (!link.leaves)
            continue;
        if (arc->curve != NULL)
            length = arc->curve->length_ns[arc->curve->steps] * jump->scale;
        jump->potential[arc->head] =
            lull_later_ns(jump->potential[arc->head], jump->potential[node] + length - jump->error);
    }
}

/* Once from the source to the sink, and once more with what returns: no cycle of such arcs is
 * longer than 0, since at their fastest the operations take no longer than the time. */
static void raise_all(struct jump *jump)
{
    for (int round = 0; round < 2; round++) {
        raise_next(jump, jump->source);
        for (uint32_t node = 0; node < jump->source; node++)
            raise_next(jump, node);
        raise_next(jump, jump->sink);
    }
}

/* Makes the flow one of a smaller error, and then again one that is conserved. */
static void jump_refine(struct jump *jump)
{
    raise_all(jump);
    for (uint32_t i = 0; i < jump->arc_count; i++) {
        struct jump_arc *const arc = &jump->arcs[i];

        while (slack_for_more(jump, arc) < -jump->error)
            set_flow(jump, i, arc->flow + arc->more_room);
        while (arc->less_room > 0 && slack_for_less(jump, arc) < -jump->error)
            set_flow(jump, i, arc->flow - arc->less_room);
    }
    for (uint32_t node = 0; node < jump->nodes; node++)
        jump_enqueue(jump, node);
    update_prices(jump);
    while (jump->queue_count > 0) {
        if (jump->relabels > jump->nodes / RELABELS_SHARE)
            update_prices(jump);
        jump_discharge(jump, jump_dequeue(jump));
    }
}

/* Starts from no flow and the potentials of the slow end, shrunk to the time. Returns the error to
 * begin with: what an operation's length can change by or more, as the potentials may have to move
 * so far at every operation before min_value flows. */
static int64_t jump_start(struct jump *jump, int64_t time_ns)
{
    const struct lull_frontier_network *const network = jump->network;
    const double share = (double)time_ns / (double)network->time_ns;
    int64_t error = 1;

    for (uint32_t node = 0; node < jump->source; node++)
        jump->potential[node] = (int64_t)(share * (double)network->potential[node]) * jump->scale;
    jump->potential[jump->source] = -time_ns * jump->scale;
    jump->potential[jump->sink] = 0;
    for (uint32_t i = 0; i < jump->arc_count; i++)
        error = lull_later_ns(error, -slack_for_more(jump, &jump->arcs[i]));
    for (uint32_t i = 0; i < network->curves.count; i++) {
        const struct lull_frontier_curve *const curve = &network->curves.all[i];

        error = lull_later_ns(error,
                              (curve->length_ns[0] - curve->length_ns[curve->steps]) * jump->scale);
    }
    set_flow(jump, jump->arc_count - 1, jump->min_value);
    return lull_earlier_ns(error, max_raised / jump->nodes);
}

/* Writes flow and potentials into the network. No potential lies within an error of 1 above a
 * multiple of the scale, once all are moved by a remainder that none has. */
static void write_back(struct jump *jump)
{
    struct lull_frontier_network *const network = jump->network;
    uint32_t *const has_remainder = jump->distance;
    int64_t remainder = 0;
    int64_t sink_ns;

    memset(has_remainder, 0, jump->nodes * sizeof(*has_remainder));
    for (uint32_t node = 0; node < jump->nodes; node++) {
        jump->potential[node] += network->time_ns * jump->scale * 4; /* above 0 */
        if (jump->potential[node] % jump->scale < jump->nodes)
            has_remainder[jump->potential[node] % jump->scale] = 1;
    }
    while (remainder < jump->nodes && has_remainder[remainder] != 0)
        remainder++;
    for (uint32_t node = 0; node < jump->nodes; node++)
        jump->potential[node] = (jump->potential[node] - remainder) / jump->scale;
    sink_ns = jump->potential[jump->sink];
    for (uint32_t node = 0; node < jump->source; node++)
        network->potential[node] = jump->potential[node] - sink_ns;
    network->time_ns = sink_ns - jump->potential[jump->source];
    network->value = jump->arcs[jump->arc_count - 1].flow;
    for (uint32_t i = 0; i < network->op_count; i++) {
        network->ops[i].flow = jump->arcs[i].flow;
        lull_network_update(&network->curves.all[network->ops[i].curve], &network->ops[i]);
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        network->edges[i].flow = jump->arcs[network->op_count + i].flow;
    lull_network_list_carriers(network);
}

/* Numbers the nodes and fills the arcs. */
static int jump_init(struct jump *jump, struct lull_frontier_network *network, int64_t time_ns,
                     int64_t min_value)
{
    const uint32_t nodes = 2 * network->op_count + 2;

    *jump = (struct jump){.network = network,
                          .nodes = nodes,
                          .source = nodes - 2,
                          .sink = nodes - 1,
                          .scale = (int64_t)nodes + 1,
                          .min_value = min_value};
    if (jump_allocate(jump) != 0)
        return -ENOMEM;
    add_arcs(jump, time_ns);
    add_links(jump);
    return 0;
}

int lull_network_jump(struct lull_frontier_network *network, int64_t time_ns, int64_t min_value)
{
    struct jump jump;
    int status;

    lull_network_reset(network);
    if (network->time_ns > max_scaled / (2 * (int64_t)network->op_count + 3))
        return -EOVERFLOW;
    status = jump_init(&jump, network, time_ns, min_value);
    if (status == 0) {
        jump.error = jump_start(&jump, time_ns);
        do {
            jump.error = lull_later_ns(jump.error / PHASE_RATIO, 1);
            jump_refine(&jump);
        } while (jump.error > 1);
        write_back(&jump);
    }
    lull_memory_free(&jump.memory);
    return status;
}
