/* The proof: what the flow at hand proves, and going back. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/prove/search.h"

/* ---- going back --------------------------------------------------------------------------- */

int lull_prover_mark(const struct prover *prover, struct mark *mark)
{
    const struct circulation *net = &prover->net;

    mark->trail_count = prover->choices.trail_count;
    mark->numbers = malloc((net->arc_count + net->node_count) * sizeof(*mark->numbers));
    if (mark->numbers == NULL)
        return -ENOMEM;
    memcpy(mark->numbers, net->flow, net->arc_count * sizeof(*net->flow));
    memcpy(mark->numbers + net->arc_count, net->potential,
           net->node_count * sizeof(*net->potential));
    return 0;
}

void lull_prover_forget(struct mark *mark)
{
    free(mark->numbers);
    mark->numbers = NULL;
}

void lull_prover_pack(struct prover *prover, uint32_t op)
{
    lull_choices_pack(&prover->choices, op);
    lull_circulation_step(&prover->net, &prover->choices, op);
}

void lull_prover_return(struct prover *prover, const struct mark *mark)
{
    struct choices *choices = &prover->choices;
    struct circulation *net = &prover->net;

    while (choices->trail_count > mark->trail_count) {
        const uint32_t full = choices->trail[--choices->trail_count];

        choices->gone[full] = false;
        if (choices->trail_count == mark->trail_count ||
            choices->op_of[choices->trail[choices->trail_count - 1]] != choices->op_of[full])
            lull_prover_pack(prover, choices->op_of[full]);
    }
    memcpy(net->flow, mark->numbers, net->arc_count * sizeof(*net->flow));
    memcpy(net->potential, mark->numbers + net->arc_count,
           net->node_count * sizeof(*net->potential));
}

/* ---- what is proven ----------------------------------------------------------------------- */

static struct lull_certificate certificate(const struct prover *prover)
{
    const struct circulation *net = &prover->net;

    return (struct lull_certificate){net->unit_w, net->flow[return_arc(net)], net->flow,
                                     net->flow + net->op_count};
}

/* It is a line over the iteration time, so the least is at an end. */
double lull_prover_bound(const struct prover *prover)
{
    const struct lull_certificate flow = certificate(prover);
    double slow_j;
    double fast_j;

    if (lull_certificate_check(&flow, &prover->choices.graph, NULL) < 0)
        return -INFINITY;
    slow_j = lull_certificate_bound(&flow, &prover->choices.left, prover->deadline_ns);
    fast_j = lull_certificate_bound(&flow, &prover->choices.left, prover->shortest_ns);
    return slow_j < fast_j ? slow_j : fast_j;
}

double lull_prover_bound_above(const struct prover *prover)
{
    const struct lull_certificate flow = certificate(prover);

    return lull_certificate_bound_above(&flow, &prover->choices.left, prover->deadline_ns);
}

double lull_prover_estimate(const struct prover *prover)
{
    const struct circulation *net = &prover->net;
    const struct choices *choices = &prover->choices;
    double sum_nj = 0.0;

    for (uint32_t op = 0; op < net->op_count; op++) {
        const struct lull_pipeline_class *left = &choices->profile.classes[op];
        const double price_w = (double)net->flow[op] * net->unit_w -
                               choices->asked->blocking_w[choices->graph.ops[op].device];
        double least_nj = INFINITY;

        if (!prover->is_inside[op])
            continue;
        for (size_t i = 0; i < left->option_count; i++)
            least_nj = fmin(least_nj, (double)left->options[i].energy_nj +
                                          price_w * (double)left->options[i].time_ns);
        sum_nj += least_nj;
    }
    for (uint32_t arc = net->op_count; arc < net->op_count + choices->graph.edge_count; arc++)
        sum_nj += (double)net->flow[arc] * net->unit_w * (double)net->arcs[arc].latency_ns;
    sum_nj -= (double)net->flow[return_arc(net)] * net->unit_w * (double)prover->deadline_ns;
    return sum_nj * 1e-9 + prover->offset_j;
}

void lull_prover_set_estimate(struct prover *prover)
{
    prover->offset_j = 0.0;
    prover->offset_j = lull_prover_bound(prover) - lull_prover_estimate(prover);
}

bool lull_prover_can_hold(struct prover *prover)
{
    const struct choices *choices = &prover->choices;

    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        const struct lull_pipeline_class *left = &choices->profile.classes[op];

        prover->duration_ns[op] = INT64_MAX;
        for (size_t i = 0; i < left->option_count; i++)
            if (left->options[i].time_ns < prover->duration_ns[op])
                prover->duration_ns[op] = left->options[i].time_ns;
    }
    return lull_pipeline_earliest(&choices->graph, prover->duration_ns, NULL) <=
           prover->deadline_ns;
}

double lull_prover_restrict(struct prover *prover, uint32_t op, int64_t window_ns, bool is_fast)
{
    struct choices *choices = &prover->choices;
    const uint32_t first = choices->first[op];
    double estimate_j;

    for (uint32_t i = first; i < first + choices->full_count[op]; i++)
        if (!choices->gone[i] && (choices->full[i].time_ns <= window_ns) != is_fast)
            lull_choices_drop(choices, i);
    lull_choices_pack(choices, op);
    if (choices->profile.classes[op].option_count == 0)
        return INFINITY;
    lull_circulation_step(&prover->net, choices, op);
    if (!lull_circulation_repair(&prover->net, op) && !lull_prover_can_hold(prover))
        return INFINITY;
    estimate_j = lull_prover_estimate(prover);
    return estimate_j > prover->energy_j ? lull_prover_bound(prover) : estimate_j;
}
