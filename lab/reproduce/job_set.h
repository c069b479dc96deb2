/*
 * Sets of jobs of one kind: a table, or a file for each job. A path that is a folder holds files
 * job_<number>.json, whatever form they really have (config_map.h); their numbers may have gaps,
 * and other files are left unchanged. A path that ends in .json, .yaml or .yml is one such file,
 * and any other a table. A kind says which names it knows, and makes a job of a record.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_JOB_SET_H
#define LULL_LAB_REPRODUCE_JOB_SET_H

#include <stddef.h>

#include "base/error.h"
#include "trace/columns.h"

struct lull_job_kind {
    const struct lull_column *known;
    const char *many; /* the word for its jobs in messages: "tasks" */
    size_t size;      /* bytes of a job */
    /* Checks that all required names of a job are present. Returns 0 or a negative code. */
    int (*check)(const struct lull_columns *record, struct lull_error *err);
    int (*read)(const struct lull_columns *record, void *job_out, struct lull_error *err);
};

/*
 * Reads all jobs of a set into an array that the caller frees, those of a folder by rising number;
 * nothing is written on errors. Errors: -ENODATA a table without jobs; LULL_E_FORMAT a folder with
 * no jobs or over a million, or a file that is too long; -errno; -ENOMEM; those of the kind,
 * lull_columns_read, lull_columns_need and lull_config_map_parse.
 */
int lull_job_set_read(const struct lull_job_kind *kind, const char *path, void **jobs_out,
                      size_t *count_out, struct lull_error *err);

/* Reads one job from the text of its file, which config_map.h writes into. */
int lull_job_set_read_text(const struct lull_job_kind *kind, const char *name, char *text,
                           void *job_out, struct lull_error *err);

#endif
