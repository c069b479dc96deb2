/*
 * The power of a board while it runs a kernel, over the SM clock and the memory clock, from 2 to 5
 * measured points.
 *
 * P = P0 + gamma f_mem + c s(f_sm): one curve s for the device, which all kernels share, and three
 * numbers >= 0 for each kernel (two where there is one memory clock, which P0 then has in it). The
 * curve is dynamic power over the clock: where the voltage is at its floor it rises with the clock,
 * behind the knee it is steep. It needs no voltage and no formula, because kernels that were
 * measured at all clocks show it: it is found by alternating least squares of relative errors,
 * never falls, and goes from 0 at the lowest clock of the grid to 1 at the highest. (Method:
 * docs/research/models.md. P0 is not the idle power: it is the part that does not change with the
 * clocks, and includes the dynamic power at the lowest clock.)
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_CORE_POWER_MODEL_H
#define LULL_LAB_CORE_POWER_MODEL_H

#include <stdint.h>

#include "lab/core/grid.h"

struct lull_power_curve {
    double rise[LULL_GRID_POINTS]; /* s at each point of the grid: 0..1 */
};

struct lull_power_model { /* each >= 0 */
    double fixed_w;
    double memory_w; /* at the base's memory clock; 0 where there is one memory clock */
    double dynamic_w;
};

/* Finds the curve from all kernels of the grid that have power, without one of them (powered_count:
 * of all). Where none is left, or none has
 * dynamic power, it rises with the cube of the clock. */
void lull_power_curve_fit(const struct lull_grid *grid, uint32_t without,
                          struct lull_power_curve *curve_out);

/* Fits a kernel from its powers, > 0, at the probes; powers_w are those of all points, of which
 * only those at probes are read. */
void lull_power_fit(const struct lull_grid *grid, const struct lull_power_curve *curve,
                    const double *powers_w, const uint32_t *probes, uint32_t probe_count,
                    struct lull_power_model *model_out);

/* The power at a point of the grid. */
double lull_power_at(const struct lull_grid *grid, const struct lull_power_curve *curve,
                     const struct lull_power_model *model, uint32_t point);

#endif
