/*
 * Bounds on a job's time and energy at an unvisited power limit, from the visited limits and the
 * curves of its GPUs (core/energy/device_curve.h).
 *
 * Only the time and power of the job at some limits are known. So all jobs of a grid are
 * considered: which share of an iteration computes; which share of that waits for memory, and which
 * share of its power depends on the clock; whether a limit holds the mean over an iteration (short
 * ones) or the power of computation itself (long ones); and, where the highest limit binds already,
 * at which clock it leaves the GPU. Each has the time and power that were measured at the highest
 * limit. Those whose times or energies do not go with the limit as measured, to a tolerance, are
 * dropped permanently. A limit is dominated if it is worse than one of the known limits for each
 * remaining job. The modelled values are compared, so noise in the measurements has no effect.
 *
 * If no job remains, the curves do not fit, and nothing is excluded.
 *
 * Pure; create/destroy; one thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_TUNING_LIMIT_BOUNDS_H
#define LULL_CORE_TUNING_LIMIT_BOUNDS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/device_curve.h"
#include "core/tuning/cost.h"

/* The measured values of an iteration at a limit. */
struct lull_limit_known {
    double limit_w;         /* of each GPU */
    double time_s;          /* > 0 */
    double energy_j;        /* of one GPU on average; > 0 */
    double tolerance_ratio; /* error of both; >= 0 */
};

struct lull_limit_bounds;

/* Creates bounds without measurements; NULL: out of memory. curve must live as long. */
struct lull_limit_bounds *lull_limit_bounds_create(const struct lull_device_curve *curve);
void lull_limit_bounds_destroy(struct lull_limit_bounds *bounds);

/* Drops the jobs that do not fit. known[0] is of the highest limit; count >= 1. Returns how many
 * are left. O(jobs count log clocks). */
uint32_t lull_limit_bounds_learn(struct lull_limit_bounds *bounds,
                                 const struct lull_limit_known *known, uint32_t count);

struct lull_limit_aim {
    const struct lull_job_selector *selector;
    uint32_t gpu_count; /* of the job */
    double slack_ratio; /* by which a limit may pass a bound on slowdown and still count; >= 0 */
};

/*
 * Returns by which share a limit is worse than the best of the known ones, for the job for which it
 * is worst off the least; 0 or below: it may be as good, by no less than that (not all jobs are
 * looked at then). INFINITY: each job passes the bound on slowdown, and the slack. -INFINITY: too
 * few jobs are left.
 */
double lull_limit_bounds_excess(const struct lull_limit_bounds *bounds,
                                const struct lull_limit_aim *aim,
                                const struct lull_limit_known *known, uint32_t count,
                                double limit_w);

#endif
