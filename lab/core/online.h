/*
 * The operating point of least energy within a tolerance, from a few points of a kernel or of a
 * job's whole iterations, and what else it may be.
 *
 * The shape of power over the clock is the device's, from what was measured on its other kernels
 * (fitted.h); where nothing was, it rises with the cube of the clock. The candidates are whatever
 * points can be set, between the measured ones as well. A candidate is excluded where, with all
 * errors in its favour, it is still slower than the tolerance or dearer than the best one: what is
 * not excluded is the interval. Measured: it holds the best clock of 98 % of 169 kernels
 * (lab/docs/models.md), and of nine in ten drawn ones that bend sharply between their probes.
 *
 * Pure; nothing is allocated; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_ONLINE_H
#define LULL_LAB_CORE_ONLINE_H

#include <stdbool.h>
#include <stdint.h>

#include "lab/core/fitted.h"

enum { LULL_ONLINE_CANDIDATES = 256 };

struct lull_online_search {
    const struct lull_grid_point *candidates; /* only their clocks count; within the device's */
    uint32_t count;                           /* 1..LULL_ONLINE_CANDIDATES */
    uint32_t base;                            /* the candidate that others are compared with */
    double tolerance_ratio;                   /* >= 0; INFINITY: however slow */
};

struct lull_online_best {
    uint32_t best; /* candidate */
    /* SM clocks of the candidates that are not excluded, the lowest and the highest; NAN: unknown,
     * because the device's errors are, or the point was measured. */
    double low_mhz;
    double high_mhz;
    double slowdown_ratio; /* predicted, against the base */
    double saving_ratio;   /* of energy, predicted, against the base */
};

/*
 * Makes a device of which no kernel was measured, from the `count` points (2..LULL_GRID_POINTS, by
 * SM clock, then memory clock, rising) that it can run at; the array is borrowed, and its ratios
 * are set. Errors are those of networks that were predicted so (lab/docs/models.md). Do not free
 * it.
 */
void lull_online_unknown_device(struct lull_grid_point *points, uint32_t count, uint32_t base,
                                struct lull_fitted_device *device_out);

/* Finds the best candidate of a kernel with power. O(candidates), each some microseconds. */
void lull_online_pick(const struct lull_fitted_device *device,
                      const struct lull_fitted_kernel *kernel,
                      const struct lull_online_search *search, struct lull_online_best *best_out);

/* Fits `count` (1..LULL_GRID_PROBES) points and finds the best candidate. Two points find the
 * valley; under a tolerance a third and a fourth, in the middle and just below the highest clock,
 * tell how far time bends (lab/docs/models.md). Returns false where a point has no power: then the
 * output is left alone. */
bool lull_online_find(const struct lull_fitted_device *device,
                      const struct lull_fitted_point *points, uint32_t count,
                      const struct lull_online_search *search, struct lull_online_best *best_out);

#endif
