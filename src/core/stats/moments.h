/*
 * Running mean and variance (Welford 1962). Pure; caller's storage; zero-initialised is empty.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_STATS_MOMENTS_H
#define LULL_CORE_STATS_MOMENTS_H

#include <stdint.h>

struct lull_moments {
    uint64_t count;
    double mean;
    double squares; /* sum of squared deviations from the mean */
};

void lull_moments_add(struct lull_moments *moments, double value);

/* Adds all values of `other` (Chan et al. 1979). */
void lull_moments_merge(struct lull_moments *moments, const struct lull_moments *other);

/* Sample variance; 0 before two values. */
double lull_moments_variance(const struct lull_moments *moments);

#endif
