/*
 * A proven bound on schedules that may pause jobs and change their operating points while they run.
 * Problems in slots (slots.h), in which each job runs without a pause, do not bound these.
 *
 * The bounded cost, J, is the energy of jobs, plus second_j times the job's weight for each second
 * from arrival to end, less the values of jobs that end in time. A job that has a value may be left
 * out. Any prices pi >= 0 per second of a GPU, by group (pool and type) and slot of time, prove
 *
 *   cost >= sum over jobs of (least cost of the job alone, paying for its GPUs)
 *           - sum of pi over all GPUs and all time
 *
 * (weak duality, as in dual_bound.h). preemptive_alone.h computes the first term. A job with a
 * value receives it if it ends by its deadline. It then makes all its progress before the deadline,
 * in a mixture of operating points that fits into that time. The mixture may include a slow one
 * that alone would miss the deadline. Pauses and changes of operating points cost nothing here.
 * Nodes, networks, failures, caps, and deadlines of jobs that have to run are ignored. All of this
 * can only lower the bound.
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
    const struct lull_cluster_jobs *jobs; /* checked; jobs that cannot run are ignored */
    double second_j;                      /* >= 0 */
    int64_t slot_ns;                      /* > 0 */
    uint32_t slots;                       /* > 0; after the last slot GPUs are free of charge */
};

/* A problem prepared for computing the bound. It refers to the problem, which must live as long. */
struct lull_preemptive; /* opaque */

/* -ENOMEM. */
int lull_preemptive_create(const struct lull_preemptive_problem *problem,
                           struct lull_preemptive **preemptive_out);
void lull_preemptive_destroy(struct lull_preemptive *preemptive);

/* The number of prices; they are indexed [(pool * types + type) * slots + slot]. */
size_t lull_preemptive_cells(const struct lull_preemptive *preemptive);

/*
 * The bound, J, at prices gpu_w >= 0, J for a second of a GPU; less the possible rounding error.
 * excess_out, one element per price: GPU-seconds that the jobs would take at these prices, less the
 * available ones. This is approximately a direction in which the bound rises. The same prices may
 * prove more the next time, since a search starts where the last one ended. O(jobs * slots that
 * they may wait * operating points).
 */
double lull_preemptive_bound(struct lull_preemptive *preemptive, const double *gpu_w,
                             double *excess_out);

/*
 * The best bound that the ascent finds. It starts from prices guessed from the known schedule of
 * the ascent. end_ns [job]: when its jobs ended; 0: never. -ENOMEM.
 */
int lull_preemptive_search(struct lull_preemptive *preemptive, const int64_t *end_ns,
                           const struct lull_price_ascent *ascent, double *bound_j_out);

#endif
