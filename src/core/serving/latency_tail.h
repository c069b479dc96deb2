/*
 * The distribution of a latency relative to its prediction, from a histogram with few buckets.
 *
 * A server's histogram says only how many latencies lie between two bounds. Divided by what the
 * model predicts for the clock and the load at the time, the bounds of later readings lie
 * elsewhere, so the readings together show more than each of them. The shares of narrow bins are
 * estimated from such intervals by the step of the EM algorithm (Turnbull 1976, "The empirical
 * distribution function with arbitrarily grouped, censored and truncated data"), one step for each
 * interval (Cappe and Moulines 2009).
 *
 * At first a heavy tail is assumed, worth a few latencies. Old ones are forgotten.
 *
 * Pure; caller's storage. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_LATENCY_TAIL_H
#define LULL_CORE_SERVING_LATENCY_TAIL_H

enum { LULL_LATENCY_BINS = 96 };

struct lull_latency_tail {
    double count;                         /* latencies that were seen, without forgetting */
    double weight[LULL_LATENCY_BINS];     /* latencies in each bin */
    double above[LULL_LATENCY_BINS + 1];  /* share above the lower bound of each bin */
    double excess[LULL_LATENCY_BINS + 1]; /* mean of what exceeds it */
};

void lull_latency_tail_init(struct lull_latency_tail *tail);

/* Adds `count` > 0 latencies between two ratios to the prediction, 0 <= low <= high; high may be
 * INFINITY. */
void lull_latency_tail_add(struct lull_latency_tail *tail, double low, double high, double count);

/* Returns the share of latencies that exceed `ratio` > 0 times the prediction. */
double lull_latency_tail_above(const struct lull_latency_tail *tail, double ratio);

/* Returns the mean of what exceeds `ratio` > 0 times the prediction, 0 for latencies below it. */
double lull_latency_tail_excess(const struct lull_latency_tail *tail, double ratio);

/* Returns the ratio that a share of the latencies exceeds, 0 < share < 1. */
double lull_latency_tail_quantile(const struct lull_latency_tail *tail, double share);

#endif
