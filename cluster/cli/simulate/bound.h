/*
 * The least energy that a run of a policy could have needed for the jobs that it completed, proven
 * by prices (cluster/core/bound/dual_search.h). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_BOUND_H
#define LULL_CLUSTER_CLI_SIMULATE_BOUND_H

#include "base/error.h"
#include "cluster/core/model/job.h"
#include "cluster/simulator/engine.h"

/* Energy below which no schedule as good as the run can be, J; 0 where no job was done. */
struct lull_cluster_bound {
    double all_j; /* of all GPUs, with jobs and without; >= run_j */
    double run_j; /* of GPUs with jobs */
};

/*
 * Computes lower bounds on the energy of any schedule that runs the jobs which the policy
 * completed, ends no later than the policy did, meets every deadline that the policy met,
 * and keeps the run's power cap. jobs[i] is the run's job i with operating points that
 * bound all possible ones (operating_points.h, relaxed). Each job uses GPUs of one type
 * from start to end, at clocks that may change while it runs; jobs that may be stopped may
 * run in pieces. slot_s: length of a slot (see cluster/core/bound/slot_relaxation.h); 0: a
 * 288th of the whole. cluster/core/power/baseline_power.h adds the energy of idle GPUs. conditions
 * are those of the run. Errors: -ERANGE slots too short; -EPROTO the run needed less than the
 * bound, which is a bug in the bound; -ENOMEM. One thread at a time.
 */
int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run,
                       const struct lull_cluster_conditions *conditions, double slot_s,
                       struct lull_cluster_bound *bound_out, struct lull_error *err);

/* Lists for users what such a bound ignores. notes_out has room for LULL_CLUSTER_BOUND_NOTES
 * static texts. Returns how many there are. */
enum { LULL_CLUSTER_BOUND_NOTES = 4 };
size_t lull_cluster_bound_notes(const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_conditions *conditions,
                                const char **notes_out);

#endif
