/*
 * A proven bound on schedules that may stop jobs and continue, and change their operating points as
 * they run. Problems in slots (slots.h), in which each job runs whole, do not bound these.
 *
 * What is bounded is cost, J: the energy of jobs, and second_j for each second of theirs from
 * arrival to end, times their weight, less the values of jobs that end in time; a job that has a
 * value may be left out. Any prices pi >= 0 per second of a GPU, by group (pool and type) and slot
 * of time, prove
 *
 *   cost >= sum over jobs of (the least that the job costs alone, paying for its GPUs)
 *           - sum of pi over all GPUs and all time
 *
 * (weak duality, as in dual_bound.h); the first is preemptive_alone.h's. A job with a value gets it
 * for ending by its deadline, so that it makes its progress before then, in a mixture of operating
 * points that fits into that time; a slow one among them may miss the deadline alone. Stopping and
 * changing operating points cost nothing here, and deadlines of jobs that have to run, nodes,
 * networks, failures and caps are not known: all of that can only lower the bound.
 *
 * Pure. Threads: one per object; the problem is only read.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_BOUND_PREEMPTIVE_BOUND_H
#define LULL_CLUSTER_CORE_BOUND_PREEMPTIVE_BOUND_H

#include "cluster/core/model/job.h"
#include "cluster/core/bound/price_ascent.h"

struct lull_preemptive_problem {
    const struct lull_cluster *cluster;   /* checked */
    const struct lull_cluster_jobs *jobs; /* checked; those that cannot run do not count */
    double second_j;                      /* >= 0 */
    int64_t slot_ns;                      /* > 0 */
    uint32_t slots;                       /* > 0; later on GPUs are free of charge */
};

/* A problem, which it borrows, in the form that the bound is computed from. */
struct lull_preemptive; /* opaque */

/* -ENOMEM. */
int lull_preemptive_create(const struct lull_preemptive_problem *problem,
                           struct lull_preemptive **preemptive_out);
void lull_preemptive_destroy(struct lull_preemptive *preemptive);

/* The number of prices; they are indexed [(pool * types + type) * slots + slot]. */
size_t lull_preemptive_cells(const struct lull_preemptive *preemptive);

/*
 * The bound, J, at prices gpu_w >= 0, J for a second of a GPU; less what rounding may have added.
 * excess_out, as many: GPU-seconds that the jobs would take at these prices, less those there are:
 * a direction in which the bound rises, about. The same prices may prove more the next time: a
 * search begins where the last one ended. O(jobs * slots that they may wait * operating points).
 */
double lull_preemptive_bound(struct lull_preemptive *preemptive, const double *gpu_w,
                             double *excess_out);

/*
 * The best bound that the ascent finds, from prices guessed from a schedule that achieves what the
 * ascent says: end_ns [job], when its jobs ended, 0: never. -ENOMEM.
 */
int lull_preemptive_search(struct lull_preemptive *preemptive, const int64_t *end_ns,
                           const struct lull_price_ascent *ascent, double *bound_j_out);

#endif
