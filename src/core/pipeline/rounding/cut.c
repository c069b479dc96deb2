/*
 * Finds which of the starts and ends of operations to move together: a minimum cut by blocking
 * flows (Dinic 1970). Each node's excess says how much a source or a sink at it carries, so that
 * the graph is built only once. SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/state.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

enum { UNREACHED = UINT32_MAX };

/* A smaller excess is not worth a path: rounding to integers leaves as much at every node. */
#define CRUMB (COST_LIMIT >> 26)

/* A smaller gain than this is not worth a move, nor the search for it. Commit 2e0c524 measured
 * both. */
#define WORTH (COST_LIMIT >> 18)

/* Adds an arc and its reverse. */
static void cut_connect(struct lull_rounding_cut *cut, uint32_t *fill, uint32_t from, uint32_t to)
{
    uint32_t arc = (uint32_t)cut->arc_count;

    cut->head[arc] = to;
    cut->head[arc + 1] = from;
    cut->arcs[fill[from]++] = arc;
    cut->arcs[fill[to]++] = arc + 1;
    cut->arc_count += 2;
}

/* NOLINTBEGIN(bugprone-implicit-widening-of-multiplication-result): LULL_PIPELINE_MAX_OPS and
 * LULL_PIPELINE_MAX_EDGES are far below what twice a number in 32 bits can hold. */

/* Arc 2 i goes from the start of operation i to its end; the arcs of the edges follow in the order
 * of `out`, from the end of one operation to the start of the other. */
static void cut_lay_out(struct lull_rounding_cut *cut,
                        const struct lull_pipeline_rounding *rounding)
{
    uint32_t *fill = cut->level; /* not in use yet */

    cut->first_arc[0] = 0;
    for (uint32_t op = 0; op < rounding->count; op++) {
        uint32_t in = rounding->first_in[op + 1] - rounding->first_in[op];
        uint32_t out = rounding->first_out[op + 1] - rounding->first_out[op];
        uint32_t first = cut->first_arc[2 * op];

        cut->first_arc[2 * op + 1] = first + in + 1;
        cut->first_arc[2 * op + 2] = first + in + out + 2;
        fill[2 * op] = first;
        fill[2 * op + 1] = first + in + 1;
    }
    for (uint32_t op = 0; op < rounding->count; op++)
        cut_connect(cut, fill, 2 * op, 2 * op + 1);
    for (uint32_t op = 0; op < rounding->count; op++)
        for (uint32_t k = rounding->first_out[op]; k < rounding->first_out[op + 1]; k++)
            cut_connect(cut, fill, 2 * op + 1, 2 * rounding->out[k].op);
    assert(cut->first_arc[cut->node_count] == cut->arc_count);
}

/* NOLINTEND(bugprone-implicit-widening-of-multiplication-result) */

/* The graph's shape is laid out once; each move only sets what its arcs carry. */
int lull_cut_create(struct lull_pipeline_rounding *rounding)
{
    struct lull_rounding_cut *const cut = &rounding->cut;
    struct lull_memory *const memory = &rounding->memory;
    const size_t nodes = (size_t)rounding->count * 2;
    const size_t arcs = ((size_t)rounding->count + rounding->first_out[rounding->count]) * 2;

    cut->first_arc = lull_memory_take(memory, nodes + 1, sizeof(*cut->first_arc));
    cut->arcs = lull_memory_take(memory, arcs, sizeof(*cut->arcs));
    cut->head = lull_memory_take(memory, arcs, sizeof(*cut->head));
    cut->room = lull_memory_take(memory, arcs, sizeof(*cut->room));
    cut->excess = lull_memory_take(memory, nodes, sizeof(*cut->excess));
    cut->level = lull_memory_take(memory, nodes, sizeof(*cut->level));
    cut->current = lull_memory_take(memory, nodes, sizeof(*cut->current));
    cut->queue = lull_memory_take(memory, nodes, sizeof(*cut->queue));
    cut->path = lull_memory_take(memory, nodes, sizeof(*cut->path));
    if (memory->has_failed)
        return -ENOMEM;
    cut->node_count = (uint32_t)nodes;
    cut_lay_out(cut, rounding);
    return 0;
}

