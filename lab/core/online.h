/*
 * The operating point of least energy within a tolerance, from a few points of a kernel or of a
 * job's whole iterations, with an interval.
 *
 * The shape of power over the clock is the device's, from what was measured on its other kernels
 * (fitted.h); where nothing was, it rises with the cube of the clock. The candidates are whatever
 * points can be set, between the measured ones as well. A candidate is excluded where, with all
 * errors in its favour, it is still slower than the tolerance or more expensive than the best one:
 * what is not excluded is the interval. Measured: it holds the best clock of 98 % of 169 kernels
 * (docs/research/measurements/models.md), and of nine in ten drawn ones that bend sharply between
 * their probes.
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
    const struct lull_grid_point
        *candidates;        /* only their clocks are used; within those of the device */
    uint32_t count;         /* 1..LULL_ONLINE_CANDIDATES */
    uint32_t base;          /* the reference candidate */
    double tolerance_ratio; /* >= 0; INFINITY: no limit */
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

/* Finds the best candidate of a kernel with power. O(candidates), each some microseconds. */
void lull_online_pick(const struct lull_fitted_device *device,
                      const struct lull_fitted_kernel *kernel,
                      const struct lull_online_search *search, struct lull_online_best *best_out);

#endif
