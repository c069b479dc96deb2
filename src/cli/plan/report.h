/*
 * Standard output of `lull plan`. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_REPORT_H
#define LULL_CLI_PLAN_REPORT_H

#include "cli/plan/solve.h"
#include "cli/plan/task.h"

/* Prints one JSON document. Returns 0, or -1 if it could not be written. */
int lull_plan_print_json(const struct lull_plan_task *task, const struct lull_plan_options *options,
                         const struct lull_plan_result *result);

/* Prints tables. */
void lull_plan_print_text(const struct lull_plan_task *task,
                          const struct lull_plan_options *options,
                          const struct lull_plan_result *result);

#endif
