/*
 * The guard: a sequential test that says whether a candidate is slower than the reference.
 *
 * Evidence comes in pairs of windows, one at the reference and one at the candidate, measured next
 * to each other in alternating order so that drift cancels. Each pair gives one log ratio of the
 * mean iteration times; the bounds are Student's for the mean of those ratios. The guard may be
 * asked after every pair: look k spends alpha/(k (k+1)) of the error budget alpha = 1 - confidence,
 * whose sum over all looks is alpha, so stopping early does not inflate the error.
 *
 * "Not degraded" only when the upper bound of the slowdown is under the tolerance. Pure; caller's
 * storage; one thread at a time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_GUARD_H
#define LULL_CORE_STATS_GUARD_H

#include <stdint.h>

#include "core/stats/moments.h"

enum lull_verdict {
    LULL_VERDICT_UNDECIDED,    /* more pairs, please */
    LULL_VERDICT_NOT_DEGRADED, /* upper bound < tolerance */
    LULL_VERDICT_DEGRADED,     /* lower bound > tolerance, or hopeless, or out of pairs */
};

struct lull_guard_config {
    double tolerance_ratio; /* slowdown that is allowed, e.g. 0.01; > 0 */
    double confidence;      /* of the upper bound over all looks, e.g. 0.95; in (0.5, 1) */
    uint32_t min_pairs;     /* no verdict before; >= 2 */
    uint32_t max_pairs;     /* then what is not proven harmless counts as degraded; >= min_pairs */
    double abort_ratio;     /* a single pair slower than this ends the test at once, e.g. 0.2 */
};

struct lull_guard {
    struct lull_guard_config config;
    struct lull_moments log_ratios;
    uint32_t aborted;
};

/* Slowdown (0.01 = 1 % slower) with its bounds at the current look. */
struct lull_guard_estimate {
    double slowdown_ratio;
    double lower_ratio; /* one-sided bound at the look's level; -INFINITY before two pairs */
    double upper_ratio; /* likewise; +INFINITY before two pairs */
    uint32_t pairs;
};

void lull_guard_init(struct lull_guard *guard, const struct lull_guard_config *config);

/* Adds a pair of mean iteration times (any unit, both > 0; others are ignored). */
void lull_guard_add(struct lull_guard *guard, double reference, double candidate);

enum lull_verdict lull_guard_verdict(const struct lull_guard *guard);
void lull_guard_estimate(const struct lull_guard *guard, struct lull_guard_estimate *out);

#endif
