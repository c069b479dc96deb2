/*
 * The files that `lull plan` writes: Lull's own plan (trace/plan_file.h), Perseus's, and the
 * picture. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_OUTPUT_H
#define LULL_CLI_PLAN_OUTPUT_H

#include "base/error.h"
#include "cli/plan/solve.h"
#include "cli/plan/task.h"

/* Writes Lull's plan file, whole or not at all, as the others do. Errors: -errno, with path and
 * reason in the text; -ENOMEM. */
int lull_plan_write(const char *path, const struct lull_plan_task *task,
                    const struct lull_plan_options *options, const struct lull_plan_single *single,
                    struct lull_error *err);

/*
 * Writes a plan as lowtime and Perseus do (freqs_pipeline_00000.py): a Python list of one list per
 * stage of ('forward' or 'backward', MHz) in order, and three comments with costs in joules.
 */
int lull_plan_write_perseus(const char *path, const struct lull_plan_task *task,
                            const struct lull_plan_single *single, struct lull_error *err);

/* Draws all at the highest clock and, below it, the plan, on one time axis. */
int lull_plan_write_picture(const char *path, const struct lull_plan_task *task,
                            const struct lull_plan_options *options,
                            const struct lull_plan_single *single, struct lull_error *err);

#endif
