/*
 * Offline scheduling problems in time slots (cluster/core/model/slots.h) as JSON lines, plain or
 * gzip. The first line is the cluster, each other one a job; empty lines are skipped:
 *
 *   {"slots": 288, "types": [{"name": "V100", "gpus": 64}, ...], "slot_s": 300, "cap_w": 90000}
 *   {"job": "a", "arrival": 0, "deadline": 40, "weight_j": 0, "value_j": 9e6, "modes": [
 *    {"type": "V100", "gpus": 4, "slots": 3, "energy_j": 3.6e6, "power_w": 4000}, ...]}
 *
 * (each on one line). Slots count from 0; a job may take slots from `arrival` (default 0) up to but
 * not including `deadline` (default: all). `weight_j` is what each slot from its arrival to its end
 * costs (default 0). With `value_j` the job may be left out, at that cost; without it has to run.
 * `cap_w` limits the sum of `power_w` (whole watts, default 0) in every slot; without it there is
 * no limit. `slot_s` is for readers of results only. A mode, that is an operating point, may give
 * its window itself: `first` and `last` start, and instead of `weight_j` its own `delay_j` for each
 * slot later than `first`.
 *
 * Modes that do not fit (more GPUs than the type has, more watts than the cap, more slots than
 * there are between arrival and deadline) are dropped and counted.
 *
 * Threads: a file belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_SLOT_FILE_H
#define LULL_CLUSTER_TRACE_SLOT_FILE_H

#include <stdio.h>

#include "base/error.h"
#include "cluster/core/model/slots.h"

struct lull_string_set; /* opaque */

struct lull_slot_file {
    struct lull_slot_problem problem; /* checked; arrays belong to the file */
    double slot_s;                    /* 0: not given */
    size_t dropped;                   /* operating points that do not fit */
    struct lull_string_set *type_names;
    struct lull_string_set *job_names;
    uint32_t *name_of; /* [job], in job_names */
    uint32_t *gpus;
    struct lull_slot_job *jobs;
    struct lull_slot_point *points;
};

/*
 * Reads a file, plain or gzip ("-" is standard input). Errors, with file and line: LULL_E_FORMAT no
 * such JSON, a member that is missing, unknown or out of its range, a job that has to run and
 * cannot; -ENOMEM; those of lull_lines_open. The file is left empty then.
 */
int lull_slot_file_read(const char *path, struct lull_slot_file *file_out, struct lull_error *err);
void lull_slot_file_fini(struct lull_slot_file *file);

/* The names of a job and of a type, which live as long as the file. */
const char *lull_slot_file_job(const struct lull_slot_file *file, size_t job);
const char *lull_slot_file_type(const struct lull_slot_file *file, uint32_t type);

/* Writes a checked problem, so that reading it gives the same one. Jobs and types are named by
 * their numbers. slot_s is the length of a slot; 0: not given. The caller checks the stream for
 * errors. */
void lull_slot_file_write(const struct lull_slot_problem *problem, double slot_s, FILE *out);

#endif
