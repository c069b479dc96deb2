/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/prove/prove.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/pipeline/frontier/frontier.h"
#include "core/pipeline/prove/state.h"

enum {
    TRIED = 32,  /* operations that are tried both ways before one is branched on */
    ROUNDS = 64, /* of leaving out options and trying, per branching */
};

/* What counts as a gain at least, so that one side without any does not hide the other. */
static const double least_gain_j = 1e-4;

/* What rounding may make of a loss, nJ. */
static const double slip_nj = 1.0;

struct prover {
    struct choices choices;
    struct circulation net;
    int64_t deadline_ns;
    int64_t shortest_ns; /* with all options */
    double blocking_w;   /* of all devices */
    double energy_j;
    uint64_t limit;
    lull_proof_progress progress;
    void *user;
    struct lull_proof_report report;
    int64_t *duration_ns;
    uint32_t *rounded; /* options left, for the plan within the relaxed optimum */
    uint32_t *found;   /* options asked */
    struct lull_error *err;
};

/* Where a search may return to. */
struct mark {
    uint32_t trail_count;
    int64_t *numbers; /* flows, then potentials */
};

/* An operation that mixes options: which are as fast as the mixture, what rounding it costs. */
struct mixed {
    double cost_nj;
    int64_t window_ns;
    uint32_t op;
};

/* ---- going back --------------------------------------------------------------------------- */

static int set_mark(const struct prover *prover, struct mark *mark)
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

static void pack(struct prover *prover, uint32_t op)
{
    lull_choices_pack(&prover->choices, op);
    lull_circulation_step(&prover->net, &prover->choices, op);
}

static void return_to(struct prover *prover, const struct mark *mark)
{
    struct choices *choices = &prover->choices;
    struct circulation *net = &prover->net;

    while (choices->trail_count > mark->trail_count) {
        const uint32_t full = choices->trail[--choices->trail_count];

        choices->gone[full] = false;
        if (choices->trail_count == mark->trail_count ||
            choices->op_of[choices->trail[choices->trail_count - 1]] != choices->op_of[full])
            pack(prover, choices->op_of[full]);
    }
    memcpy(net->flow, mark->numbers, net->arc_count * sizeof(*net->flow));
    memcpy(net->potential, mark->numbers + net->arc_count,
           net->node_count * sizeof(*net->potential));
}

/* ---- what is proven ----------------------------------------------------------------------- */

/* What every plan of the options left needs at least, by the flow at hand. It is a line over the
 * iteration time, so the least is at an end. */
static double prove_bound(const struct prover *prover)
{
    const struct circulation *net = &prover->net;
    const struct lull_certificate flow = {net->unit_w, net->flow[return_arc(net)], net->flow,
                                          net->flow + net->op_count};
    double slow_j;
    double fast_j;

    if (lull_certificate_check(&flow, &prover->choices.graph, NULL) < 0)
        return -INFINITY;
    slow_j = lull_certificate_bound(&flow, &prover->choices.left, prover->deadline_ns);
    fast_j = lull_certificate_bound(&flow, &prover->choices.left, prover->shortest_ns);
    return slow_j < fast_j ? slow_j : fast_j;
}

/* Whether the fastest options left hold the deadline. */
static bool can_hold(struct prover *prover)
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

/* Leaves an operation only options on one side of a time, and repairs the flow. Returns the bound
 * then, INFINITY where no plan is left. */
static double restrict_to(struct prover *prover, uint32_t op, int64_t window_ns, bool is_fast)
{
    struct choices *choices = &prover->choices;
    const uint32_t first = choices->first[op];

    for (uint32_t i = first; i < first + choices->full_count[op]; i++)
        if (!choices->gone[i] && (choices->full[i].time_ns <= window_ns) != is_fast)
            lull_choices_drop(choices, i);
    lull_choices_pack(choices, op);
    if (choices->profile.classes[op].option_count == 0)
        return INFINITY;
    lull_circulation_step(&prover->net, choices, op);
    if (!lull_circulation_repair(&prover->net, op) && !can_hold(prover))
        return INFINITY;
    return prove_bound(prover);
}

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

