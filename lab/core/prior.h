/*
 * Predicts the change of a kernel's time and power over the clocks from its counters at the base
 * alone: a prior, which the first probe replaces.
 *
 * Each kernel is predicted from the others of its device, which were measured at all points, as the
 * mean of two guesses of log(value / value at the base). One is the three kernels whose counters
 * are nearest. The other is a Gaussian process (Rasmussen and Williams 2006, chapter 2) over all of
 * them, with covariance a x.y + exp(-|x - y|^2 / 2 l^2) of counters in standard deviations and
 * independent noise. Its three constants are not chosen: it is the mean over 80 forms, each
 * weighted by error^-20 of what it makes of the other kernels when each of these is left out too,
 * so that a kernel never influences its own prediction. (How the form was found:
 * docs/research/measurements/models.md.)
 *
 * Pure; memory as said; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_PRIOR_H
#define LULL_LAB_CORE_PRIOR_H

#include <stdint.h>

enum { LULL_PRIOR_KERNELS = 4 }; /* with fewer there is no prediction */

struct lull_prior {
    uint32_t kernels; /* >= LULL_PRIOR_KERNELS */
    uint32_t features;
    uint32_t points;
    const double *feature; /* kernels x features, finite */
    const double *change;  /* kernels x points: log(value / value at the base) */
};

/* Predicts the changes of each kernel from the other kernels and its own features: kernels x
 * points. Returns 0, or -ENOMEM, which leaves the output unchanged. O(kernels^2 (kernels +
 * points)). */
int lull_prior_predict(const struct lull_prior *prior, double *change_out);

/* The same from the three nearest kernels alone, each ratio weighted by 1 / distance: the
 * baseline for a prior. Returns 0, or -ENOMEM. */
int lull_prior_neighbours(const struct lull_prior *prior, double *change_out);

#endif
