/*
 * Within plan files: the gaps that have a clock for waiting. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PLAN_FILE_WAITS_H
#define LULL_TRACE_PLAN_FILE_WAITS_H

#include <stdio.h>

#include "trace/json_fields.h"
#include "trace/plan_file.h"

/* The member "waiting", with a comma and a line behind it; number: of every operation in the file.
 * Nothing where there are no points. */
void lull_plan_waits_write(const struct lull_plan_file *plan, const uint32_t *number, FILE *file);

/* Reads the member's value into the plan: devices and operations are those of the file, not looked
 * up yet. LULL_E_FORMAT, -ENOMEM. */
int lull_plan_waits_read(struct lull_json_reader *reader, struct lull_plan_file *plan);

/* Whether all that waits refer to is there; the graph is finished. LULL_E_FORMAT. */
int lull_plan_waits_resolve(const char *name, struct lull_plan_file *plan, struct lull_error *err);

#endif
