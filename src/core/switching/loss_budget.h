/*
 * The loss budget: the time that trials and lowered points may have cost a rank so far.
 *
 * Every iteration earns a share of its length, the permitted slowdown. The extra time of lowered
 * iterations over those at the reference is spent. While nothing is left, no iteration runs low. So
 * a slow candidate costs a run no more than tolerated, at every moment and however long the guard
 * takes to detect it. Spending can exceed earnings only by the excess of the iterations in
 * progress.
 *
 * A single slow iteration may be caused by the host as well as by the candidate. So the total loss
 * of all points counts only if it exceeds zero by more than one standard error: then the excess
 * counts, and from two standard errors on the whole loss. One event in many iterations does not
 * count at all; four equal events, or a steady slowdown, count fully.
 *
 * If iterations differ so much that the mean loss of a point is not known to the rate (they may not
 * even be the job's iterations), the highest possible cost of its clock is spent instead: of the
 * time at the clock f the share 1 - f / f_max. That needs no iteration.
 *
 * Pure; caller's storage; times are ms. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_LOSS_BUDGET_H
#define LULL_CORE_SWITCHING_LOSS_BUDGET_H

#include "core/stats/moments.h"

/* Mean and variance of the last iterations at the reference, older ones fading out. */
struct lull_recent_level {
    double count; /* that they are worth */
    double mean_ms;
    double variance;
};

/* Excess of lowered iterations over the reference, summed, and its variance. */
struct lull_sum_loss {
    double ms;
    double variance; /* ms^2 */
};

/* Zero-initialised is empty. */
struct lull_loss_budget {
    double rate; /* share of its length that an iteration earns, >= 0; the owner's to change */
    double earned_ms;
    double risk_ratio; /* share of a lowered iteration that its clocks can cost at most, [0, 1]; the
                        * owner's to change; 0: unknown */
    struct lull_sum_loss pooled; /* sum over former points whose loss is known to within the rate */
    double charged_ms;           /* the most that the other former points can have cost */
    double at_risk_ms;           /* the most that the present point can have cost */
    double last_ratio;           /* slowdown of the last of them, as far as it is certain */
    struct lull_recent_level reference;
    struct lull_moments
        excess_ms; /* of lowered iterations of the present point over the reference */
};

/* An iteration at the reference, one at the present point, or one that is neither. */
void lull_loss_budget_take_reference(struct lull_loss_budget *budget, double iteration_ms);
void lull_loss_budget_take_lowered(struct lull_loss_budget *budget, double iteration_ms);
void lull_loss_budget_take_other(struct lull_loss_budget *budget, double iteration_ms);

/* The last `count` lowered iterations have run between the reference level of then and this one,
 * which has been measured since: they are compared with the mean of both. */
void lull_loss_budget_correct(struct lull_loss_budget *budget, double then_ms, double since_ms,
                              double count);

/* Another point is tried from now on. */
void lull_loss_budget_change_point(struct lull_loss_budget *budget);

/* The earned time, and the remaining part of it, ms; below zero if more has been spent. */
struct lull_loss_left {
    double earned_ms;
    double left_ms;
};

/* The time that may still be lost, ms; below zero once more has been spent. A quarter of the earned
 * time, but no more than the length of this many iterations (>= 0), is reserved and does not count.
 */
double lull_loss_budget_left_ms(const struct lull_loss_budget *budget, double reserved_iterations);

/* The expected loss of an iteration at the present point, ms: the mean loss of those so far, or
 * before the first one that of the previous point. */
double lull_loss_budget_expected_ms(const struct lull_loss_budget *budget);

/* Mean slowdown of the present point's lowered iterations and its standard error, relative to the
 * reference; the error is INFINITY before two of each. */
double lull_loss_budget_slowdown(const struct lull_loss_budget *budget, double *error_out);

#endif
