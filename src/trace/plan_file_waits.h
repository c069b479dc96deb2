/*
 * Within the reader of plan files: the gaps that have a clock for waiting. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PLAN_FILE_WAITS_H
#define LULL_TRACE_PLAN_FILE_WAITS_H

#include "trace/json_fields.h"
#include "trace/plan_file.h"

/* Reads the value of the member "waiting" into the plan. Devices and operations keep their numbers
 * in the file, which lull_plan_waits_resolve looks up. Errors: LULL_E_FORMAT, -ENOMEM. */
int lull_plan_waits_read(struct lull_json_reader *reader, struct lull_plan_file *plan);

/* Looks up what the waits refer to, once the graph is finished. Error: LULL_E_FORMAT, something is
 * not there. */
int lull_plan_waits_resolve(const char *name, struct lull_plan_file *plan, struct lull_error *err);

#endif
