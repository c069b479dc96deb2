/*
 * Time of a kernel as a function of the SM clock and the memory clock, from 2 to 5 measured points.
 *
 * t = t0 + s (((1 - r) / f_sm)^p + (r / f_mem)^p)^(1/p), clocks as ratios of a base: p = 1 is the
 * sum t0 + a / f_sm + b / f_mem, a large p the larger of both (a roofline), what lies between is a
 * kernel whose bottleneck changes along the way. t0 and s are fitted by non-negative relative least
 * squares for each shape (p, r) of a table. Few points do not distinguish shapes, so none is
 * chosen: the prediction is the mean over all shapes, each weighted by how well it fits,
 * exp(-misfit^2 / 2 sigma^2), as a posterior of equally likely shapes with independent relative
 * errors sigma.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_TIME_MODEL_H
#define LULL_LAB_CORE_TIME_MODEL_H

#include <stdint.h>

#include "lab/core/grid.h"

enum {
    LULL_TIME_EXPONENTS = 8,
    LULL_TIME_SHARES = 41,
    LULL_TIME_SHAPES = LULL_TIME_EXPONENTS * LULL_TIME_SHARES,
};

/* The time is fixed_ms and the sum over all shapes of scale_ms times the shape; all >= 0. */
struct lull_time_model {
    double fixed_ms;
    double scale_ms[LULL_TIME_SHAPES];
};

/* The disagreement of the shapes: weighted sums over all
 * shapes, from which the variance of their times is computed. */
struct lull_time_doubt {
    double fixed_square;
    double across[LULL_TIME_SHAPES]; /* twice the fixed part times the scale */
    double square[LULL_TIME_SHAPES];
};

/* The value of a shape, < LULL_TIME_SHAPES, at clocks > 0 relative to the base, where it is > 0. */
double lull_time_shape(uint32_t shape, double sm_ratio, double mem_ratio);

/* Writes the shapes at all points of the grid: point_count x LULL_TIME_SHAPES values, to be used
 * for all kernels. */
void lull_time_shapes(const struct lull_grid *grid, double *shapes_out);

/* Fits a kernel from its times, > 0, at the probes; shapes are those of all points, times_ms as
 * well, of which only those at probes are read. probe_count >= 1. */
void lull_time_fit(const double *shapes, const double *times_ms, const uint32_t *probes,
                   uint32_t probe_count, struct lull_time_model *model_out);

/* The same, and how much the shapes disagree. */
void lull_time_fit_with_doubt(const double *shapes, const double *times_ms, const uint32_t *probes,
                              uint32_t probe_count, struct lull_time_model *model_out,
                              struct lull_time_doubt *doubt_out);

/* The time at a point, of which these are the shapes. > 0. */
double lull_time_at(const struct lull_time_model *model, const double *point_shapes);

/* The standard deviation of the times of all shapes at a point, relative to their mean time_ms. */
double lull_time_doubt_at(const struct lull_time_doubt *doubt, const double *point_shapes,
                          double time_ms);

#endif
