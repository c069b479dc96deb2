/*
 * The value of watts relative to GPUs for the waiting jobs: the dual price of the fluid program
 * that ends them all as early as possible, with jobs divided and clocks mixed freely,
 *
 *   min T   so that   their GPU-seconds <= T GPUs,   their peak joules <= T watts.
 *
 * Let a second of all watts cost `ratio` and one of all GPUs 1 - ratio, and each job take the clock
 * that costs least. What all jobs cost then is at most T, whatever the ratio (weak duality), and
 * most where they request watts and GPUs in the proportion in which there are any: that ratio is
 * the price. Jobs are counted by the ratios at which they change their clock, so that one more or
 * less costs O(clocks^2), and the price is found in O(LULL_POWER_PRICE_STEPS), exact to a step.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POWER_POWER_PRICE_H
#define LULL_CLUSTER_CORE_POWER_POWER_PRICE_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_POWER_PRICE_STEPS = 64 };

/* The need of a job at a clock, in seconds of all GPUs and of all watts; >= 0. */
struct lull_power_use {
    double gpus_s;
    double watts_s;
};

/* Zero-initialised: no job waits. */
struct lull_power_price {
    struct lull_power_use steps[LULL_POWER_PRICE_STEPS + 1]; /* more at this ratio than below it */
    size_t count;                                            /* jobs */
};

/* A job waits: its clocks, 1 or more. */
void lull_power_price_add(struct lull_power_price *price, const struct lull_power_use *clocks,
                          uint32_t count);

/* A job waits no longer; clocks are those that it was added with. */
void lull_power_price_remove(struct lull_power_price *price, const struct lull_power_use *clocks,
                             uint32_t count);

/* The price of watts, 0 (only GPUs are short, or no job waits) to 1 (only watts). */
double lull_power_price_ratio(const struct lull_power_price *price);

#endif
