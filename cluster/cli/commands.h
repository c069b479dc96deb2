/*
 * The commands of the cluster part. Each is a table of options and a function.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_COMMANDS_H
#define LULL_CLUSTER_CLI_COMMANDS_H

#include "base/program.h"

extern const struct lull_program_command lull_budget_command;
extern const struct lull_program_command lull_cluster_command;
extern const struct lull_program_command lull_model_job_command;

#endif
