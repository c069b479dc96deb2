/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/prove/state.h"

static double slope_w(const struct lull_pipeline_option *fast,
                      const struct lull_pipeline_option *slow, double blocking_w)
{
    return (double)(fast->energy_nj - slow->energy_nj) / (double)(slow->time_ns - fast->time_ns) +
           blocking_w;
}

void lull_circulation_step(struct circulation *net, const struct choices *choices, uint32_t op)
{
    const struct lull_pipeline_class *left = &choices->profile.classes[op];
    const double blocking_w = choices->asked->blocking_w[choices->graph.ops[op].device];
    struct stairs *stairs = &net->stairs[op];
    uint32_t corner[LULL_PIPELINE_MAX_OPTIONS];
    size_t count = lull_pipeline_pareto(left, blocking_w, true, corner);
    const struct lull_pipeline_option *slow = &left->options[corner[--count]];

    stairs->steps = 0;
    stairs->length_ns[0] = slow->time_ns;
    while (count-- > 0) {
        const struct lull_pipeline_option *fast = &left->options[corner[count]];
        const int64_t threshold = llround(slope_w(fast, slow, blocking_w) / net->unit_w);

        /* A corner whose threshold does not rise, after rounding, lies on a line. */
        if (threshold > (stairs->steps > 0 ? stairs->threshold[stairs->steps - 1] : 0))
            stairs->threshold[stairs->steps++] = threshold;
        stairs->length_ns[stairs->steps] = fast->time_ns;
        slow = fast;
    }
}

static int make_room(struct circulation *net, size_t options)
{
    const size_t nodes = net->node_count;
    const size_t arcs = net->arc_count;

    net->arcs = calloc(arcs, sizeof(*net->arcs));
    net->first = calloc(nodes + 2, sizeof(*net->first));
    net->touching = calloc(2 * arcs, sizeof(*net->touching));
    net->stairs = calloc(net->op_count + 1, sizeof(*net->stairs));
    net->lengths = calloc(options + 2, sizeof(*net->lengths));
    net->thresholds = calloc(options + 1, sizeof(*net->thresholds));
    net->flow = calloc(arcs, sizeof(*net->flow));
    net->potential = calloc(nodes, sizeof(*net->potential));
    net->distance = calloc(nodes, sizeof(*net->distance));
    net->way = calloc(nodes, sizeof(*net->way));
    net->settled = calloc(nodes, sizeof(*net->settled));
    net->reached = calloc(nodes, sizeof(*net->reached));
    net->heap = calloc(2 * arcs + 1, sizeof(*net->heap));
    return net->arcs == NULL || net->first == NULL || net->touching == NULL ||
                   net->stairs == NULL || net->lengths == NULL || net->thresholds == NULL ||
                   net->flow == NULL || net->potential == NULL || net->distance == NULL ||
                   net->way == NULL || net->settled == NULL || net->reached == NULL ||
                   net->heap == NULL
               ? -ENOMEM
               : 0;
}

/* All arcs and the flow over them. */
static void add_arcs(struct circulation *net, const struct lull_pipeline_graph *graph,
                     const struct lull_certificate *flow)
{
    const uint32_t source = 2 * net->op_count;
    const uint32_t sink = source + 1;
    uint32_t arc = net->op_count;

    for (uint32_t op = 0; op < net->op_count; op++) {
        net->arcs[op] = (struct arc){2 * op, 2 * op + 1, 0};
        net->flow[op] = flow->op_flow[op];
    }
    for (size_t i = 0; i < graph->edge_count; i++) {
        const struct lull_pipeline_edge *edge = &graph->edges[i];

        net->flow[arc] = flow->edge_flow[i];
        net->arcs[arc++] = (struct arc){2 * edge->from + 1, 2 * edge->to, edge->latency_ns};
    }
    for (uint32_t op = 0; op < net->op_count; op++) {
        if (graph->first_in[op] == graph->first_in[op + 1]) {
            net->flow[arc] = flow->op_flow[op];
            net->arcs[arc++] = (struct arc){source, 2 * op, 0};
        }
        if (graph->first_out[op] == graph->first_out[op + 1]) {
            net->flow[arc] = flow->op_flow[op];
            net->arcs[arc++] = (struct arc){2 * op + 1, sink, 0};
        }
    }
    net->flow[arc] = flow->value;
    net->arcs[arc++] = (struct arc){sink, source, 0};
    net->arc_count = arc;
}

