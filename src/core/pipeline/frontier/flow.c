/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/frontier/state.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "base/clock.h"

enum { BEGIN, END };

void lull_network_update(const struct lull_frontier_curve *curve, struct lull_frontier_flow_op *op)
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

static void list_carriers(struct lull_frontier_network *network, struct lull_frontier_flow_op *op)
{
    op->carriers = 0;
    for (uint32_t i = op->first_in; i < op[1].first_in; i++) {
        const struct lull_frontier_flow_edge *edge = &network->edges[network->in_edges[i]];

        if (edge->flow > 0)
            network->carried_from[op->first_in + op->carriers++] = edge->from;
    }
}

void lull_network_list_carriers(struct lull_frontier_network *network)
{
    for (uint32_t i = 0; i < network->op_count; i++)
        list_carriers(network, &network->ops[i]);
}

void lull_network_carry(struct lull_frontier_network *network, uint32_t edge, int64_t change)
{
    struct lull_frontier_flow_edge *changed = &network->edges[edge];
    const bool carried = changed->flow > 0;

    changed->flow += change;
    assert(changed->flow >= 0);
    if (carried != (changed->flow > 0))
        list_carriers(network, &network->ops[changed->to]);
}

/* Allocates all arrays whose size the graph gives; the heap grows with the search. */
static int flow_allocate(struct lull_frontier_network *network)
{
    const struct lull_pipeline_graph *graph = network->graph;
    struct lull_memory *const memory = &network->memory;
    const size_t nodes = 2 * graph->op_count;
    const size_t edges = graph->edge_count;

    network->ops = lull_memory_take(memory, graph->op_count + 1, sizeof(*network->ops));
    network->edges = lull_memory_take(memory, edges, sizeof(*network->edges));
    network->in_edges = lull_memory_take(memory, edges, sizeof(*network->in_edges));
    network->carried_from = lull_memory_take(memory, edges, sizeof(*network->carried_from));
    network->sources = lull_memory_take(memory, graph->op_count, sizeof(*network->sources));
    network->sinks = lull_memory_take(memory, graph->op_count, sizeof(*network->sinks));
    network->potential = lull_memory_take(memory, nodes, sizeof(*network->potential));
    network->distance = lull_memory_take(memory, nodes, sizeof(*network->distance));
    network->rank = lull_memory_take(memory, nodes, sizeof(*network->rank));
    network->cursor = lull_memory_take(memory, nodes, sizeof(*network->cursor));
    network->way = lull_memory_take(memory, nodes, sizeof(*network->way));
    network->settled = lull_memory_take(memory, nodes, sizeof(*network->settled));
    return memory->has_failed ? -ENOMEM : 0;
}

/* Copies the graph and names the ends of its edges by place. place: that of every operation. */
static void copy_graph(struct lull_frontier_network *network, const uint32_t *place)
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

int lull_network_init(struct lull_frontier_network *network,
                      const struct lull_pipeline_problem *problem, struct lull_error *err)
{
    const struct lull_pipeline_graph *graph = problem->graph;
    uint32_t *place;
    int status;

    *network =
        (struct lull_frontier_network){.graph = graph, .op_count = (uint32_t)graph->op_count};
    status = lull_curves_init(&network->curves, problem, err);
    if (status != 0)
        return status;
    place = malloc(graph->op_count * sizeof(*place));
    if (place == NULL || flow_allocate(network) != 0) {
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

void lull_network_fini(struct lull_frontier_network *network)
{
    lull_curves_fini(&network->curves);
    lull_memory_free(&network->memory);
    free(network->heap);
}

/* Without flow every operation is at its slowest corner, and the potentials are the longest
 * distances from the sources, shifted so that the sink is at 0. */
void lull_network_reset(struct lull_frontier_network *network)
{
    network->value = 0;
    network->time_ns = 0;
    for (size_t i = 0; i < network->graph->edge_count; i++)
        network->edges[i].flow = 0;
    for (uint32_t i = 0; i < network->op_count; i++) {
        struct lull_frontier_flow_op *op = &network->ops[i];
        int64_t begin = 0;

        for (uint32_t j = op->first_in; j < op[1].first_in; j++) {
            const struct lull_frontier_flow_edge *edge = &network->edges[network->in_edges[j]];
            const int64_t ready = network->potential[2 * edge->from + END] + edge->latency_ns;

            begin = lull_later_ns(ready, begin);
        }
        op->flow = 0;
        op->level = 0;
        op->carriers = 0;
        lull_network_update(&network->curves.all[op->curve], op);
        network->potential[2 * i + BEGIN] = begin;
        network->potential[2 * i + END] = begin + op->more_ns;
        if (begin + op->more_ns > network->time_ns)
            network->time_ns = begin + op->more_ns;
    }
    for (uint32_t node = 0; node < 2 * network->op_count; node++)
        network->potential[node] -= network->time_ns;
}

int lull_network_keep(const struct lull_frontier_network *network, struct lull_frontier_kept *kept)
{
    int64_t *next =
        malloc((3 * (size_t)network->op_count + network->graph->edge_count) * sizeof(*next));

    if (next == NULL)
        return -ENOMEM;
    kept->numbers = next;
    kept->time_ns = network->time_ns;
    kept->value = network->value;
    for (uint32_t i = 0; i < network->op_count; i++) {
        *next++ = network->potential[2 * i + BEGIN];
        *next++ = network->potential[2 * i + END];
        *next++ = network->ops[i].flow;
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        *next++ = network->edges[i].flow;
    return 0;
}

void lull_network_return(struct lull_frontier_network *network,
                         const struct lull_frontier_kept *kept)
{
    const int64_t *next = kept->numbers;

    network->time_ns = kept->time_ns;
    network->value = kept->value;
    for (uint32_t i = 0; i < network->op_count; i++) {
        struct lull_frontier_flow_op *op = &network->ops[i];

        network->potential[2 * i + BEGIN] = *next++;
        network->potential[2 * i + END] = *next++;
        op->flow = *next++;
        lull_network_update(&network->curves.all[op->curve], op);
    }
    for (size_t i = 0; i < network->graph->edge_count; i++)
        network->edges[i].flow = *next++;
    lull_network_list_carriers(network);
}