/* Finds levels from all nodes with excess along arcs with room. Returns whether they reach a node
 * that lacks flow and the excess left is worth continuing: no cut gains more than all of it. */
static bool find_levels(struct lull_rounding_cut *cut)
{
    uint32_t reached = UNREACHED;
    uint32_t tail = 0;
    int64_t left = 0;

    memset(cut->level, 0xff, cut->node_count * sizeof(*cut->level));
    for (uint32_t node = 0; node < cut->node_count; node++)
        if (cut->excess[node] > CRUMB) {
            cut->level[node] = 0;
            cut->queue[tail++] = node;
            left += cut->excess[node];
        }
    if (left < WORTH)
        tail = 0;
    cut->source_count = tail;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t node = cut->queue[head];

        if (cut->level[node] >= reached)
            break;
        for (uint32_t k = cut->first_arc[node]; k < cut->first_arc[node + 1]; k++) {
            uint32_t next = cut->head[cut->arcs[k]];

            if (cut->room[cut->arcs[k]] <= 0 || cut->level[next] != UNREACHED)
                continue;
            cut->level[next] = cut->level[node] + 1;
            cut->queue[tail++] = next;
            if (cut->excess[next] < -CRUMB && reached == UNREACHED)
                reached = cut->level[next];
        }
    }
    return reached != UNREACHED;
}

/* Sends as much as the path of `length` arcs from `source` to `sink` takes. Returns how many arcs
 * of the path lie before the first that is full. */
static uint32_t cut_send(struct lull_rounding_cut *cut, uint32_t source, uint32_t sink,
                         uint32_t length)
{
    int64_t most = cut->excess[source];
    uint32_t good = length;

    if (-cut->excess[sink] < most)
        most = -cut->excess[sink];
    for (uint32_t i = 0; i < length; i++)
        if (cut->room[cut->path[i]] < most)
            most = cut->room[cut->path[i]];
    assert(most > 0);
    for (uint32_t i = length; i-- > 0;) {
        cut->room[cut->path[i]] -= most;
        cut->room[cut->path[i] ^ 1] += most;
        if (cut->room[cut->path[i]] == 0)
            good = i;
    }
    cut->excess[source] -= most;
    cut->excess[sink] += most;
    return good;
}

/* Sends a blocking flow out of one node along the levels. */
static void cut_drain(struct lull_rounding_cut *cut, uint32_t source)
{
    uint32_t length = 0;
    uint32_t node = source;

    while (cut->excess[source] > CRUMB) {
        uint32_t arc;

        if (cut->excess[node] < -CRUMB) {
            length = cut_send(cut, source, node, length);
            node = length > 0 ? cut->head[cut->path[length - 1]] : source;
            continue;
        }
        while (cut->current[node] < cut->first_arc[node + 1]) {
            arc = cut->arcs[cut->current[node]];
            if (cut->room[arc] > 0 && cut->level[cut->head[arc]] == cut->level[node] + 1)
                break;
            cut->current[node]++;
        }
        if (cut->current[node] < cut->first_arc[node + 1]) {
            arc = cut->arcs[cut->current[node]];
            cut->path[length++] = arc;
            node = cut->head[arc];
            continue;
        }
        if (length == 0)
            return;
        length--;
        node = cut->head[cut->path[length] ^ 1];
        cut->current[node]++;
    }
}

bool lull_cut_solve(struct lull_rounding_cut *cut)
{
    while (find_levels(cut)) {
        memcpy(cut->current, cut->first_arc, cut->node_count * sizeof(*cut->current));
        for (uint32_t i = 0; i < cut->source_count; i++)
            cut_drain(cut, cut->queue[i]);
    }
    return cut->source_count > 0;
}