/* Leaves out what loses more than there is to lose; returns how many options that were. */
static uint32_t leave_out(struct prover *prover, double bound_j)
{
    struct choices *choices = &prover->choices;
    const double most_nj = (prover->energy_j - bound_j) * 1e9 + slip_nj;
    const uint32_t before = choices->trail_count;

    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        const double price = price_w(prover, op);
        const double least_nj = loss_nj(cheapest(prover, op), price);
        const uint32_t first = choices->first[op];
        const uint32_t trail_count = choices->trail_count;

        for (uint32_t i = first; i < first + choices->full_count[op]; i++)
            if (!choices->gone[i] && loss_nj(&choices->full[i], price) - least_nj > most_nj)
                lull_choices_drop(choices, i);
        if (choices->trail_count > trail_count)
            pack(prover, op);
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

/* Rounds all down; the operations that it costs most, the dearest first. */
static uint32_t list_mixed(struct prover *prover, struct mixed *mixed)
{
    uint32_t count = 0;

    for (uint32_t op = 0; op < prover->net.op_count; op++) {
        const double cost_nj = round_down(prover, op);

        if (cost_nj > slip_nj && prover->choices.profile.classes[op].option_count > 1)
            mixed[count++] = (struct mixed){cost_nj, window_ns(prover, op), op};
    }
    qsort(mixed, count, sizeof(*mixed), by_cost);
    return count;
}

/* Whether the plan rounded down is good enough; it is kept then. -ENOMEM. */
static int is_found(struct prover *prover)
{
    const struct choices *choices = &prover->choices;
    struct lull_pipeline_cost cost;

    cost = lull_pipeline_plan_cost(&choices->left, prover->rounded, 0);
    if (cost.time_ns < 0)
        return (int)cost.time_ns;
    if (cost.time_ns > prover->deadline_ns || cost.energy_j > prover->energy_j)
        return 0;
    for (uint32_t op = 0; op < prover->net.op_count; op++)
        prover->found[op] = choices->name[choices->first[op] + prover->rounded[op]];
    return 1;
}

/* ---- branching ---------------------------------------------------------------------------- */

struct branch {
    struct mixed mixed;
    bool is_fast_first; /* the side that the flow proves more for */
    double score;
};

/* The score of two bounds on the sides of a branch: their gains multiplied. */
static double score_of(const struct prover *prover, double bound_j, double fast_j, double slow_j)
{
    const double most_j = prover->energy_j - bound_j;
    double product = 1.0;

    for (unsigned i = 0; i < 2; i++) {
        const double gain_j = (i == 0 ? fast_j : slow_j) - bound_j;

        product *= gain_j < least_gain_j ? least_gain_j : gain_j > most_j ? most_j : gain_j;
    }
    return product;
}

/*
 * Tries an operation both ways. Returns 1 if one way is closed: the other has been taken then, and
 * *bound_j is what that proves; 0 if none is.
 */
static int try_both(struct prover *prover, const struct mixed *mixed, double *bound_j,
                    struct branch *best)
{
    struct mark mark;
    double side_j[2];
    double score;
    int result = set_mark(prover, &mark);

    for (unsigned is_fast = 0; is_fast < 2 && result == 0; is_fast++) {
        side_j[is_fast] = restrict_to(prover, mixed->op, mixed->window_ns, is_fast);
        return_to(prover, &mark);
        if (side_j[is_fast] > prover->energy_j) {
            prover->report.closed++;
            *bound_j = restrict_to(prover, mixed->op, mixed->window_ns, !is_fast);
            result = 1;
        }
    }
    free(mark.numbers);
    if (result != 0)
        return result;
    score = score_of(prover, *bound_j, side_j[1], side_j[0]);
    if (score > best->score)
        *best = (struct branch){*mixed, side_j[1] >= side_j[0], score};
    return 0;
}

/*
 * Leaves out and tries until nothing more closes. Returns 1: a branch remains to be made, 0: all is
 * closed, -EEXIST: a plan was found, -EAGAIN: nothing to branch on, -ENOMEM.
 */
static int narrow(struct prover *prover, struct branch *best)
{
    struct mixed *mixed = calloc(prover->net.op_count, sizeof(*mixed));
    double bound_j = prove_bound(prover);
    int result = mixed == NULL ? -ENOMEM : 1;

    for (unsigned round = 0; round < ROUNDS && result == 1; round++) {
        uint32_t count;

        *best = (struct branch){.score = 0.0};
        if (bound_j <= prover->energy_j && leave_out(prover, bound_j) > 0)
            bound_j = prove_bound(prover);
        if (bound_j > prover->energy_j || !can_hold(prover)) {
            prover->report.closed++;
            result = 0;
            break;
        }
        count = list_mixed(prover, mixed);
        result = is_found(prover);
        if (result != 0) {
            result = result == 1 ? -EEXIST : result;
            break;
        }
        for (uint32_t i = 0; i < count && i < TRIED && result == 0; i++)
            result = try_both(prover, &mixed[i], &bound_j, best);
        if (result == 0) {
            result = best->score > 0.0 ? 1 : -EAGAIN;
            break;
        }
    }
    free(mixed);
    return result == 1 && !(best->score > 0.0) ? -EAGAIN : result;
}

/* Returns 0: all is closed; otherwise as narrow does, or -EAGAIN: cut off. share: of the whole. */
static int explore(struct prover *prover, double share)
{
    struct branch branch;
    struct mark mark;
    int result = narrow(prover, &branch);

    if (result == 0)
        prover->report.done_ratio += share;
    if (result <= 0)
        return result;
    if (prover->report.branchings >= prover->limit ||
        (prover->progress != NULL && !prover->progress(prover->user, &prover->report)))
        return -EAGAIN;
    prover->report.branchings++;
    result = set_mark(prover, &mark);
    for (unsigned i = 0; i < 2 && result == 0; i++) {
        const bool is_fast = (i == 0) == branch.is_fast_first;

        if (restrict_to(prover, branch.mixed.op, branch.mixed.window_ns, is_fast) <=
            prover->energy_j) {
            result = explore(prover, 0.5 * share);
        } else {
            prover->report.closed++;
            prover->report.done_ratio += 0.5 * share;
        }
        return_to(prover, &mark);
    }
    free(mark.numbers);
    return result;
}

/* ---- all together ------------------------------------------------------------------------- */

/* The relaxed optimum: a flow, and when operations begin and how long they take in it. */
static int begin_search(struct prover *prover, int64_t *begin_ns)
{
    const struct lull_pipeline_problem *left = &prover->choices.left;
    struct lull_frontier *frontier = lull_frontier_create(left, prover->err);
    struct lull_certificate flow = {0};
    int result = frontier == NULL ? prover->err->code : 0;

    if (result == 0)
        result = lull_frontier_seek(frontier, prover->deadline_ns);
    if (result == 0 && lull_frontier_here(frontier).slope_w < prover->blocking_w)
        result = lull_frontier_seek_cheapest(frontier); /* nothing is gained by taking longer */
    if (result == 0)
        result = lull_certificate_init(&flow, left->graph);
    if (result == 0) {
        lull_frontier_certify(frontier, &flow);
        lull_frontier_durations(frontier, prover->duration_ns);
        lull_pipeline_earliest(left->graph, prover->duration_ns, begin_ns);
        result = lull_circulation_init(&prover->net, &prover->choices, prover->deadline_ns,
                                       lull_frontier_here(frontier).time_ns, &flow, begin_ns,
                                       prover->duration_ns);
    }
    lull_certificate_fini(&flow);
    lull_frontier_destroy(frontier);
    return result;
}

static int conclude(struct prover *prover)
{
    int result;

    lull_circulation_repair(&prover->net, return_arc(&prover->net));
    prover->report.bound_j = prove_bound(prover);
    result = explore(prover, 1.0);
    prover->report.outcome = result == 0         ? LULL_PROOF_NONE
                             : result == -EEXIST ? LULL_PROOF_FOUND
                                                 : LULL_PROOF_UNDECIDED;
    return result == -EEXIST || result == -EAGAIN ? 0 : result;
}

static int prove(struct prover *prover, const struct lull_pipeline_problem *problem)
{
    const size_t count = problem->graph->op_count;
    int64_t *begin_ns = calloc(count, sizeof(*begin_ns));
    int result = lull_choices_init(&prover->choices, problem);

    for (uint32_t device = 0; device < problem->graph->device_count; device++)
        prover->blocking_w += problem->blocking_w[device];
    prover->net.op_count = (uint32_t)count;
    prover->duration_ns = calloc(count, sizeof(*prover->duration_ns));
    prover->rounded = calloc(count, sizeof(*prover->rounded));
    prover->found = calloc(count, sizeof(*prover->found));
    if (result == 0 && (begin_ns == NULL || prover->duration_ns == NULL ||
                        prover->rounded == NULL || prover->found == NULL))
        result = -ENOMEM;
    if (result == 0 && !can_hold(prover))
        result = -ERANGE;
    if (result == 0) {
        prover->shortest_ns = lull_pipeline_earliest(problem->graph, prover->duration_ns, NULL);
        result = begin_search(prover, begin_ns);
    }
    if (result == 0)
        result = conclude(prover);
    free(begin_ns);
    return result;
}

int lull_pipeline_prove(const struct lull_pipeline_problem *problem, int64_t deadline_ns,
                        double energy_j, uint64_t branchings_limit, lull_proof_progress progress,
                        void *user, uint32_t *option_out, struct lull_proof_report *report_out,
                        struct lull_error *err)
{
    struct prover prover = {.deadline_ns = deadline_ns,
                            .energy_j = energy_j,
                            .limit = branchings_limit,
                            .progress = progress,
                            .user = user,
                            .err = err};
    const int result = prove(&prover, problem);

    if (result == 0 && prover.report.outcome == LULL_PROOF_FOUND)
        memcpy(option_out, prover.found, problem->graph->op_count * sizeof(*option_out));
    if (result == 0)
        *report_out = prover.report;
    lull_choices_fini(&prover.choices);
    lull_circulation_fini(&prover.net);
    free(prover.duration_ns);
    free(prover.rounded);
    free(prover.found);
    return result;
}