/* Whether an arc joins nodes inside; the return never does. */
static bool joins(const struct circulation *net, uint32_t arc, const bool *is_inside)
{
    return is_inside == NULL || (arc != return_arc(net) && is_inside[net->arcs[arc].from] &&
                                 is_inside[net->arcs[arc].to]);
}

void lull_circulation_confine(struct circulation *net, const bool *is_inside)
{
    memset(net->first, 0, (net->node_count + 2) * sizeof(*net->first));
    for (uint32_t arc = 0; arc < net->arc_count; arc++)
        if (joins(net, arc, is_inside)) {
            net->first[net->arcs[arc].from + 2]++;
            net->first[net->arcs[arc].to + 2]++;
        }
    for (uint32_t node = 0; node < net->node_count; node++)
        net->first[node + 2] += net->first[node + 1];
    for (uint32_t arc = 0; arc < net->arc_count; arc++)
        if (joins(net, arc, is_inside)) {
            net->touching[net->first[net->arcs[arc].from + 1]++] = arc;
            net->touching[net->first[net->arcs[arc].to + 1]++] = arc;
        }
}

/* Its length is 0 or the deadline, negative: all between where just the blocking power flows. */
static void step_return(struct circulation *net, const struct choices *choices, int64_t deadline_ns)
{
    const uint32_t options = choices->first[net->op_count];
    struct stairs *stairs = &net->stairs[net->op_count];
    double blocking_w = 0.0;

    for (uint32_t device = 0; device < choices->graph.device_count; device++)
        blocking_w += choices->asked->blocking_w[device];
    *stairs = (struct stairs){1, net->lengths + options, net->thresholds + options};
    stairs->length_ns[0] = 0;
    stairs->length_ns[1] = -deadline_ns;
    stairs->threshold[0] = llround(blocking_w / net->unit_w);
}

int lull_circulation_init(struct circulation *net, const struct choices *choices,
                          int64_t deadline_ns, int64_t time_ns, const struct lull_certificate *flow,
                          const int64_t *begin_ns, const int64_t *duration_ns)
{
    const struct lull_pipeline_graph *graph = &choices->graph;
    const uint32_t count = (uint32_t)graph->op_count;

    *net = (struct circulation){.op_count = count, .unit_w = flow->unit_w};
    net->node_count = 2 * count + 2;
    net->arc_count = 3 * count + (uint32_t)graph->edge_count + 1;
    if (make_room(net, choices->first[count]) < 0)
        return -ENOMEM;
    add_arcs(net, graph, flow);
    lull_circulation_confine(net, NULL);
    for (uint32_t op = 0; op < count; op++) {
        net->stairs[op].length_ns = net->lengths + choices->first[op];
        net->stairs[op].threshold = net->thresholds + choices->first[op];
        lull_circulation_step(net, choices, op);
        net->potential[2 * op] = begin_ns[op];
        net->potential[2 * op + 1] = begin_ns[op] + duration_ns[op];
    }
    for (uint32_t node = 0; node < net->node_count; node++)
        net->distance[node] = INT64_MAX;
    step_return(net, choices, deadline_ns);
    net->potential[2 * count + 1] = time_ns;
    return 0;
}

void lull_circulation_fini(struct circulation *net)
{
    free(net->arcs);
    free(net->first);
    free(net->touching);
    free(net->stairs);
    free(net->lengths);
    free(net->thresholds);
    free(net->flow);
    free(net->potential);
    free(net->distance);
    free(net->way);
    free(net->settled);
    free(net->reached);
    free(net->heap);
}
