/*
 * Rows of the database of batch sizes, read for batch_jobs.c alone. One thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_BATCH_ROWS_H
#define LULL_STORE_BATCH_ROWS_H

#include "store/batch_jobs.h"
#include "store/sql.h"

struct lull_batch_jobs {
    struct lull_sql *sql;
    struct lull_batch_owner self;
};

/* Reads a job. Errors: -ENOENT there is no such job; *job_out is then untouched. */
int lull_batch_rows_job(struct lull_batch_jobs *jobs, const char *name,
                        struct lull_batch_job *job_out, struct lull_error *err);

/* Reads the runs of a job in the order of submission. The caller frees *entries_out. */
int lull_batch_rows_entries(struct lull_batch_jobs *jobs, const char *name, int64_t now_s,
                            struct lull_batch_entry **entries_out, size_t *count_out,
                            struct lull_error *err);

/* Makes the search's state from all records in their order. */
int lull_batch_rows_state(struct lull_batch_jobs *jobs, const struct lull_batch_job *job,
                          struct lull_batch **batch_out, struct lull_error *err);

#endif
