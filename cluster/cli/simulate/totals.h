/*
 * The totals of a run: what became of its jobs, pool by pool and in all.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_TOTALS_H
#define LULL_CLUSTER_CLI_SIMULATE_TOTALS_H

#include <stdint.h>

#include "cluster/cli/simulate/scenario.h"
#include "simulator/summary.h"

struct lull_cluster_totals {
    uint64_t gpus;
    uint64_t jobs;
    uint64_t rejected;
    uint64_t done;
    uint64_t misses; /* deadlines, also of jobs that were rejected or never started */
    uint64_t preemptions;
    double wait_s; /* sum over done jobs of the time before their end in which they did not run */
    double completion_s; /* sum over done jobs, each from its arrival to its end */
    double busy_gpu_s;
    double value_j;   /* of jobs that ended in time */
    double offered_j; /* values of all jobs */
};

/* Mean time that done jobs waited, including after preemptions; 0 if none is done. */
double lull_cluster_totals_mean_wait_s(const struct lull_cluster_totals *totals);

/* The share of the GPUs that was busy until time_s; 0 where there are no GPUs or no time. */
double lull_cluster_totals_utilisation(const struct lull_cluster_totals *totals, double time_s);

/*
 * Counts and summarises a run of the model. totals_out: one for each pool of the cluster, and one
 * more for all pools. The bound and the ratio are those of the certificate, where the run has one.
 * O(jobs log jobs + stretches + nodes). Errors: -ENOMEM.
 */
int lull_cluster_totals_summarise(const struct lull_scenario_model *model,
                                  const struct lull_scenario_run *run,
                                  struct lull_cluster_totals *totals_out,
                                  struct lull_cluster_summary *summary_out);

#endif
