/*
 * How far a run was from the optimum at most, by prices found after it
 * (core/cluster/dual_search.h; preemptive_bound.h where jobs may stop and go on).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_CERTIFICATE_H
#define LULL_CLI_CLUSTER_CERTIFICATE_H

#include "base/error.h"
#include "simulator/cluster/engine.h"

/*
 * Cost is the energy of jobs, and second_j for each second of theirs from arrival to end, times
 * their weight, less the values of those that ended in time; below 0 it is a gain.
 */
struct lull_cluster_certificate {
    double cost_j;  /* of the run */
    double bound_j; /* no schedule costs less, whenever it ends, that runs the jobs without a value
                       which this one brought to their ends, meets the deadlines of those that this
                       one met, and runs any of the jobs with a value */
};

enum { LULL_CERTIFICATE_MOST = 100000 };

/* How hard to search; each to LULL_CERTIFICATE_MOST, 0: its own choice. */
struct lull_certificate_effort {
    int64_t slots;
    int64_t steps;
};

/* Draws progress. Where jobs run whole, times become a slot or longer. -ENOMEM;
 * -EINVAL and -ERANGE of slotted.h. */
int lull_cluster_certify(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         const struct lull_cluster_run *run,
                         const struct lull_cluster_conditions *conditions,
                         const struct lull_certificate_effort *effort, double second_j,
                         struct lull_cluster_certificate *certificate_out, struct lull_error *err);

#endif
