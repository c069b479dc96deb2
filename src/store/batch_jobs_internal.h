/*
 * Private to batch_jobs.c and batch_records.c. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_BATCH_JOBS_INTERNAL_H
#define LULL_STORE_BATCH_JOBS_INTERNAL_H

#include "store/batch_jobs.h"
#include "store/sql.h"

struct lull_batch_jobs {
    struct lull_sql *sql;
    struct lull_batch_owner self;
};

/* Names this process. Errors: -ENOENT /proc cannot be read. */
int lull_batch_owner_self(struct lull_batch_owner *owner_out, struct lull_error *err);

/* Reads a job. Errors: -ENOENT there is no such job; *job_out is then untouched. */
int lull_batch_job_read(struct lull_batch_jobs *jobs, const char *name,
                        struct lull_batch_job *job_out, struct lull_error *err);

/* Reads the runs of a job in the order of submission. The caller frees *entries_out. */
int lull_batch_entries_read(struct lull_batch_jobs *jobs, const char *name, int64_t now_s,
                            struct lull_batch_entry **entries_out, size_t *count_out,
                            struct lull_error *err);

/* Makes the search's state from all records in their order. */
int lull_batch_state_read(struct lull_batch_jobs *jobs, const struct lull_batch_job *job,
                          struct lull_batch **batch_out, struct lull_error *err);

#endif
