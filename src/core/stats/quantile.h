/*
 * Exact quantiles of the last LULL_QUANTILE_WINDOW values. Pure; caller's storage;
 * zero-initialised is empty. Adding is O(1), a quantile O(n log n) of the window.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_QUANTILE_H
#define LULL_CORE_STATS_QUANTILE_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_QUANTILE_WINDOW = 64 };

struct lull_quantile {
    uint32_t count; /* values held, <= LULL_QUANTILE_WINDOW */
    uint32_t next;
    double values[LULL_QUANTILE_WINDOW];
};

/* A value that is not finite is ignored. */
void lull_quantile_add(struct lull_quantile *quantile, double value);

/*
 * The p-quantile, p in [0, 1], by linear interpolation between order statistics (Hyndman-Fan 7,
 * numpy's default). NAN when empty.
 */
double lull_quantile_get(const struct lull_quantile *quantile, double p);

/*
 * Soft extremes: scale * log of the mean of exp(value / scale), between the mean (large scales) and
 * the largest value (scale 0); likewise the smallest. If the chance of an event falls by e for each
 * `scale` that one keeps away from it, keeping away from the soft extreme is as safe as keeping
 * away from each value in turn: rare values count in proportion to their frequency. Soft extremes
 * of independent summands add up. NAN when empty. O(n).
 */
double lull_quantile_soft_least(const struct lull_quantile *quantile, double scale);
double lull_quantile_soft_most(const struct lull_quantile *quantile, double scale);

/* Sorts values, none of which is NAN, upwards. */
void lull_quantile_sort(double *values, size_t count);

/* The p-quantile of values that are already sorted, any number of them. NAN for none. */
double lull_quantile_of_sorted(const double *sorted, size_t count, double p);

/*
 * Mean of the smaller half of the values, the middle one included; NAN when empty. Times on a busy
 * machine have a long tail to one side only: this follows the job, not the machine's other load.
 */
double lull_quantile_lower_mean(const struct lull_quantile *quantile);

/*
 * The excess over a threshold, the expected lateness, is the mean of max(value - threshold, 0) over
 * the window. Returns the smallest threshold >= 0 whose excess is at most the given one (below 0
 * counts as 0), up to rounding; 0 when empty.
 */
double lull_quantile_threshold(const struct lull_quantile *quantile, double excess);

/* ---- the upper tail ------------------------------------------------------------------------ */

/*
 * High quantiles from the few largest of many values.
 *
 * The 99 % quantile is exact for up to LULL_UPPER_TAIL_MAX values; beyond that many it is the
 * smallest kept one and too high a quantile. Pure; caller's storage; zero-initialised is empty.
 */

enum {
    LULL_UPPER_TAIL_KEPT = 32,
    LULL_UPPER_TAIL_MAX = 100 * LULL_UPPER_TAIL_KEPT,
    LULL_UPPER_TAIL_MIN = 100, /* values from which the quantile is more than the largest */
};

struct lull_upper_tail {
    uint32_t count;
    double largest[LULL_UPPER_TAIL_KEPT]; /* descending */
};

/* A value that is not finite is ignored. */
void lull_upper_tail_add(struct lull_upper_tail *tail, double value);

/* Adds the values of another tail, as if each had been added here. */
void lull_upper_tail_merge(struct lull_upper_tail *tail, const struct lull_upper_tail *other);

/* The value that one in a hundred exceeds or equals (nearest rank); NAN when empty. */
double lull_upper_tail_p99(const struct lull_upper_tail *tail);

/*
 * The value that a share of all values exceeds, share in (0, 1); NAN when empty. Shares too small
 * to have been seen are extrapolated from the tail: the stored values, but of few values no more
 * than a third (or eight). Beyond its smallest value it is taken to be exponential (Pickands 1975,
 * shape 0), with the mean excess of the others, of many values the largest censored at the second
 * (Epstein and Sobel 1953): one outlier among them is to be expected. Shares larger than the tail's
 * give its smallest value: too high, never too low.
 */
double lull_upper_tail_exceeded(const struct lull_upper_tail *tail, double share);

enum { LULL_RECENT_TAIL_SPAN = 1024 };

/* The tail of the last values: between one and two spans of them. Zero-initialised is empty. */
struct lull_recent_tail {
    struct lull_upper_tail older;
    struct lull_upper_tail newer;
};

void lull_recent_tail_add(struct lull_recent_tail *tail, double value);

/* The value that a share of the last values exceeds, as in lull_upper_tail_exceeded(). */
double lull_recent_tail_exceeded(const struct lull_recent_tail *tail, double share);

#endif
