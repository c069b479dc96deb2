/*
 * A task of one GPU whose clocks may be chosen: the time and power model of Wang et al., "Energy-
 * aware task scheduling with deadline constraint in DVFS-enabled heterogeneous clusters" (TPDS
 * 2022, arXiv 2104.00486), sections 3 and 4, and the least energy under it.
 *
 *   t = D (delta / fc + (1 - delta) / fm) + t0        P = P0 + gamma fm + cG V^2 fc
 *
 * Clocks and voltage are ratios to the base point, V = 2 (fc - 0.5)^2 + 0.5. Times are in seconds;
 * the paper's slot is one. Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_EDL_DVFS_TASK_H
#define LULL_LAB_REPRODUCE_EDL_DVFS_TASK_H

#include <stdbool.h>
#include <stdint.h>

struct lull_dvfs_task {
    uint64_t id;
    double arrival_s;  /* >= 0 */
    double deadline_s; /* > arrival_s, finite */
    double scaled_s;   /* D >= 0: the part of the time that depends on the clocks */
    double constant_s; /* t0 >= 0: the part that does not; D + t0 > 0 */
    double
        core_share; /* delta, 0..1: this share of D follows the core clock, the rest the memory's */
    double constant_w; /* P0 >= 0 */
    double memory_w;   /* gamma >= 0 */
    double core_w;     /* cG >= 0; the sum of the three > 0 */
};

/* The points that are searched: this many voltages from voltage_min up in steps of 0.05, and memory
 * clocks between their bounds. */
struct lull_dvfs_range {
    double voltage_min;
    uint32_t voltages;
    double memory_min;
    double memory_max;
};

/* V is 0.50 to 1.25 and fm 0.5 to 1.2: the published range, which was never measured. */
extern const struct lull_dvfs_range lull_dvfs_assumed;

/*
 * V is 0.80 to 1.25 (fc 0.887 to 1.112) and fm 0.8 to 1.1: the clocks of the GTX 1080 Ti that the
 * published kernels were fitted on (1600 to 2000 MHz of 1800, 4000 to 5500 of 5000).
 */
extern const struct lull_dvfs_range lull_dvfs_measured;

struct lull_dvfs_point {
    double voltage_ratio;
    double core_ratio;   /* fc */
    double memory_ratio; /* fm */
    double time_s;
    double power_w;
};

static inline double lull_dvfs_energy_j(const struct lull_dvfs_point *point)
{
    return point->time_s * point->power_w;
}

/* The base point (1, 1, 1), and the point of the highest voltage and memory clock. */
struct lull_dvfs_point lull_dvfs_base(const struct lull_dvfs_task *task);
struct lull_dvfs_point lull_dvfs_fastest(const struct lull_dvfs_task *task,
                                         const struct lull_dvfs_range *range);

/*
 * As published: at each voltage the best memory clock; the point of least energy among those that
 * take at most limit_s (may be INFINITY). A point must have less energy than the base point, which
 * is not checked against the limit. Returns false and writes nothing if there is none.
 */
bool lull_dvfs_solve_published(const struct lull_dvfs_task *task,
                               const struct lull_dvfs_range *range, double limit_s,
                               struct lull_dvfs_point *point_out);

/* The least energy without a limit: the published search, or else the base point. */
struct lull_dvfs_point lull_dvfs_solve(const struct lull_dvfs_task *task,
                                       const struct lull_dvfs_range *range);

/*
 * The least energy within limit_s (> 0): at each voltage the best memory clock, or a higher one as
 * far as the limit requires; the base point is one of the choices. A point that meets the limit up
 * to rounding takes exactly limit_s. False, and nothing written, if there is none; there is one
 * whenever the least time is below the limit.
 */
bool lull_dvfs_solve_within(const struct lull_dvfs_task *task, const struct lull_dvfs_range *range,
                            double limit_s, struct lull_dvfs_point *point_out);

#endif
