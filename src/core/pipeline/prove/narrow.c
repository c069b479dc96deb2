/*
 * The proof: which options need not be looked at, and which operations are to be branched on.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdlib.h>

#include "core/pipeline/prove/search.h"

/* ---- leaving out options ------------------------------------------------------------------ */

static double loss_nj(const struct lull_pipeline_option *option, double price_w)
{
    return (double)option->energy_nj + price_w * (double)option->time_ns;
}

static double price_w(const struct prover *prover, uint32_t op)
{
    return (double)prover->net.flow[op] * prover->net.unit_w -
           prover->choices.asked->blocking_w[prover->choices.graph.ops[op].device];
}

static const struct lull_pipeline_option *cheapest(const struct prover *prover, uint32_t op)
{
    const struct lull_pipeline_class *left = &prover->choices.profile.classes[op];
    const double price = price_w(prover, op);
    const struct lull_pipeline_option *best = &left->options[0];

    for (size_t i = 1; i < left->option_count; i++)
        if (loss_nj(&left->options[i], price) < loss_nj(best, price))
            best = &left->options[i];
    return best;
}

uint32_t lull_prover_leave_out(struct prover *prover, double bound_j)
{
    struct choices *choices = &prover->choices;
    const double most_nj = (prover->energy_j - bound_j) * 1e9 + LULL_PROVE_SLIP_NJ;
    const uint32_t before = choices->trail_count;

    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        const double price = price_w(prover, op);
        const double least_nj = loss_nj(cheapest(prover, op), price);
        const uint32_t first = choices->first[op];
        const uint32_t trail_count = choices->trail_count;

        if (!prover->is_inside[op])
            continue;
        for (uint32_t i = first; i < first + choices->full_count[op]; i++)
            if (!choices->gone[i] && loss_nj(&choices->full[i], price) - least_nj > most_nj)
                lull_choices_drop(choices, i);
        if (choices->trail_count > trail_count)
            lull_prover_pack(prover, op);
    }
    /* Where a threshold has moved by a rounding, the flow follows. */
    for (uint32_t i = before; i < choices->trail_count; i++)
        lull_circulation_repair(&prover->net, choices->op_of[choices->trail[i]]);
    return choices->trail_count - before;
}

/* ---- a plan within the relaxed optimum ---------------------------------------------------- */

static int64_t window_ns(const struct prover *prover, uint32_t op)
{
    return prover->net.potential[2 * op + 1] - prover->net.potential[2 * op];
}

/* Rounds an operation down; returns what that costs beyond the mixture, in nJ. */
static double round_down(struct prover *prover, uint32_t op)
{
    const struct lull_pipeline_class *left = &prover->choices.profile.classes[op];
    const double blocking_w =
        prover->choices.asked->blocking_w[prover->choices.graph.ops[op].device];
    const double price = price_w(prover, op);
    const int64_t time_ns = window_ns(prover, op);
    size_t best = left->option_count;
    double mixture_nj;

    for (size_t i = 0; i < left->option_count; i++)
        if (left->options[i].time_ns <= time_ns &&
            (best == left->option_count ||
             loss_nj(&left->options[i], -blocking_w) < loss_nj(&left->options[best], -blocking_w)))
            best = i;
    prover->rounded[op] = best == left->option_count ? 0 : (uint32_t)best;
    if (best == left->option_count)
        return INFINITY;
    /* The mixture lies on the line of the price through the cheapest option. */
    mixture_nj = loss_nj(cheapest(prover, op), price);
    if (prover->net.flow[op] > 0)
        mixture_nj -= (price + blocking_w) * (double)time_ns;
    return loss_nj(&left->options[best], -blocking_w) - mixture_nj;
}

static int by_cost(const void *left, const void *right)
{
    const struct mixed *a = left;
    const struct mixed *b = right;

    if (a->cost_nj < b->cost_nj || a->cost_nj > b->cost_nj)
        return a->cost_nj > b->cost_nj ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

uint32_t lull_prover_list_mixed(struct prover *prover, struct mixed *mixed, double *sum_j_out)
{
    uint32_t count = 0;

    *sum_j_out = 0.0;
    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        const double cost_nj = prover->is_inside[op] ? round_down(prover, op) : 0.0;

        *sum_j_out += cost_nj * 1e-9;
        if (cost_nj > LULL_PROVE_SLIP_NJ && prover->choices.profile.classes[op].option_count > 1)
            mixed[count++] = (struct mixed){cost_nj, window_ns(prover, op), op, 0.0};
    }
    qsort(mixed, count, sizeof(*mixed), by_cost);
    return count;
}

int lull_prover_is_found(struct prover *prover, double bound_j, double sum_j)
{
    const struct choices *choices = &prover->choices;
    struct lull_pipeline_cost cost;

    if (prover->is_window)
        return bound_j + sum_j <= prover->energy_j;
    cost = lull_pipeline_plan_cost(&choices->left, prover->rounded, 0);
    if (cost.time_ns < 0)
        return (int)cost.time_ns;
    if (cost.time_ns > prover->deadline_ns || cost.energy_j > prover->energy_j)
        return 0;
    for (uint32_t op = 0; op < prover->net.op_count; op++)
        prover->found[op] = choices->name[choices->first[op] + prover->rounded[op]];
    return 1;
}
