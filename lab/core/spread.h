/*
 * A model's residuals at the points that it was fitted from, spread over the clocks near them: a
 * Gaussian process (Rasmussen and Williams 2006, section 2.2) of the residuals, with a covariance
 * that falls with the distance of clocks, each in parts of its range.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_SPREAD_H
#define LULL_LAB_CORE_SPREAD_H

#include <stdint.h>

#include "lab/core/grid.h"

struct lull_spread {
    uint32_t count; /* 0: there are no residuals */
    struct lull_grid_point at[LULL_GRID_PROBES];
    double weight[LULL_GRID_PROBES];
    double sm_extent; /* range of a probe's influence, in ratios of the base; > 0 */
    double mem_extent;
};

/* Spreads the residuals `left` of `count` (at most LULL_GRID_PROBES) probes
 * over the clocks of point_count points, of which only the range is used. */
void lull_spread_fit(const struct lull_grid_point *points, uint32_t point_count,
                     const struct lull_grid_point *probes, const double *left, uint32_t count,
                     struct lull_spread *spread_out);

/* Returns the residual at a point. */
double lull_spread_at(const struct lull_spread *spread, const struct lull_grid_point *point);

#endif
