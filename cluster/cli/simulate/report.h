/*
 * Output of `lull simulate cluster` for one run, for users or as one JSON document.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_REPORT_H
#define LULL_CLUSTER_CLI_SIMULATE_REPORT_H

#include <jansson.h>

#include "cluster/cli/simulate/scenario.h"

/* Prints lines for users. Errors: -ENOMEM. */
int lull_cluster_report_print(const struct lull_scenario *scenario,
                              const struct lull_scenario_run *run, struct lull_error *err);

/* Prints one JSON document, including the explanation of a job
 * (null: none), which it takes over. Errors: -ENOMEM. */
int lull_cluster_report_print_json(const struct lull_scenario *scenario,
                                   const struct lull_scenario_run *run, json_t *explained,
                                   struct lull_error *err);

#endif
