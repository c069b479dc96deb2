/*
 * Why a job of a run waited, why it ran where it did, and why at its clock: for users, on one
 * screen, or for programs. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_EXPLAIN_H
#define LULL_CLUSTER_CLI_SIMULATE_EXPLAIN_H

#include <jansson.h>

#include "cluster/cli/simulate/scenario.h"
#include "cluster/simulator/waiting.h"

struct lull_explained {
    const struct lull_scenario_model *model;
    const struct lull_cluster_policy_ops *policy;
    uint32_t number; /* of the job */
    const struct lull_cluster_job *job;
    const struct lull_cluster_outcome *outcome;
    struct lull_cluster_wait wait; /* all zeros where the job was rejected */
};

/*
 * Explains the job that the table calls `wanted`, else the one of that number in the order of
 * arrival, from 0. Borrows what it is given. Errors: -EINVAL no such job; -ENOMEM.
 */
int lull_explain_job(const struct lull_scenario_model *model,
                     const struct lull_cluster_policy_ops *policy,
                     const struct lull_cluster_run *run, const char *wanted,
                     struct lull_explained *explained_out, struct lull_error *err);
void lull_explain_print(const struct lull_explained *explained, FILE *out);

/* null: out of memory. */
json_t *lull_explain_json(const struct lull_explained *explained);

#endif
