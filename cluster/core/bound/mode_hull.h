/*
 * The least cost of a job as a function of its run time, if it may change its operating point while
 * it runs. Of its progress a share phi_m is made in operating point m, so that it takes sum of
 * phi_m p_m and costs sum of phi_m c_m: every such pair lies on or above the lower convex hull of
 * the pairs (p_m, c_m). A bound that counted the operating points alone would forbid schedules that
 * hdf, powerflow and a power cap make.
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
    struct lull_mode_corner corners[LULL_CLUSTER_RELAXED_POINTS]; /* by time, which rises */
};

/* The lower hull of `count` corners, in any order; count <= LULL_CLUSTER_RELAXED_POINTS.
 * O(count^2). */
void lull_mode_hull_make(const struct lull_mode_corner *corners, size_t count,
                         struct lull_mode_hull *hull_out);

/* The time, s, at which the hull is lowest, the shortest of equals. The hull is not empty. */
double lull_mode_hull_best_s(const struct lull_mode_hull *hull);

/*
 * The least cost, J, of all times of the hull in [from_s, to_s], which is cut to the times that the
 * hull has; lowered by more than rounding may have added. The hull is not empty; from_s <= to_s.
 */
double lull_mode_hull_min_j(const struct lull_mode_hull *hull, double from_s, double to_s);

/* How much cost falls per second of time where the hull reaches max_s, J/s: 0 where it falls no
 * more there, or where max_s is below its least time. The hull is not empty. */
double lull_mode_hull_fall_w(const struct lull_mode_hull *hull, double max_s);

#endif
