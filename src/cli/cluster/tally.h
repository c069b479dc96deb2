/*
 * What the jobs of a run have come to, in all and pool by pool.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_TALLY_H
#define LULL_CLI_CLUSTER_TALLY_H

#include <stdint.h>

#include "cli/cluster/cluster.h"
#include "simulator/cluster/engine.h"

struct lull_cluster_tally {
    uint64_t gpus;
    uint64_t jobs;
    uint64_t rejected;
    uint64_t done;
    uint64_t misses;
    uint64_t preemptions;
    double wait_s;       /* sum over jobs that are done, until they started for the first time */
    double completion_s; /* sum over them, until they ended */
    double busy_gpu_s;
    double value_j;   /* of jobs that ended in time */
    double offered_j; /* of all */
};

/* tallies_out: one per pool of the cluster, and one more for all. O(jobs + stretches + nodes). */
void lull_cluster_tally(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_cluster_run *run, struct lull_cluster_tally *tallies_out);

/* Of the tally's GPUs over a time; 0 for none. */
double lull_cluster_tally_utilisation(const struct lull_cluster_tally *tally, double time_s);

/* Fills in all but the bound. Errors: -ENOMEM. */
int lull_cluster_summarise(const struct lull_cluster_jobs *jobs, const struct lull_cluster_run *run,
                           const struct lull_cluster_tally *all,
                           struct lull_cluster_summary *summary_out);

#endif
