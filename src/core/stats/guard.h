/*
 * The guard: a sequential test of whether a candidate is slower than the reference.
 *
 * Evidence comes in pairs of blocks of iterations, one at the reference and one at the candidate,
 * next to each other, in an order that a coin has chosen (pair_schedule.h). Each pair gives one
 * relative difference d of the two mean times, over all iterations of both: (candidate - reference)
 * / level, where the level is the mean of the references before. Whatever else slows the job, a
 * drift or something periodic or a hiccup, is as likely to meet the one block as the other, so that
 * d less the true slowdown is a martingale difference, however the times depend on each other
 * (Bojinov and Shephard 2019; Ham, Bojinov, Lindon, Tingley 2022, "Design-based confidence
 * sequences").
 *
 * The bounds are a confidence sequence: valid after all pairs simultaneously, so the test may look
 * after every pair and stop at any time. It is the t-test with a normal mixture over the effect
 * size (Lai 1976; Wang and Ramdas 2024, "Anytime-valid t-tests and confidence sequences for
 * Gaussian means with unknown variance"): exact for normal differences, and in the limit for
 * martingale differences. If the mean slowdown is the tolerance or more, the probability of ever
 * returning "not degraded" is at most `error`. From their order alone n pairs cannot prove anything
 * with an error below 2^-n, for example if the job drifts steadily. So there is no upper bound
 * before 2^-n is at most `error`.
 *
 * Two questions may be asked of the same pairs:
 *   - a screen steers a search. It looks at the estimate and its standard error, decides within a
 * few pairs, and proves nothing;
 *   - a verdict is the promise: "not degraded" only when the upper bound is below the tolerance;
 *     "degraded" when the estimate is above the tolerance and the lower bound above zero;
 * "unproven" when neither holds after max_pairs, or is likely to hold by then. A lower clock does
 * not make a job faster: an estimate below minus the tolerance is never "not degraded", and
 * "unproven" at once where the upper bound is below that, because what is compared are not the
 * job's iterations.
 *
 * Pure; caller's storage; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_GUARD_H
#define LULL_CORE_STATS_GUARD_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/moments.h"

/* The default confidence of a verdict: the typical one in statistics, chosen and not measured. */
#define LULL_GUARD_CONFIDENCE 0.95

enum lull_verdict {
    LULL_VERDICT_UNDECIDED,    /* more pairs, please */
    LULL_VERDICT_NOT_DEGRADED, /* upper bound < tolerance, and no speed-up beyond it; in a screen:
                                  an estimate of that */
    LULL_VERDICT_DEGRADED,     /* slower than tolerated, or too slow to save energy */
    LULL_VERDICT_UNPROVEN,     /* the pairs are used up or will not suffice; never in a screen */
};

struct lull_guard_config {
    double tolerance_ratio; /* slowdown that is allowed, e.g. 0.01; > 0 */
    double worth_ratio;   /* slowdown from which the candidate does not pay, <= tolerance_ratio; 0:
                           * it always does. Only a screen requests it: profit is no promise */
    double error;         /* chance of a false "not degraded", over all looks; (0, 0.5) */
    double refusal_error; /* the same of "degraded"; (0, 0.5) */
    uint32_t max_pairs;   /* number of pairs at which there is a verdict in any case; >= 3 */
};

struct lull_guard {
    struct lull_guard_config config;
    double untried_ratio; /* share of the candidate's clock changes that were not made; the owner's
                           * to change */
    struct lull_moments differences; /* relative, one per pair */
    struct lull_moments level;       /* time of each pair's reference */
};

/* Slowdown (0.01 = 1 % slower) with its bounds after the present pairs. */
struct lull_guard_estimate {
    double slowdown_ratio;
    double lower_ratio; /* one-sided, at refusal_error; -INFINITY before there is one */
    double upper_ratio; /* one-sided, at error; +INFINITY before there is one */
    uint32_t pairs;
};

void lull_guard_init(struct lull_guard *guard, const struct lull_guard_config *config);

/* Adds a pair of mean iteration times (any unit; ignored unless both are finite and > 0). */
void lull_guard_add(struct lull_guard *guard, double reference, double candidate);

/* Returns whether the candidate looks worth keeping: see above. */
enum lull_verdict lull_guard_screen(const struct lull_guard *guard);

/* Returns whether it is proven not to be slower than tolerated, with all of its clock changes made:
 * a slowdown is taken to grow with the share of them that is. Stop at the first decisive verdict.
 */
enum lull_verdict lull_guard_verdict(const struct lull_guard *guard);

void lull_guard_estimate(const struct lull_guard *guard, struct lull_guard_estimate *out);

/* The estimate's standard error; INFINITY before two pairs. */
double lull_guard_deviation(const struct lull_guard *guard);

#endif
