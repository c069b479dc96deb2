/*
 * The least cost of a job that is alone on the cluster, pays for its GPUs, and may pause and change
 * its operating point while it runs. It is one term of the bound of preemptive_bound.h.
 *
 * Progress phi runs from 0 to 1. In an operating point of time p, energy E and g GPUs each unit of
 * progress made at time t costs E + g p pi(t). Completion also has a cost: with any tau >= 0
 *
 *   C - arrival >= integral of (t - arrival + min(p, tau)) d phi - tau / 2,
 *
 * which for one operating point of time tau is Goemans's mean busy time (1996). It holds because
 * the progress made in a time of x before C is never more than if all of it were made without a
 * pause, the slowest operating point first: so the integral of (C - t) d phi is at least 1/2 sum of
 * phi phi' min(p, p') over pairs of operating points, phi and phi' their shares; that form is
 * convex (min is a kernel), and no less than its tangent where all the progress takes tau.
 *
 * All of this is linear in the schedule, so the minimum is a continuous knapsack over time. Any
 * value lambda of a unit of progress bounds it from below:
 *
 *   lambda - tau / 2 + integral of min(0, min over operating points of (cost of a unit - lambda) /
 * p) dt.
 *
 * Within a slot the integrand is concave, so the trapezoid over its negative part is no more than
 * the integral. Arrivals and deadlines therefore need not be at the start of slots. After the slots
 * GPUs are free, so lambda stays below the cost of waiting until then. A job whose deadline lies
 * within the slots makes no progress there, and any lambda is permitted. The job also costs no less
 * than its energy and its time in the operating point where their sum is least.
 *
 * Pure. Threads: one per job; the rest is only read. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_PREEMPTIVE_ALONE_H
#define LULL_CLUSTER_CORE_BOUND_PREEMPTIVE_ALONE_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"

struct lull_preemptive_point {
    double time_s; /* > 0 */
    double rate;   /* 1 / time_s */
    double energy_j;
    double gpu_s; /* GPUs times time_s */
    size_t row;   /* of prices: row to row + slots, that of its group */
};

struct lull_preemptive_job {
    double arrival_s;
    double second_j;      /* cost of a second of its completion time; >= 0 */
    double value_j;       /* gain of running it, so it may be left out; INFINITY: it has to run */
    double deadline_s;    /* deadline, by which all progress is made; > arrival_s; INFINITY: none */
    uint32_t point_count; /* to LULL_CLUSTER_MAX_POINTS */
    const struct lull_preemptive_point *points;
    double worth_j; /* lambda of the last search, where the next begins; 0 at first */
    double tau_s;   /* the mean p of the last search; 0 at first */
};

/* Time slots, starting at time 0. After the last slot GPUs are free of charge. */
struct lull_preemptive_slots {
    double slot_s;
    uint32_t slots;
};

/* The operating point of least cost in energy and completion time on an empty cluster, and that
 * cost, J, without the value. */
const struct lull_preemptive_point *
lull_preemptive_best_point(const struct lull_preemptive_job *job, double *cost_j_out);

/*
 * A lower bound on the least cost, J, at prices gpu_w >= 0, J for a second of a
 * GPU. For a job with a value it is never above 0, the cost of leaving the job out. use: one
 * element per price, to which the GPU-seconds that the job would take are added. O(slots that it
 * may wait * operating points), ten times at most.
 */
double lull_preemptive_alone_j(struct lull_preemptive_job *job,
                               const struct lull_preemptive_slots *slots, const double *gpu_w,
                               double *use);

#endif
