/*
 * A dataset as curves over the SM clock: one for each GPU, kernel, memory clock and power limit,
 * with the means over its valid rows. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_CURVES_H
#define LULL_LAB_SWEEP_CURVES_H

#include "core/stats/moments.h"
#include "lab/trace/sweep_table.h"

struct lull_sweep_curve_point {
    double sm_mhz; /* as requested */
    struct lull_moments time_ms;
    struct lull_moments power_w; /* of the rows that have power */
};

struct lull_sweep_curve {
    const struct lull_sweep_row *first;    /* a row of it, for its names; borrowed */
    uint64_t reasons;                      /* union of its rows' */
    size_t count;                          /* > 0 */
    struct lull_sweep_curve_point *points; /* by rising clock */
};

struct lull_sweep_curves {
    size_t count;
    struct lull_sweep_curve *curves; /* in the order of the rows */
};

/* Makes the curves of a table, which is borrowed. Errors: -ENOMEM, with nothing to free. */
int lull_sweep_curves_make(const struct lull_sweep_table *table,
                           struct lull_sweep_curves *curves_out, struct lull_error *err);
void lull_sweep_curves_fini(struct lull_sweep_curves *curves);

/* Energy of a launch, J; NAN: its power is not known. */
double lull_sweep_energy_j(const struct lull_sweep_curve_point *point);

/*
 * The share of the time at the highest clock that depends on the SM clock: the a of t = t0 + a / f,
 * fitted by non-negative relative least squares, times 1 / f / t there, 0..1. NAN: fewer than two
 * points.
 */
double lull_sweep_core_share(const struct lull_sweep_curve *curve);

#endif
