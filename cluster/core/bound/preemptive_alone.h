/*
 * The least that a job costs which may stop and continue, and change its operating point as it
 * runs, where it is alone on the cluster and pays for its GPUs: one term of the bound of
 * preemptive_bound.h.
 *
 * Progress phi from 0 to 1 in operating points of time p, energy E and g GPUs costs E + g p pi(t)
 * for each unit of it that is made at t. And completion counts: with any tau >= 0
 *
 *   C - arrival >= integral of (t - arrival + min(p, tau)) d phi - tau / 2,
 *
 * which for one operating point of time tau is Goemans's mean busy time (1996). It holds because
 * the progress made in a time of x before C is never more than if all of it were made without a
 * pause, the slowest operating point first: so the integral of (C - t) d phi is at least 1/2 sum of
 * phi phi' min(p, p') over pairs of operating points, phi and phi' their shares; that form is
 * convex (min is a kernel), and no less than its tangent where all the progress takes tau.
 *
 * All of this is linear in the schedule, so that the minimum is a continuous knapsack over time;
 * any worth lambda of a unit of progress bounds that from below:
 *
 *   lambda - tau / 2 + integral of min(0, min over operating points of (cost of a unit - lambda) /
 * p) dt.
 *
 * Within a slot of time the integrand is concave, so that the trapezoid over where it is below 0 is
 * no more than the integral: arrivals and deadlines need not be at the begin of slots. After the
 * slots GPUs are free, so that lambda stays below what a wait until then is worth, but a job whose
 * deadline lies within the slots makes no progress there, and any lambda is allowed. Besides, the
 * job costs no less than its energy and its time in the operating point where the two are least.
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
    double second_j;      /* what a second of its completion time counts; >= 0 */
    double value_j;       /* by which it may be left out; INFINITY: it has to run */
    double deadline_s;    /* all progress is made before it; > arrival_s; INFINITY: no deadline */
    uint32_t point_count; /* to LULL_CLUSTER_MAX_POINTS */
    const struct lull_preemptive_point *points;
    double worth_j; /* lambda of the last search, where the next begins; 0 at first */
    double tau_s;   /* the mean p of the last search; 0 at first */
};

/* Slots of time, from 0 on. Later GPUs are free of charge. */
struct lull_preemptive_slots {
    double slot_s;
    uint32_t slots;
};

/* The operating point that costs least while no other process is there, in energy and completion
 * time; and what it costs, J, without the value. */
const struct lull_preemptive_point *
lull_preemptive_best_point(const struct lull_preemptive_job *job, double *cost_j_out);

/*
 * A bound on the least cost, J, at prices gpu_w >= 0, J for a second of a GPU; never above that of
 * leaving the job out, 0, where it has a value. use: prices' places, to which the GPU-seconds that
 * it would take are added. O(slots that it may wait * operating points), ten times at most.
 */
double lull_preemptive_alone_j(struct lull_preemptive_job *job,
                               const struct lull_preemptive_slots *slots, const double *gpu_w,
                               double *use);

#endif
