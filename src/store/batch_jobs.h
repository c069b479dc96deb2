/*
 * Recurring jobs and their runs (core/tuning/batch.h), shared by all who run them: on one machine
 * in a sqlite file, on many in PostgreSQL. The store keeps records, nothing else; the search's
 * state is rebuilt from them each time, so that the next process continues exactly where the last
 * one stopped.
 *
 * A run whose process died is found by the next process that queries the store, and becomes a lost
 * run with the energy and time that it had reported last: it counts neither as success nor as
 * failure.
 *
 * Threads: a store belongs to one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_STORE_BATCH_JOBS_H
#define LULL_STORE_BATCH_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/tuning/batch.h"

enum { LULL_BATCH_JOB_NAME_BYTES = 128 };

/* The process of a run, named so that no other ever has the same name. Other processes use it to
 * determine whether the run still lives. */
struct lull_batch_owner {
    char place[96]; /* the boot and the namespace that its pid is of */
    int64_t pid;
    int64_t start; /* clock ticks after the boot */
};

/* Definition of a job, fixed by its first run. */
struct lull_batch_job {
    char name[LULL_BATCH_JOB_NAME_BYTES];
    uint32_t sizes[LULL_BATCH_SIZES]; /* strictly ascending */
    size_t size_count;
    uint32_t default_size;
    struct lull_job_price price;
    double beta_ratio; /* INFINITY: runs are not stopped */
    uint64_t seed;
    char gpu_name[96];
    int64_t created_s; /* since 1970, UTC */
};

/* Record of one run. */
struct lull_batch_entry {
    struct lull_batch_record submitted;
    bool is_exploring;
    int64_t submitted_s; /* since 1970, UTC */
    struct lull_batch_owner owner;
    bool is_alive;                 /* it is not over, and its process lives */
    bool is_over;                  /* the rest shows how it ended, else how far it had come */
    struct lull_batch_record over; /* LOST, CRASHED: with what was known */
    uint32_t epochs;               /* values of the metric that were seen */
    double metric;                 /* the last one; NAN: there is none */
};

struct lull_batch_jobs; /* an open store */

/* Opens the store at a location, which is as for lull_sql_open. Errors: those of lull_sql_open and
 * of lull_batch_owner_self. */
int lull_batch_jobs_open(const char *location, bool may_create, struct lull_batch_jobs **jobs_out,
                         struct lull_error *err);

/* Null is allowed. */
void lull_batch_jobs_close(struct lull_batch_jobs *jobs);

struct lull_batch_ticket {
    uint64_t run;
    struct lull_batch_choice choice;
    uint32_t lost_count; /* runs found dead on this occasion */
};

/*
 * Begins a run, in one transaction: makes the job if it is new, ends the runs of dead processes,
 * chooses, and records the choice as this process's. Errors, which change nothing: -EEXIST the job
 * is there with other sizes, default size, price, beta or GPUs (the text says which); those of the
 * store.
 */
int lull_batch_jobs_submit(struct lull_batch_jobs *jobs, const struct lull_batch_job *job,
                           uint64_t retry_of, struct lull_batch_ticket *ticket_out,
                           struct lull_error *err);

/* Known progress of a run. */
struct lull_batch_progress {
    double energy_j; /* NAN: not known */
    double time_s;
    uint32_t epochs;
    double metric; /* NAN: there is none */
};

/* Records that this process's run still lives. A run that is over is unchanged. Errors: those of
 * the store. */
int lull_batch_jobs_heartbeat(struct lull_batch_jobs *jobs, const char *name, uint64_t run,
                              const struct lull_batch_progress *progress, struct lull_error *err);

/* Ends a run. Errors: -ENOENT it is over already (its process counted as dead), or the job was
 * removed. */
int lull_batch_jobs_end(struct lull_batch_jobs *jobs, const char *name, uint64_t run,
                        enum lull_batch_event event, const struct lull_batch_progress *progress,
                        struct lull_error *err);

/*
 * Reads a job and its runs in the order of submission, and, unless batch_out is null, the search's
 * state.
 * The caller frees *entries_out and destroys *batch_out. Errors: -ENOENT no such job; LULL_E_FORMAT
 * records that cannot be; those of the store.
 */
int lull_batch_jobs_load(struct lull_batch_jobs *jobs, const char *name,
                         struct lull_batch_job *job_out, struct lull_batch_entry **entries_out,
                         size_t *count_out, struct lull_batch **batch_out, struct lull_error *err);

/* Calls each with every job's name, in order, until it returns nonzero, which is returned. Errors:
 * those of the store. */
int lull_batch_jobs_walk(struct lull_batch_jobs *jobs, int (*each)(void *context, const char *name),
                         void *context, struct lull_error *err);

/* Removes a job with all its runs. Errors: -ENOENT no such job; -EBUSY a run of it is under way. */
int lull_batch_jobs_forget(struct lull_batch_jobs *jobs, const char *name, struct lull_error *err);

#endif
