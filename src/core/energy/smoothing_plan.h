/*
 * Smoothing plan: the floor of power smoothing that keeps the swings of a job's power below a bound
 * at the least energy, from power that was recorded without it.
 *
 * A floor raises each GPU's power where it is below. Of all ways to add an amount of energy, this
 * one leaves the least variance, because it fills the lowest power first. Its cost grows with the
 * floor, so the lowest floor that meets the bound is the cheapest. If that costs more than is
 * permitted, the floor with the smallest swing within the permitted cost is chosen.
 *
 * The ramps cost time or energy and narrow no swing that the floor leaves. The ramp up is so fast
 * that it never lowers a clock. The ramp down is the floor within a second: it acts in pauses and
 * at the job's end. The hysteresis covers the longest stretch below the floor.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_ENERGY_SMOOTHING_PLAN_H
#define LULL_CORE_ENERGY_SMOOTHING_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/switch.h"

enum { LULL_SMOOTHING_MAX_READINGS = 256 };

/* Power of GPUs at the same times: count (2 to LULL_SMOOTHING_MAX_READINGS) readings of each, one
 * GPU after another. */
struct lull_smoothing_series {
    const double *powers_w;
    uint32_t gpu_count;
    uint32_t count;
    double step_s;
};

struct lull_smoothing_limits {
    double limit_w;         /* of a GPU; 100 % of a floor */
    uint32_t max_percent;   /* the highest floor */
    double bound_ratio;     /* of the swings (swing.h: band) over the mean power, without floor */
    double max_added_ratio; /* of the energy */
};

enum lull_smoothing_result {
    LULL_SMOOTHING_NOT_NEEDED, /* the swings are below the bound already */
    LULL_SMOOTHING_BOUNDED,
    LULL_SMOOTHING_COSTLY, /* the bound needs more energy than permitted */
    LULL_SMOOTHING_SHORT,  /* the highest floor does not meet the bound */
    LULL_SMOOTHING_VOID,   /* no floor within the permitted cost narrows the swings */
};

struct lull_smoothing_plan {
    enum lull_smoothing_result result;
    struct lull_smoothing smoothing; /* a floor of 0: none */
    double mean_w;                   /* of all GPUs together, without a floor */
    double before_w;                 /* swing without the floor */
    double after_w;                  /* swing with it */
    double added_ratio;              /* energy */
};

/* Chooses floor, ramps and hysteresis. */
void lull_smoothing_plan_make(const struct lull_smoothing_series *series,
                              const struct lull_smoothing_limits *limits,
                              struct lull_smoothing_plan *plan_out);

/* Sets floor, ramps and hysteresis for a given floor (%, >= 1), and predicts its swings and cost.
 */
void lull_smoothing_plan_predict(const struct lull_smoothing_series *series,
                                 const struct lull_smoothing_limits *limits, uint32_t floor_percent,
                                 struct lull_smoothing_plan *plan_out);

#endif
