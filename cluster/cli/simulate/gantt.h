/*
 * The picture of a run (SVG): the jobs on their GPUs over time; below them the power and the number
 * of waiting jobs.
 *
 * A small cluster has a row per GPU and a box per job. Where that would be too much, bands of
 * nodes, pools or types of GPUs show how many of their GPUs are busy, as means over short times, so
 * that a picture has at most LULL_GANTT_MAX_BOXES boxes and some hundred other elements whatever
 * the run. Colours are clocks, where jobs have them, else whether the job is in time; above each
 * pool stands a strip that is darker the more GPUs its waiting jobs want.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_GANTT_H
#define LULL_CLUSTER_CLI_SIMULATE_GANTT_H

#include "cluster/cli/simulate/scenario.h"

enum { LULL_GANTT_MAX_BOXES = 3500 };

/* Draws a run of a policy, which kept its power, into a file, whole or not at all. Errors: -ENOMEM;
 * those of lull_file_write_atomic. */
int lull_gantt_write(const char *path, const struct lull_scenario_model *model,
                     const struct lull_cluster_policy_ops *policy,
                     const struct lull_cluster_run *run, struct lull_error *err);

#endif
