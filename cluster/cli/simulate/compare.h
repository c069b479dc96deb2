/*
 * One scenario under several policies, or under one policy with several values of its knob, side by
 * side. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_COMPARE_H
#define LULL_CLUSTER_CLI_SIMULATE_COMPARE_H

#include "cluster/cli/simulate/scenario.h"

/*
 * Runs the policies of options->compare (comma-separated names, or "all"), or the values of the
 * policy's knob in options->sweep ("COUNT" or "FROM:TO:COUNT"). Prints a table or one JSON
 * document. policy: null with compare. Errors: -EINVAL no such policy, no knob, no such range;
 * those of lull_scenario_run_init.
 */
int lull_cluster_compare(const struct lull_scenario *scenario,
                         const struct lull_cluster_policy_ops *policy,
                         const struct lull_scenario_policy_options *options, bool is_json,
                         struct lull_error *err);

#endif
