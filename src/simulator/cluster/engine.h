/*
 * A cluster in virtual time under a scheduling policy (core/cluster/policy.h). Event-driven and
 * deterministic: at each instant jobs that end give their GPUs back, then jobs arrive, in the order
 * of their numbers, then the policy is asked until it has nothing left to do.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_CLUSTER_ENGINE_H
#define LULL_SIMULATOR_CLUSTER_ENGINE_H

#include <stdint.h>

#include "base/error.h"
#include "core/cluster/policy.h"
#include "simulator/cluster/stretches.h"

enum lull_cluster_fate {
    LULL_CLUSTER_WAITED, /* to the end, nothing could start it */
    LULL_CLUSTER_DONE,
    LULL_CLUSTER_REJECTED,
};

/* What became of a job. */
struct lull_cluster_outcome {
    enum lull_cluster_fate fate;
    uint32_t mode;
    int64_t start_ns; /* for the first time */
    int64_t end_ns;
    uint32_t preemptions;
    uint32_t share_count;
    const struct lull_cluster_share *shares; /* the last time; in the order of choice */
    const char *reason;                      /* static; NULL: none */
};

struct lull_cluster_run; /* opaque */

/*
 * Runs all jobs, which are checked and come in the order of their arrival. Jobs that the empty
 * cluster could not hold in any mode are rejected on arrival, with the reason. Borrows all that it
 * is given until destroyed. Errors: -EINVAL jobs out of order, or a decision of the policy that
 * cannot be carried out; -ENOMEM.
 */
int lull_cluster_simulate(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const struct lull_cluster_policy_ops *policy,
                          struct lull_cluster_run **run_out, struct lull_error *err);
void lull_cluster_run_destroy(struct lull_cluster_run *run);

/* One per job, by number. */
const struct lull_cluster_outcome *lull_cluster_run_outcomes(const struct lull_cluster_run *run);

/* What ran when and where. */
const struct lull_cluster_stretches *lull_cluster_run_stretches(const struct lull_cluster_run *run);

/*
 * What all jobs drew in their modes, J, and what GPUs without a job drew until the last one ended;
 * all nodes stay on.
 */
void lull_cluster_run_energy(const struct lull_cluster_run *run, double *run_j_out,
                             double *idle_j_out);

#endif
