/*
 * Sets of jobs of one kind: a table of them, or a file for each (job_folder.h), told by what the
 * path is. A kind says which names it knows, and makes a job of a record.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_JOB_SET_H
#define LULL_REPRODUCE_JOB_SET_H

#include <stddef.h>

#include "base/error.h"
#include "trace/columns.h"

struct lull_job_kind {
    const struct lull_column *known;
    const char *many; /* what they are called, for messages: "tasks" */
    size_t size;      /* of a job, bytes */
    /* Whether all names are there that a job needs. 0 or a negative code. */
    int (*check)(const struct lull_columns *record, struct lull_error *err);
    int (*read)(const struct lull_columns *record, void *job_out, struct lull_error *err);
};

/*
 * All jobs of a set, in an array to be freed; nothing is written on errors. Errors: -ENODATA a
 * table without jobs; -ENOMEM; those of the kind, lull_columns_* and lull_job_folder_read.
 */
int lull_job_set_read(const struct lull_job_kind *kind, const char *path, void **jobs_out,
                      size_t *count_out, struct lull_error *err);

/* The same from the lines of a table, which stay the caller's. */
int lull_job_set_read_lines(const struct lull_job_kind *kind, struct lull_lines *lines,
                            void **jobs_out, size_t *count_out, struct lull_error *err);

/* One job from the text of its file, which is changed (config_map.h). */
int lull_job_set_read_text(const struct lull_job_kind *kind, const char *name, char *text,
                           void *job_out, struct lull_error *err);

#endif
