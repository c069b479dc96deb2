/*
 * Certifies an upper bound on a run's distance from the optimum, by prices that are found after the
 * run (cluster/core/bound/dual_search.h; preemptive_bound.h where jobs may stop and continue).
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_CERTIFICATE_H
#define LULL_CLUSTER_CLI_SIMULATE_CERTIFICATE_H

#include "base/error.h"
#include "cluster/simulator/engine.h"

/*
 * The cost of a schedule: the energy of its jobs, plus second_j for each second of a job from its
 * arrival to its end, times the job's weight, less the values of jobs that ended in time. Below 0
 * it is a gain. bound_j is a lower bound on the cost of every schedule that runs the jobs
 * without a value which this run completed, meets those of their deadlines that
 * it met, and runs any subset of the jobs with a value, however late it ends. Clocks may change
 * while a job runs; jobs stop and continue only where they may in this scenario.
 */
struct lull_cluster_certificate {
    double second_j;
    double cost_j; /* of the run */
    double bound_j;
};

enum { LULL_CERTIFICATE_MAX = 100000 };

/* Effort of the search: slots and steps, each up to LULL_CERTIFICATE_MAX; 0: the search chooses. */
struct lull_certificate_effort {
    int64_t slots;
    int64_t steps;
};

/* A run to be certified, with its inputs. */
struct lull_certified_run {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    const struct lull_cluster_run *run;
    const struct lull_cluster_conditions *conditions;
    double second_j; /* >= 0 */
};

/*
 * Certifies a run, and draws its progress. Where jobs run whole, the bound counts
 * each as up to a slot shorter than it is, so that fewer slots give a lower bound. Errors: -ENOMEM;
 * -EINVAL and -ERANGE of lull_slot_relaxation_create(); -EPROTO: the run is below the bound, which
 * is a mistake in the bound.
 */
int lull_cluster_certify(const struct lull_certified_run *of,
                         const struct lull_certificate_effort *effort,
                         struct lull_cluster_certificate *certificate_out, struct lull_error *err);

#endif
