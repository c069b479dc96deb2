/*
 * A policy's run of a scenario, and how good it is: its certificate, what theory guarantees of the
 * policy, and lull-bound's bound. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_SCENARIO_RUN_H
#define LULL_CLI_CLUSTER_SCENARIO_RUN_H

#include "cli/cluster/bound.h"
#include "cli/cluster/guarantee.h"
#include "cli/cluster/scenario.h"

struct lull_scenario_run {
    const struct lull_cluster_policy_ops *policy;
    struct lull_cluster_run *run;
    bool is_certified; /* what the policy minimises has a bound: pd-rats and pd-rats-safe */
    bool is_bounded;   /* --bound was given */
    struct lull_cluster_certificate certificate; /* where is_certified, as guarantee */
    struct lull_guarantee guarantee;
    struct lull_cluster_bound bound; /* where is_bounded */
};

/*
 * Runs all jobs under a policy, and judges the run as the options tell. Borrows the scenario and
 * the policy. Errors: -EINVAL the policy takes only jobs with a value and none has one; -ENOMEM;
 * those of lull_cluster_simulate_under, lull_cluster_certify and lull_cluster_bound.
 * lull_scenario_run_fini() must follow, also after an error.
 */
int lull_scenario_run_init(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                           const struct lull_cluster_policy_ops *policy,
                           const struct lull_scenario_policy_options *options,
                           struct lull_error *err);
void lull_scenario_run_fini(struct lull_scenario_run *run);

#endif
