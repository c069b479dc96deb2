/*
 * The least cost of a job as a function of its run time, if it may change its operating point while
 * it runs. The job makes a share phi_m of its progress in operating point m. It then takes sum of
 * phi_m p_m and costs sum of phi_m c_m. Every such pair lies on or above the lower convex hull of
 * the pairs (p_m, c_m). A bound from the single operating points would exclude schedules that hdf,
 * powerflow and a power cap produce.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_MODE_HULL_H
#define LULL_CLUSTER_CORE_BOUND_MODE_HULL_H

#include <stddef.h>

#include "cluster/core/model/job.h"

struct lull_mode_corner {
    double time_s; /* > 0 */
    double cost_j; /* any finite number */
};

struct lull_mode_hull {
    size_t count;                                                 /* of corners; 0: empty */
    struct lull_mode_corner corners[LULL_CLUSTER_RELAXED_POINTS]; /* in ascending order of time */
};

/* The lower hull of `count` corners, in any order; count <= LULL_CLUSTER_RELAXED_POINTS.
 * O(count^2). */
void lull_mode_hull_make(const struct lull_mode_corner *corners, size_t count,
                         struct lull_mode_hull *hull_out);

/* The time, s, at which the hull is lowest; of equal ones the shortest. The hull is not empty. */
double lull_mode_hull_best_s(const struct lull_mode_hull *hull);

/*
 * The least cost, J, of the hull over the times [from_s, to_s], an interval that is clipped to the
 * hull's times. The result is lowered by more than rounding may have added. The hull is not empty;
 * from_s <= to_s.
 */
double lull_mode_hull_min_j(const struct lull_mode_hull *hull, double from_s, double to_s);

/* The decrease of cost per second of run time at max_s, J/s. 0 if the cost no longer decreases
 * there, or if max_s is below the hull's least time. The hull is not empty. */
double lull_mode_hull_fall_w(const struct lull_mode_hull *hull, double max_s);

#endif
