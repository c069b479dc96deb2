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
 * the largest value (scale 0); likewise the smallest. Where the chance of an event falls by e for
 * each `scale` that one keeps away from it, keeping away from the soft extreme is as safe as
 * keeping away from each value in turn: what is rare counts as rarely as it comes. Those of
 * independent summands add up. NAN when empty. O(n).
 */
double lull_quantile_soft_least(const struct lull_quantile *quantile, double scale);
double lull_quantile_soft_most(const struct lull_quantile *quantile, double scale);

/* The p-quantile of values that are already sorted, any number of them. NAN for none. */
double lull_quantile_of_sorted(const double *sorted, size_t count, double p);

/*
 * Mean of the smaller half of the values, the middle one included; NAN when empty. Times on a busy
 * machine have a long tail to one side only: this moves with the job, not with the neighbours.
 */
double lull_quantile_lower_mean(const struct lull_quantile *quantile);

/* Mean of max(value - threshold, 0) over the window; 0 when empty: the expected lateness. */
double lull_quantile_excess(const struct lull_quantile *quantile, double threshold);

/*
 * The inverse: the smallest threshold >= 0 whose excess is at most the given one (below 0 counts as
 * 0), up to rounding; 0 when empty.
 */
double lull_quantile_threshold(const struct lull_quantile *quantile, double excess);

#endif
