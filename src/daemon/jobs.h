/*
 * The jobs of this node and their GPUs, as registered by root (Prolog and Epilog of a batch
 * system). Each job has a file of its own, so that a restart of lulld loses none. A job that ends
 * while lulld is not running is forgotten by removing its file. Threads: a table belongs to one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_JOBS_H
#define LULL_DAEMON_JOBS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { LULL_JOBS_MAX = 512 }; /* pairs of a job and a GPU */

/* That a job has a GPU. */
struct lull_job {
    char id[64];
    uid_t uid;
    char uuid[96];
    char cgroup[192]; /* only processes below it speak for the job; "": any of the user's */
    uint32_t min_mhz; /* the job's floor; 0: none */
};

struct lull_jobs {
    uint32_t count;
    struct lull_job jobs[LULL_JOBS_MAX];
};

/* Adds a pair, or replaces what is known of it. Errors: -EINVAL an id, UUID or control group that
 * is no such thing; -EEXIST the job is another user's; -ENOSPC. */
int lull_jobs_add(struct lull_jobs *jobs, const struct lull_job *job, struct lull_error *err);

/* Adds a pair as lull_jobs_add() does, and saves the job; where either fails, nothing changes.
 * Errors: those of both. */
int lull_jobs_record(struct lull_jobs *jobs, const char *directory, const struct lull_job *job,
                     struct lull_error *err);

/* Removes all pairs of a job; returns how many. */
uint32_t lull_jobs_remove(struct lull_jobs *jobs, const char *id);

/* Finds the pair that follows the one of this id and UUID in the order of ids, then of UUIDs; two
 * empty texts: the first one. Only the pairs of a user's jobs count, or all of them. A walk by this
 * order misses no pair that exists throughout, whatever is added and removed meanwhile. NULL: there
 * are no more. */
const struct lull_job *lull_jobs_next(const struct lull_jobs *jobs, const char *id,
                                      const char *uuid, bool sees_all, uid_t uid);

/* Returns how many pairs belong to jobs of other users. */
uint32_t lull_jobs_count_others(const struct lull_jobs *jobs, uid_t uid);

/* Writes what is known of a job to its file in the directory, or removes that where nothing is
 * known. Errors: -errno. */
int lull_jobs_save(const struct lull_jobs *jobs, const char *directory, const char *id,
                   struct lull_error *err);

/* Removes the file of a job, which may be missing. Errors: -EINVAL the id is none; -errno. */
int lull_jobs_delete(const char *directory, const char *id, struct lull_error *err);

/* Adds what the files in the directory say; returns how many of them could not be read. */
uint32_t lull_jobs_load(struct lull_jobs *jobs, const char *directory);

#endif
