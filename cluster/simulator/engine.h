/*
 * A cluster in virtual time under a scheduling policy (cluster/core/policy/policy.h). The
 * simulation goes from event to event and is deterministic. At each instant, in this order: jobs
 * that end give their GPUs back; nodes work again, have turned on, or fail; jobs arrive, in the
 * order of their numbers; the policy is called until it has no decision left; and jobs that share
 * links or a storage with jobs that came or left become slower or faster. So a job that ends as its
 * node fails is done.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_ENGINE_H
#define LULL_CLUSTER_SIMULATOR_ENGINE_H

#include <stdint.h>

#include "base/error.h"
#include "cluster/core/network/contention.h"
#include "cluster/core/model/failures.h"
#include "cluster/core/policy/policy.h"
#include "cluster/core/power/power_cap.h"
#include "cluster/core/power/power_meter.h"
#include "cluster/simulator/stretches.h"

enum lull_cluster_fate {
    LULL_CLUSTER_WAITED, /* it waited until the end of the run, because it could not be started */
    LULL_CLUSTER_DONE,
    LULL_CLUSTER_REJECTED,
};

/* The result of a job. */
struct lull_cluster_outcome {
    enum lull_cluster_fate fate;
    uint32_t point;
    int64_t start_ns; /* for the first time */
    int64_t end_ns;
    uint32_t preemptions;
    uint32_t failures; /* of nodes that it ran on */
    int64_t lost_ns;   /* work since the last checkpoint that was lost in all failures */
    int64_t shared_ns; /* additional run time due to shared links and storage */
    uint32_t share_count;
    const struct lull_cluster_share *shares; /* the last time; in the order of choice */
    const char *reason;                      /* static; NULL: none */
};

/* Conditions of the cluster other than its jobs. Zero-initialised: none. */
struct lull_cluster_conditions {
    const struct lull_cluster_failure *failures; /* in order: lull_cluster_failures_order */
    size_t failure_count;
    bool turns_nodes_off; /* idle nodes, by cluster/core/power/node_power.h; the policy may too */
    struct lull_power_cap cap; /* cluster/core/power/power_cap.h; under it nothing is preempted */
    struct lull_contention_rules contention; /* checked */
    const struct lull_tariff *price;         /* checked; NULL: none */
    const struct lull_tariff *carbon;        /* the same, in g */
    bool keeps_power;                        /* the points of lull_cluster_run_meter */
    /* Called now and then with the progress of the run; NULL: no progress is reported. */
    void (*tell)(void *user, size_t gone, size_t jobs); /* gone: done or rejected */
    void *user;
};

/* Returns whether a job may run in pieces: it is preemptible, or continues after failures. */
bool lull_cluster_may_pause(const struct lull_cluster_job *job,
                            const struct lull_cluster_conditions *conditions);

/* Counts of events of nodes. */
struct lull_cluster_node_counts {
    uint64_t turn_ons;
    uint64_t turn_offs;
    uint64_t failures;
};

struct lull_cluster_run; /* opaque */

/*
 * Runs all jobs, which are checked and come in the order of their arrival. Jobs that the empty
 * cluster could not hold in any operating point are rejected on arrival, with the reason. A job
 * whose node fails waits again, with the progress of its last checkpoint. Borrows all that it is
 * given until destroyed; conditions: NULL: none. Errors: -EINVAL jobs out of order, a cap that
 * cannot be kept, a decision of the policy that cannot be executed, or a policy that keeps
 * requesting to be called again; -ENOMEM.
 */
int lull_cluster_simulate(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const struct lull_cluster_policy_ops *policy,
                          const struct lull_cluster_conditions *conditions,
                          struct lull_cluster_run **run_out, struct lull_error *err);

void lull_cluster_run_destroy(struct lull_cluster_run *run);

/* The result of each job, by number. */
const struct lull_cluster_outcome *lull_cluster_run_outcomes(const struct lull_cluster_run *run);

/* The stretches of all jobs. */
const struct lull_cluster_stretches *lull_cluster_run_stretches(const struct lull_cluster_run *run);

struct lull_cluster_node_counts lull_cluster_run_nodes(const struct lull_cluster_run *run);

/*
 * The energy of all jobs in their operating points, J, summed job by job; and the energy of GPUs
 * without a job on nodes that were on, and of nodes that were off, until the last job left its
 * GPUs.
 */
void lull_cluster_run_energy(const struct lull_cluster_run *run, double *run_j_out,
                             double *idle_j_out);

/* The energy of turning nodes on until then, J. */
double lull_cluster_run_turn_on_j(const struct lull_cluster_run *run);

/* The consumption of the cluster until the last job ended: energy by GPU type and part, its cost
 * and emissions, and, if recorded, power over time. */
const struct lull_power_meter *lull_cluster_run_meter(const struct lull_cluster_run *run);

#endif
