/*
 * The guard: a sequential test that says whether a candidate is slower than the reference.
 *
 * Evidence comes in pairs of windows, one at the reference and one at the candidate, measured next
 * to each other in alternating order so that drift cancels. Each pair gives one log ratio of the
 * mean iteration times; the bounds are Student's for the mean of those ratios, so the ratios should
 * be nearly independent: windows long enough that one slow iteration does not fill several of them.
 * Harm that shows in fewer than about one of min_pairs windows may be missed.
 *
 * The guard may be asked after every pair. Look k (the first at min_pairs) spends a share
 * proportional to 1/k of the error budget alpha = 1 - confidence; the shares of all looks up to
 * max_pairs add up to alpha, so stopping early does not inflate the error: if the slowdown is the
 * tolerance or more, the chance of ever hearing "not degraded" is at most alpha. (Falling faster,
 * the late looks could hardly decide; falling slower, the first ones.)
 *
 * "Not degraded" only when the upper bound of the slowdown is under the tolerance. "Degraded" when
 * - a single pair is slower than abort_ratio, or
 * - the lower bound is over the tolerance, or
 * - it is hopeless: given the pairs so far, the predicted chance that the last look (max_pairs)
 *   says "not degraded" is below LULL_GUARD_HOPELESS, whether because the candidate is too slow or
 *   because the noise is too large for max_pairs, or
 * - max_pairs are used up.
 * The last two can only make "not degraded" rarer. So does worth_ratio: a slowdown that would cost
 * more than the candidate brings. It is a matter of profit, not of the promise, so it is judged by
 * the estimate: one standard error above it must be below the worth, after max_pairs the estimate
 * itself; a lower bound above it is "degraded". A verdict is that of the present pairs: stop at
 * the first one that decides. Pure; caller's storage; one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_GUARD_H
#define LULL_CORE_STATS_GUARD_H

#include <stdint.h>

#include "core/stats/moments.h"

/* A test whose chance to pass is below this ends. Chosen, not measured: it can only make "not
 * degraded" rarer. */
#define LULL_GUARD_HOPELESS 0.05

/* The confidence of a verdict where the user does not choose another one: the usual one in
 * statistics, chosen and not measured. */
#define LULL_GUARD_CONFIDENCE 0.95

enum lull_verdict {
    LULL_VERDICT_UNDECIDED,    /* more pairs, please */
    LULL_VERDICT_NOT_DEGRADED, /* upper bound < tolerance */
    LULL_VERDICT_DEGRADED,     /* see above */
};

struct lull_guard_config {
    double tolerance_ratio; /* slowdown that is allowed, e.g. 0.01; > 0 */
    double confidence;      /* of the upper bound over all looks, e.g. 0.95; in (0.5, 1) */
    uint32_t min_pairs;     /* no verdict before; >= 2 */
    uint32_t max_pairs;     /* then what is not proven harmless counts as degraded; >= min_pairs */
    double abort_ratio; /* a single pair slower than this ends the test at once, e.g. 0.2; > 0 */
    double worth_ratio; /* slowdown from which the candidate does not pay, <= tolerance_ratio; 0: it
                         * always does */
    uint32_t union_tests; /* tests of which any one may say "degraded" for all (joint_guard.h): that
                           * verdict is made rarer by this factor; 0 counts as 1 */
};

struct lull_guard {
    struct lull_guard_config config;
    struct lull_moments log_ratios;
    double first_error; /* error budget of the first look */
    uint32_t aborted;   /* 1: a pair was slower than abort_ratio */
};

/* Slowdown (0.01 = 1 % slower) with its bounds at the current look. */
struct lull_guard_estimate {
    double slowdown_ratio;
    double lower_ratio; /* one-sided bound at the look's level; -INFINITY before two pairs */
    double upper_ratio; /* likewise; +INFINITY before two pairs */
    uint32_t pairs;
};

void lull_guard_init(struct lull_guard *guard, const struct lull_guard_config *config);

/* Adds a pair of mean iteration times (any unit; ignored unless both are finite and > 0). */
void lull_guard_add(struct lull_guard *guard, double reference, double candidate);

/* The slowdown from which a candidate does not pay: worth_ratio, or the tolerance without one. */
double lull_guard_worth(const struct lull_guard_config *config);

enum lull_verdict lull_guard_verdict(const struct lull_guard *guard);
void lull_guard_estimate(const struct lull_guard *guard, struct lull_guard_estimate *out);

#endif
