/*
 * Tasks of one GPU each, with their time and power model (cluster/core/dvfs_task.h): a table, plain
 * or gzip (columns.h), a folder with a file per task or one such file (job_set.h). Known names, in
 * any order; others are ignored:
 *
 *   job_id                                  whole number
 *   arrival                                 s
 *   deadline | utilization                  s; or the share u of the time until then that the task
 *                                           takes at base clocks: arrival + (t0 + d) / u; a table
 *                                           may have both, the deadline counts
 *   d | D, t0, delta                        time model, s and a ratio
 *   p0_w | power_basic, gamma_w | gamma,
 *   cg_w | cg                               power model, W. Some published sets have gamma and cg
 * as fractions of an unknown power; they are used unchanged, as in the program that was published
 * with them
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_EDL_TASKS_H
#define LULL_LAB_REPRODUCE_EDL_TASKS_H

#include <stddef.h>

#include "base/error.h"
#include "lab/reproduce/edl/dvfs_task.h"

/*
 * Reads a file ("-": a table from standard input) or folder; the caller frees *tasks_out. Every
 * task meets the conditions of dvfs_task.h, and no number is above 1e9. Errors: LULL_E_FORMAT with
 * file, line and name; -ENODATA no task; -ENOMEM; those of lull_job_set_read.
 */
int lull_dvfs_tasks_read(const char *path, struct lull_dvfs_task **tasks_out, size_t *count_out,
                         struct lull_error *err);

/* Reads one task from a text as config_map.h does, which it writes into. */
int lull_dvfs_tasks_read_text(const char *name, char *text, struct lull_dvfs_task *task_out,
                              struct lull_error *err);

/* ---- random tasks ------------------------------------------------------------------------- */

enum { LULL_EDL_TASKS_GPUS = 2048, LULL_EDL_TASKS_SLOTS = 1440, LULL_EDL_TASKS_AT_ONCE = 819 };

/* floor(2048 U) tasks, online LULL_EDL_TASKS_AT_ONCE more; utilisation U in (0, 1000]. */
size_t lull_edl_tasks_count(double utilisation, bool is_online);

/*
 * Draws the tasks, of which the caller has room for all. Offline all arrive at 0, and the set of a
 * smaller utilisation is a prefix of that of a larger one. Online the first 819 arrive at 0 (U =
 * 0.4), and each further one arrives in any of the slots 1 to 1439 (a Poisson process, given how
 * many).
 */
void lull_edl_tasks_draw(double utilisation, bool is_online, uint64_t seed,
                         struct lull_dvfs_task *tasks_out);

#endif
