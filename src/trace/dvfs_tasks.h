/*
 * Tasks of one GPU each, with their time and power model (core/cluster/dvfs_task.h), from a table:
 * comma-separated, plain or gzip, the first line its header. Columns in any order, others ignored:
 *
 *   job_id,arrival,deadline,d,t0,delta,p0_w,gamma_w,cg_w
 *
 * Times in seconds. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_DVFS_TASKS_H
#define LULL_TRACE_DVFS_TASKS_H

#include <stddef.h>

#include "base/error.h"
#include "core/cluster/dvfs_task.h"
#include "trace/lines.h"

enum { LULL_DVFS_TASKS_COLUMNS = 64 }; /* of a table; more are refused */

/*
 * Reads a file ("-": standard input); the caller frees *tasks_out. Every task is as dvfs_task.h
 * wants it, and no number above 1e9. Errors: LULL_E_FORMAT with file, line and column; -ENODATA no
 * task; -ENOMEM; those of lull_lines_open.
 */
int lull_dvfs_tasks_read(const char *path, struct lull_dvfs_task **tasks_out, size_t *count_out,
                         struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_dvfs_tasks_read_lines(struct lull_lines *lines, struct lull_dvfs_task **tasks_out,
                               size_t *count_out, struct lull_error *err);

#endif
