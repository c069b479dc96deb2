/*
 * Out-of-kilter repair of one arc (Fulkerson 1961). SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/pipeline/prove/state.h"

enum { MOST_ROUNDS = 4096 };

/* ---- what an arc allows ------------------------------------------------------------------ */

/* The stairs of an operation or the return; NULL: an arc of one length. */
static const struct stairs *stairs_of(const struct circulation *net, uint32_t arc)
{
    if (arc < net->op_count)
        return &net->stairs[arc];
    return arc == return_arc(net) ? &net->stairs[net->op_count] : NULL;
}

static int64_t window_ns(const struct circulation *net, uint32_t arc)
{
    return net->potential[net->arcs[arc].to] - net->potential[net->arcs[arc].from];
}

/* The length at which more flows through an arc, and how much more until it changes. */
static int64_t more_ns(const struct circulation *net, uint32_t arc, int64_t *room_out)
{
    const struct stairs *stairs = stairs_of(net, arc);
    uint32_t step = 0;

    *room_out = INT64_MAX;
    if (stairs == NULL)
        return net->arcs[arc].latency_ns;
    while (step < stairs->steps && stairs->threshold[step] <= net->flow[arc])
        step++;
    if (step < stairs->steps)
        *room_out = stairs->threshold[step] - net->flow[arc];
    return stairs->length_ns[step];
}

/* The same for less, where anything flows. */
static int64_t less_ns(const struct circulation *net, uint32_t arc, int64_t *room_out)
{
    const struct stairs *stairs = stairs_of(net, arc);
    uint32_t step = 0;

    *room_out = net->flow[arc];
    if (stairs == NULL)
        return net->arcs[arc].latency_ns;
    while (step < stairs->steps && stairs->threshold[step] < net->flow[arc])
        step++;
    if (step > 0)
        *room_out -= stairs->threshold[step - 1];
    return stairs->length_ns[step];
}

/* Slack of going over an arc from a node, which is one of its ends; -1: nothing can flow. */
static int64_t slack_ns(const struct circulation *net, uint32_t arc, uint32_t from,
                        int64_t *room_out)
{
    if (net->arcs[arc].from == from)
        return window_ns(net, arc) - more_ns(net, arc, room_out);
    return net->flow[arc] > 0 ? less_ns(net, arc, room_out) - window_ns(net, arc) : -1;
}

static uint32_t other_end(const struct circulation *net, uint32_t arc, uint32_t node)
{
    return net->arcs[arc].from == node ? net->arcs[arc].to : net->arcs[arc].from;
}

/* ---- shortest ways over slacks ------------------------------------------------------------ */

static void push(struct circulation *net, int64_t distance, uint32_t node)
{
    uint32_t at = net->heap_count++;

    for (; at > 0 && net->heap[(at - 1) / 2].distance > distance; at = (at - 1) / 2)
        net->heap[at] = net->heap[(at - 1) / 2];
    net->heap[at] = (struct key){distance, node};
}

static struct key pop(struct circulation *net)
{
    const struct key top = net->heap[0];
    const struct key last = net->heap[--net->heap_count];
    uint32_t at = 0;

    for (uint32_t child = 1; child < net->heap_count; child = 2 * at + 1) {
        if (child + 1 < net->heap_count &&
            net->heap[child + 1].distance < net->heap[child].distance)
            child++;
        if (net->heap[child].distance >= last.distance)
            break;
        net->heap[at] = net->heap[child];
        at = child;
    }
    net->heap[at] = last;
    return top;
}

static void reach(struct circulation *net, uint32_t node, int64_t distance)
{
    if (net->distance[node] == INT64_MAX)
        net->reached[net->reached_count++] = node;
    net->distance[node] = distance;
    push(net, distance, node);
}

/* Distance from one node to another without an arc, at most `most`; where it is less, net->way
 * leads back. */
static int64_t search(struct circulation *net, uint32_t from, uint32_t to, uint32_t without,
                      int64_t most)
{
    while (net->reached_count > 0) {
        const uint32_t node = net->reached[--net->reached_count];

        net->distance[node] = INT64_MAX;
        net->settled[node] = false;
    }
    net->heap_count = 0;
    reach(net, from, 0);
    while (net->heap_count > 0) {
        const struct key here = pop(net);

        if (net->settled[here.node])
            continue;
        net->settled[here.node] = true;
        if (here.node == to)
            return here.distance;
        for (uint32_t i = net->first[here.node]; i < net->first[here.node + 1]; i++) {
            const uint32_t arc = net->touching[i];
            const uint32_t next = other_end(net, arc, here.node);
            int64_t room;
            int64_t slack;

            if (arc == without || net->settled[next])
                continue;
            slack = slack_ns(net, arc, here.node, &room);
            if (slack < 0 || here.distance + slack >= most ||
                here.distance + slack >= net->distance[next])
                continue;
            net->way[next] = arc;
            reach(net, next, here.distance + slack);
        }
    }
    return most;
}

/* Raises what is nearer than by_ns, the start of the search by all of it. */
static void raise(struct circulation *net, int64_t by_ns)
{
    for (uint32_t i = 0; i < net->reached_count; i++) {
        const uint32_t node = net->reached[i];

        if (net->distance[node] < by_ns)
            net->potential[node] += by_ns - net->distance[node];
    }
}

/* Pushes along the way that was found what it and `most` allow; INT64_MAX: any amount would go, and
 * nothing is pushed. */
static int64_t augment(struct circulation *net, uint32_t from, uint32_t to, int64_t most)
{
    for (uint32_t node = to; node != from; node = other_end(net, net->way[node], node)) {
        int64_t room = 0;

        slack_ns(net, net->way[node], other_end(net, net->way[node], node), &room);
        if (room < most)
            most = room;
    }
    for (uint32_t node = to; most < INT64_MAX && node != from;
         node = other_end(net, net->way[node], node))
        net->flow[net->way[node]] += net->arcs[net->way[node]].to == node ? most : -most;
    return most;
}

bool lull_circulation_repair(struct circulation *net, uint32_t arc)
{
    const uint32_t begin = net->arcs[arc].from;
    const uint32_t end = net->arcs[arc].to;

    for (unsigned rounds = 0; rounds < MOST_ROUNDS; rounds++) {
        int64_t room;
        int64_t missing_ns = more_ns(net, arc, &room) - window_ns(net, arc);
        bool is_short = missing_ns > 0;
        int64_t distance_ns;
        int64_t pushed;

        if (!is_short) {
            missing_ns = window_ns(net, arc) - less_ns(net, arc, &room);
            if (net->flow[arc] == 0 || missing_ns <= 0)
                return true;
        }
        distance_ns = search(net, is_short ? end : begin, is_short ? begin : end, arc, missing_ns);
        raise(net, distance_ns);
        if (distance_ns == missing_ns)
            continue;
        pushed = augment(net, is_short ? end : begin, is_short ? begin : end, room);
        if (pushed == INT64_MAX)
            return false;
        net->flow[arc] += is_short ? pushed : -pushed;
    }
    return false;
}
