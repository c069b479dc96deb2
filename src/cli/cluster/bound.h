/*
 * What a run of a policy could have saved at most: lull-bound, a program of its own, on the jobs
 * that it ran. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_BOUND_H
#define LULL_CLI_CLUSTER_BOUND_H

#include "base/error.h"
#include "core/cluster/job.h"
#include "simulator/cluster/engine.h"

/*
 * A lower bound, J, on the energy of running GPUs in any schedule that runs the jobs which the
 * policy brought to their ends, each in one of its modes from start to end, ends no later than the
 * policy did, and meets every deadline that the policy met (core/cluster/slotted.h: how times
 * become slots of slot_s; 0: a 288th of the whole). 0 where no job was done. Errors: -ENOENT there
 * is no lull-bound, neither beside this program nor on the path; LULL_E_FORMAT it failed, and has
 * said why; -ENOMEM; -errno of the process.
 */
int lull_cluster_bound(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_cluster_run *run, double slot_s, double *bound_j_out,
                       struct lull_error *err);

/* The jobs that were done; what was late has no deadline. all_out: room for all. How many. */
size_t lull_cluster_take_done(const struct lull_cluster_jobs *jobs,
                              const struct lull_cluster_run *run, struct lull_cluster_job *all_out,
                              int64_t *last_end_ns_out);

#endif
