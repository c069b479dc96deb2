/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cluster/scenario_run.h"

#include <errno.h>
#include <string.h>

static int simulate(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                    struct lull_error *err)
{
    if (lull_cluster_policy_needs_value(run->policy) && !scenario->model.has_values)
        return lull_error_set(err, -EINVAL,
                              "policy %s takes only jobs with a value, and none has one: give the "
                              "table a column value_j, or --value FACTOR",
                              run->policy->name);
    return lull_cluster_simulate_under(&scenario->model.cluster, &scenario->model.jobs, run->policy,
                                       &scenario->conditions, &run->run, err);
}

static int certify(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                   const struct lull_certificate_effort *effort, struct lull_error *err)
{
    const struct lull_cluster *cluster = &scenario->model.cluster;
    const struct lull_cluster_jobs *jobs = &scenario->model.jobs;
    int rc = lull_cluster_certify(cluster, jobs, run->run, &scenario->conditions, effort,
                                  lull_cluster_policy_setting(run->policy), &run->certificate, err);

    if (rc < 0)
        return rc;
    rc = lull_guarantee_find(cluster, jobs, run->policy, &scenario->conditions,
                             scenario->has_failures, &run->guarantee);
    if (rc < 0)
        return lull_error_set(err, rc, "no memory for what is guaranteed of %s", run->policy->name);
    return 0;
}

int lull_scenario_run_init(struct lull_scenario_run *run, const struct lull_scenario *scenario,
                           const struct lull_cluster_policy_ops *policy,
                           const struct lull_scenario_policy_options *options,
                           struct lull_error *err)
{
    int rc;

    *run = (struct lull_scenario_run){
        .policy = policy,
        .is_certified =
            strcmp(policy->name, "pd-rats") == 0 || lull_cluster_policy_needs_value(policy),
        .is_bounded = options->is_bounded,
    };
    rc = simulate(run, scenario, err);
    if (rc < 0)
        return rc;
    if (run->is_certified) {
        rc = certify(run, scenario, &options->certificate, err);
        if (rc < 0)
            return rc;
    }
    if (!run->is_bounded)
        return 0;
    return lull_cluster_bound(&scenario->model.cluster, &scenario->model.jobs, run->run,
                              &scenario->conditions, options->bound_slot_s, &run->bound, err);
}

void lull_scenario_run_fini(struct lull_scenario_run *run)
{
    lull_cluster_run_destroy(run->run);
}
