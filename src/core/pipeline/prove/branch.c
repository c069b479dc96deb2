/* The proof: branching. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/pipeline/prove/search.h"

enum {
    TRIED = 16,  /* operations that are tried both ways before one is branched on, at most */
    IN_VAIN = 6, /* so many one after the other that are no better than the best: no more tries */
    RECENT = 16, /* tries that a mean gain is of, about */
    ROUNDS = 64, /* of leaving out options and trying, per branching */
};

/* What counts as a gain at least, so that one side without any does not hide the other. */
static const double least_gain_j = 1e-4;

struct branch {
    struct mixed mixed;
    bool is_fast_first; /* the side that the flow proves more for */
    double score;
};

/* The score of what the two sides of a branch gain: both multiplied. most_j: what closes a side. */
static double score_of(const double gain_j[2], double most_j)
{
    double product = 1.0;

    for (unsigned i = 0; i < 2; i++)
        product *= gain_j[i] < least_gain_j ? least_gain_j : fmin(gain_j[i], most_j);
    return product;
}

/* ---- whom to try first -------------------------------------------------------------------- */

/* Keeps in mind what a side gained, at most as much as closes it. */
static void learn(struct gain *gain, unsigned side, double gain_j, double most_j)
{
    const uint32_t tries = gain->tries[side] < RECENT ? ++gain->tries[side] : RECENT;

    gain->mean_j[side] += (fmin(gain_j, most_j) - gain->mean_j[side]) / tries;
}

/* What was never tried promises all. */
static double promise(const struct gain *gain, double most_j)
{
    const double gain_j[2] = {gain->tries[0] > 0 ? gain->mean_j[0] : most_j,
                              gain->tries[1] > 0 ? gain->mean_j[1] : most_j};

    return score_of(gain_j, most_j);
}

static int by_promise(const void *left, const void *right)
{
    const struct mixed *a = left;
    const struct mixed *b = right;

    if (a->promise < b->promise || a->promise > b->promise)
        return a->promise > b->promise ? -1 : 1;
    return (a->op > b->op) - (a->op < b->op);
}

/* Who has gained most is tried first (pseudo-costs: Benichou et al. 1971; reliability branching:
 * Achterberg, Koch, Martin 2005). */
static void order(const struct prover *prover, struct mixed *mixed, uint32_t count, double most_j)
{
    for (uint32_t i = 0; i < count; i++)
        mixed[i].promise = promise(&prover->gains[mixed[i].op], most_j);
    qsort(mixed, count, sizeof(*mixed), by_promise);
}

/* ---- trying ------------------------------------------------------------------------------- */

/*
 * Tries an operation both ways. Returns 1 if one way is closed: the other has been taken then; 0 if
 * none is; -ENOMEM. *bound_j: of both together, then of that one.
 */
static int try_both(struct prover *prover, const struct mixed *mixed, double *bound_j,
                    struct branch *best)
{
    const double most_j = prover->energy_j - *bound_j;
    struct mark mark;
    double gain_j[2];
    double score;
    int result = lull_prover_mark(prover, &mark);

    for (unsigned is_fast = 0; is_fast < 2 && result == 0; is_fast++) {
        const double side_j = lull_prover_restrict(prover, mixed->op, mixed->window_ns, is_fast);

        gain_j[is_fast] = side_j - *bound_j;
        learn(&prover->gains[mixed->op], is_fast, gain_j[is_fast], most_j);
        lull_prover_return(prover, &mark);
        if (side_j > prover->energy_j) {
            prover->report.closed++;
            *bound_j = lull_prover_restrict(prover, mixed->op, mixed->window_ns, !is_fast);
            result = 1;
        }
    }
    lull_prover_forget(&mark);
    if (result != 0)
        return result;
    score = score_of(gain_j, most_j);
    if (score > best->score)
        *best = (struct branch){*mixed, gain_j[1] >= gain_j[0], score};
    return 0;
}

/* Tries until one closes, or there is little hope for a better one; returns as above. */
static int try_some(struct prover *prover, struct mixed *mixed, uint32_t count, double *bound_j,
                    struct branch *best)
{
    unsigned in_vain = 0;
    int result = 0;

    order(prover, mixed, count, prover->energy_j - *bound_j);
    for (uint32_t i = 0; i < count && i < TRIED && in_vain < IN_VAIN && result == 0; i++) {
        const double score = best->score;

        result = try_both(prover, &mixed[i], bound_j, best);
        in_vain = best->score > score ? 0 : in_vain + 1;
    }
    return result;
}

/*
 * Leaves out and tries until nothing more closes. Returns 1: a branch remains to be made, 0: all is
 * closed, -EEXIST: a plan was found, -EAGAIN: nothing to branch on, -ENOMEM.
 */
static int narrow(struct prover *prover, struct branch *best)
{
    struct mixed *mixed = calloc(prover->net.op_count, sizeof(*mixed));
    double bound_j = -INFINITY;
    int result = mixed == NULL ? -ENOMEM : 1;

    for (unsigned round = 0; round < ROUNDS && result == 1; round++) {
        double sum_j;
        uint32_t count;

        *best = (struct branch){.score = 0.0};
        if (bound_j <= prover->energy_j)
            bound_j = lull_prover_bound(prover); /* so far an estimate */
        if (bound_j <= prover->energy_j && lull_prover_leave_out(prover, bound_j) > 0)
            bound_j = lull_prover_bound(prover);
        if (bound_j > prover->energy_j || !lull_prover_can_hold(prover)) {
            prover->report.closed++;
            result = 0;
            break;
        }
        count = lull_prover_list_mixed(prover, mixed, &sum_j);
        result = lull_prover_is_found(prover, bound_j, sum_j);
        if (result != 0) {
            result = result == 1 ? -EEXIST : result;
            break;
        }
        result = try_some(prover, mixed, count, &bound_j, best);
        if (result == 0) {
            result = best->score > 0.0 ? 1 : -EAGAIN;
            break;
        }
    }
    free(mixed);
    return result == 1 && !(best->score > 0.0) ? -EAGAIN : result;
}

int lull_prover_explore(struct prover *prover, double share)
{
    struct branch branch;
    struct mark mark;
    int result = narrow(prover, &branch);

    if (result == 0)
        prover->report.done_ratio += share;
    if (result <= 0)
        return result;
    if (prover->report.branchings >= prover->limit)
        return -EAGAIN;
    prover->is_given_up =
        prover->progress != NULL && !prover->progress(prover->user, &prover->report);
    if (prover->is_given_up)
        return -EAGAIN;
    prover->report.branchings++;
    result = lull_prover_mark(prover, &mark);
    for (unsigned i = 0; i < 2 && result == 0; i++) {
        const bool is_fast = (i == 0) == branch.is_fast_first;

        if (lull_prover_restrict(prover, branch.mixed.op, branch.mixed.window_ns, is_fast) <=
            prover->energy_j) {
            result = lull_prover_explore(prover, 0.5 * share);
        } else {
            prover->report.closed++;
            prover->report.done_ratio += 0.5 * share;
        }
        lull_prover_return(prover, &mark);
    }
    lull_prover_forget(&mark);
    return result;
}
