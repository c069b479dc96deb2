/*
 * The slowdown of the whole run so far, relative to a run at the reference, and an upper bound of
 * it.
 *
 * Pairs (pair_schedule.h). A coin has chosen which block of a pair runs at the reference. The loss
 * of the other iterations of the pair is estimated as their number times d: the mean of the blocks
 * beside the reference block less the mean of that block. The estimate is wrong by their number
 * times what the reference block differs from the blocks beside it for any other reason. Over the
 * coin that error has mean zero whatever the job does, so drift, warm-up and periods cannot bias it
 * (Bojinov and Shephard 2019), and the errors of all pairs are martingale differences. With X the
 * error of a pair and E its mean square over the coin, exp(t sum(X) - t^2 / 2 sum(X^2 / 3 + 2 E /
 * 3)) is a supermartingale, without any assumption on tails (Delyon 2009, "Exponential inequalities
 * for sums of weakly dependent variables"). A normal mixture over t (Robbins 1970) gives a bound
 * that holds whenever one looks. E is estimated by the same difference at every block of the pair.
 * X is known up to the effect of the point, for which the mean of the point's earlier pairs is
 * taken. First iterations after a change, which no pair measures, count as lowered ones on both
 * sides.
 *
 * Stretches without a reference block of their own, such as the pair under way, are not protected
 * by a coin. They are charged with the upper bound of the point's slowdown, from all its pairs, or
 * with their excess over the last reference iterations if that is more. The bounds of all points
 * share half of the error: the k-th one that has a bound takes 2 / ((k + 1) (k + 2)) of it. If the
 * point has no bound yet, their excess counts, and counts as uncertain as a whole. Other iterations
 * that may have been low are charged with their excess over the last reference iterations, where it
 * is positive.
 *
 * Harm may grow with low iterations in a row, so that blocks beside the reference show less of it.
 * The excess of the whole pair over its reference block is charged if it is more than d, by more
 * than two deviations of a block.
 *
 * Iterations at the reference lose nothing. Before anything has run low the bound is 0.
 *
 * Pure; caller's storage; one thread at a time; times are ms. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_WHOLE_BOUND_H
#define LULL_CORE_SWITCHING_WHOLE_BOUND_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/guard.h"
#include "core/switching/pair_schedule.h"

struct lull_whole_slowdown {
    double ratio;       /* 0.01: 1 % slower; NAN: no iteration is known */
    double upper_ratio; /* INFINITY: there is no bound */
};

/* The pair under way. */
struct lull_whole_pair {
    bool is_open;
    uint32_t number;
    uint64_t block; /* the one under way... */
    bool is_reference;
    uint32_t measured; /* ...with so many measured iterations */
    double sum_ms;
    uint32_t blocks;        /* measured blocks that are over */
    double last_ms;         /* mean of the last one, raised by the point's effect if... */
    bool last_is_reference; /* ...it ran at the reference */
    double before_ms;       /* of the one before */
    double contrast_ms;     /* of the block at the reference against those beside it */
    bool has_contrast;
    double reference_ms;         /* mean of that block */
    struct lull_moments squares; /* of the contrasts of all blocks, ms^2 */
    double lowered;              /* iterations that count as lowered... */
    double lowered_ms;           /* ...their length... */
    double excess_ms;            /* ...and what of it is over the level */
};

struct lull_whole_bound {
    double error;       /* chance that the bound ever fails, (0, 0.5) */
    double passed_ms;   /* length of all iterations */
    double paired_ms;   /* length of those in pairs, since the last carry-over was found */
    double lowered;     /* iterations that have counted as lowered */
    double level_ms;    /* mean of the last iterations at the reference... */
    double level_count; /* ...and how many these are worth */
    double scale_ms;    /* loss around which the bound is narrowest; 0: nothing has run low */
    double lost_ms;     /* estimate of what pairs and stretches that are over have lost... */
    double variance;    /* ...its variance from the coins, ms^2... */
    double charged_ms;  /* ...and what is charged beyond it for stretches without a reference */
    struct lull_guard point; /* the pairs of the present point */
    uint32_t bounded_points; /* former ones that have had a bound */
    struct lull_whole_pair pair;
};

void lull_whole_bound_init(struct lull_whole_bound *bound, double error);

/* An iteration outside of pairs has taken iteration_ms > 0, all of it at the reference or not. */
void lull_whole_bound_take_unplaced(struct lull_whole_bound *bound, double iteration_ms,
                                    bool is_reference);

/* An iteration of a pair has taken iteration_ms > 0. */
void lull_whole_bound_take(struct lull_whole_bound *bound, const struct lull_pair_slot *slot,
                           double iteration_ms);

/* Breaks off the pair under way, if any. */
void lull_whole_bound_break(struct lull_whole_bound *bound);

/* Notes that another point is used from now on. seen: its pairs so far; null: none. */
void lull_whole_bound_change_point(struct lull_whole_bound *bound, const struct lull_guard *seen);

/* Charges a carry-over: all iterations of the pairs so far may have been
 * slower by carry_ratio (>= 0) without a difference between their blocks. */
void lull_whole_bound_charge_carry(struct lull_whole_bound *bound, double carry_ratio);

/* Notes that the length of the job's iterations has changed. */
void lull_whole_bound_forget_level(struct lull_whole_bound *bound);

/* The slowdown so far and its bound. O(1). */
struct lull_whole_slowdown lull_whole_bound_find(const struct lull_whole_bound *bound);

#endif
