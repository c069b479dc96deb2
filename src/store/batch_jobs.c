/* SPDX-License-Identifier: Apache-2.0 */
#include "store/batch_jobs.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "store/batch_rows.h"

/*
 * `records` of a job counts its records; each takes the next number: `run` when it is submitted,
 * `ended` when it is over.
 */
static const char *const migrations[] = {
    "CREATE TABLE batch_job (name TEXT PRIMARY KEY, sizes TEXT NOT NULL,"
    " default_size BIGINT NOT NULL, eta_ratio DOUBLE PRECISION NOT NULL,"
    " max_power_w DOUBLE PRECISION NOT NULL, gpu_count BIGINT NOT NULL,"
    " beta_ratio DOUBLE PRECISION, seed TEXT NOT NULL, gpu_name TEXT NOT NULL,"
    " created_s BIGINT NOT NULL, records BIGINT NOT NULL);"
    "CREATE TABLE batch_run (job TEXT NOT NULL REFERENCES batch_job (name) ON DELETE CASCADE,"
    " run BIGINT NOT NULL, retry_of BIGINT NOT NULL, size BIGINT NOT NULL,"
    " bound_j DOUBLE PRECISION, is_exploring BIGINT NOT NULL, submitted_s BIGINT NOT NULL,"
    " place TEXT NOT NULL, pid BIGINT NOT NULL, start BIGINT NOT NULL, seen_s BIGINT NOT NULL,"
    " ended BIGINT, event BIGINT, energy_j DOUBLE PRECISION, time_s DOUBLE PRECISION,"
    " epochs BIGINT, metric DOUBLE PRECISION, PRIMARY KEY (job, run));",
};

static const struct lull_store_schema schema = {
    .name = "batch", .migrations = migrations, .version = 1};

/* ---- whose run it is ----------------------------------------------------------------------- */

/* Names this process. Errors: -ENOENT /proc cannot be read. */
static int owner_self(struct lull_batch_owner *owner_out, struct lull_error *err)
{
    char boot[LULL_BOOT_ID_BYTES];
    const int64_t start = lull_process_start_ticks(0);
    struct stat pids;

    if (lull_boot_id(boot) < 0 || start < 0 || stat("/proc/self/ns/pid", &pids) < 0)
        return lull_error_set(err, -ENOENT,
                              "/proc/sys/kernel/random/boot_id or /proc/self: cannot be read");
    snprintf(owner_out->place, sizeof(owner_out->place), "%s %" PRIu64, boot,
             (uint64_t)pids.st_ino);
    owner_out->pid = getpid();
    owner_out->start = start;
    return 0;
}

/* ---- the store ----------------------------------------------------------------------------- */

int lull_batch_jobs_open(const char *location, bool may_create, struct lull_batch_jobs **jobs_out,
                         struct lull_error *err)
{
    struct lull_batch_jobs *jobs = calloc(1, sizeof(*jobs));
    int result;

    if (jobs == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for a database");
    result = owner_self(&jobs->self, err);
    if (result == 0)
        result = lull_sql_open(location, &schema, may_create, &jobs->sql, err);
    if (result < 0) {
        free(jobs);
        return result;
    }
    *jobs_out = jobs;
    return 0;
}

void lull_batch_jobs_close(struct lull_batch_jobs *jobs)
{
    if (jobs == NULL)
        return;
    lull_sql_close(jobs->sql);
    free(jobs);
}

/* ---- records ------------------------------------------------------------------------------- */

/* Finds the number of the job's next record. -ENOENT: there is no such job. */
static int next_record(struct lull_batch_jobs *jobs, const char *name, int64_t *number_out,
                       struct lull_error *err)
{
    struct lull_sql_values values = {0};
    int result;

    lull_sql_add_text(&values, name);
    result = lull_sql_get_integer(
        jobs->sql, "UPDATE batch_job SET records = records + 1 WHERE name = $1 RETURNING records",
        &values, number_out, err);
    if (result == 0)
        return lull_error_set(err, -ENOENT, "%s: no such job; it may have been removed", name);
    return result < 0 ? result : 0;
}

/* Ends a run within the caller's transaction. If progress is null, what was known stays. */
static int batch_store_end_run(struct lull_batch_jobs *jobs, const char *name, uint64_t run,
                               enum lull_batch_event event,
                               const struct lull_batch_progress *progress, struct lull_error *err)
{
    struct lull_sql_values values = {0};
    int64_t number = 0;
    int64_t ended = 0;
    int result = next_record(jobs, name, &number, err);

    if (result < 0)
        return result;
    lull_sql_add_integer(&values, number);
    lull_sql_add_integer(&values, event);
    lull_sql_add_text(&values, name);
    lull_sql_add_integer(&values, (int64_t)run);
    if (progress != NULL) {
        lull_sql_add_number(&values, progress->energy_j);
        lull_sql_add_number(&values, progress->time_s);
        lull_sql_add_integer(&values, progress->epochs);
        lull_sql_add_number(&values, progress->metric);
    }
    result = lull_sql_get_integer(
        jobs->sql,
        progress == NULL
            ? "UPDATE batch_run SET ended = $1, event = $2"
              " WHERE job = $3 AND run = $4 AND ended IS NULL RETURNING run"
            : "UPDATE batch_run SET ended = $1, event = $2, energy_j = $5, time_s = $6,"
              " epochs = $7, metric = $8 WHERE job = $3 AND run = $4 AND ended IS NULL"
              " RETURNING run",
        &values, &ended, err);
    if (result == 0)
        return lull_error_set(err, -ENOENT, "%s: run %" PRIu64 " was given up as dead", name, run);
    return result < 0 ? result : 0;
}

int lull_batch_jobs_end(struct lull_batch_jobs *jobs, const char *name, uint64_t run,
                        enum lull_batch_event event, const struct lull_batch_progress *progress,
                        struct lull_error *err)
{
    int result = jobs->sql->kind->begin(jobs->sql, err);

    if (result < 0)
        return result;
    result = batch_store_end_run(jobs, name, run, event, progress, err);
    return jobs->sql->kind->end(jobs->sql, result, err);
}

int lull_batch_jobs_heartbeat(struct lull_batch_jobs *jobs, const char *name, uint64_t run,
                              const struct lull_batch_progress *progress, struct lull_error *err)
{
    struct lull_sql_values values = {0};
    char statement[320];

    lull_sql_add_text(&values, name);
    lull_sql_add_integer(&values, (int64_t)run);
    lull_sql_add_number(&values, progress->energy_j);
    lull_sql_add_number(&values, progress->time_s);
    lull_sql_add_integer(&values, progress->epochs);
    lull_sql_add_number(&values, progress->metric);
    snprintf(statement, sizeof(statement),
             "UPDATE batch_run SET seen_s = %s, energy_j = $3, time_s = $4, epochs = $5,"
             " metric = $6 WHERE job = $1 AND run = $2 AND ended IS NULL",
             jobs->sql->kind->now);
    return lull_sql_run(jobs->sql, statement, &values, NULL, NULL, err);
}

/* ---- submitting ---------------------------------------------------------------------------- */

/* The seed has 64 bits without a sign, which SQL's integers do not have, so it is stored as text.
 * */
static int insert_job(struct lull_batch_jobs *jobs, const struct lull_batch_job *job, int64_t now_s,
                      struct lull_error *err)
{
    struct lull_sql_values values = {0};
    char sizes[12 * LULL_BATCH_SIZES] = "";
    char seed[LULL_SQL_NUMBER_BYTES];
    size_t used = 0;

    for (size_t i = 0; i < job->size_count; i++)
        used += (size_t)snprintf(sizes + used, sizeof(sizes) - used, "%s%u", i == 0 ? "" : ",",
                                 job->sizes[i]);
    snprintf(seed, sizeof(seed), "%" PRIu64, job->seed);
    lull_sql_add_text(&values, job->name);
    lull_sql_add_text(&values, sizes);
    lull_sql_add_integer(&values, job->default_size);
    lull_sql_add_number(&values, job->price.eta_ratio);
    lull_sql_add_number(&values, job->price.max_power_w);
    lull_sql_add_integer(&values, job->price.gpu_count);
    lull_sql_add_number(&values, job->beta_ratio);
    lull_sql_add_text(&values, seed);
    lull_sql_add_text(&values, job->gpu_name);
    lull_sql_add_integer(&values, now_s);
    return lull_sql_run(jobs->sql,
                        "INSERT INTO batch_job VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0)",
                        &values, NULL, NULL, err);
}

static bool is_same_number(double a, double b)
{
    return a == b || fabs(a - b) <= 1e-9 * fabs(b);
}

/* Refuses a job that differs from what was recorded: its costs could not be compared. */
static int batch_store_check_job(const struct lull_batch_job *job, const struct lull_batch_job *old,
                                 struct lull_error *err)
{
    const char *what = NULL;

    if (job->size_count != old->size_count ||
        memcmp(job->sizes, old->sizes, job->size_count * sizeof(*job->sizes)) != 0)
        what = "other sizes";
    else if (job->default_size != old->default_size)
        what = "another default size";
    else if (!is_same_number(job->price.eta_ratio, old->price.eta_ratio))
        what = "another eta";
    else if (!is_same_number(job->beta_ratio, old->beta_ratio))
        what = "another beta";
    else if (job->price.gpu_count != old->price.gpu_count ||
             strcmp(job->gpu_name, old->gpu_name) != 0 ||
             !is_same_number(job->price.max_power_w, old->price.max_power_w))
        what = "other GPUs";
    if (what == NULL)
        return 0;
    return lull_error_set(err, -EEXIST,
                          "job %.60s exists with %s (see lull batch show); take another name, or"
                          " lull batch forget it",
                          job->name, what);
}

/* Turns a run whose process died into a lost run, which is no evidence: otherwise it would be
 * waited for without end. */
static int expire_dead(struct lull_batch_jobs *jobs, const char *name, int64_t now_s,
                       uint32_t *count_out, struct lull_error *err)
{
    struct lull_batch_entry *entries = NULL;
    size_t count = 0;
    int result = lull_batch_rows_entries(jobs, name, now_s, &entries, &count, err);

    for (size_t i = 0; result == 0 && i < count; i++) {
        if (entries[i].is_over || entries[i].is_alive)
            continue;
        result =
            batch_store_end_run(jobs, name, entries[i].submitted.run, LULL_BATCH_LOST, NULL, err);
        (*count_out)++;
    }
    free(entries);
    return result;
}

/* The choice is recorded in the transaction in which it was made, so that two processes never make
 * the same one. */
static int record_choice(struct lull_batch_jobs *jobs, const char *name, uint64_t retry_of,
                         int64_t now_s, struct lull_batch_ticket *ticket, struct lull_error *err)
{
    struct lull_sql_values values = {0};
    int64_t number = 0;
    const int result = next_record(jobs, name, &number, err);

    if (result < 0)
        return result;
    ticket->run = (uint64_t)number;
    lull_sql_add_text(&values, name);
    lull_sql_add_integer(&values, number);
    lull_sql_add_integer(&values, (int64_t)retry_of);
    lull_sql_add_integer(&values, ticket->choice.size);
    lull_sql_add_number(&values, ticket->choice.bound);
    lull_sql_add_integer(&values, ticket->choice.is_exploring);
    lull_sql_add_integer(&values, now_s);
    lull_sql_add_text(&values, jobs->self.place);
    lull_sql_add_integer(&values, jobs->self.pid);
    lull_sql_add_integer(&values, jobs->self.start);
    return lull_sql_run(jobs->sql,
                        "INSERT INTO batch_run (job, run, retry_of, size, bound_j, is_exploring,"
                        " submitted_s, place, pid, start, seen_s)"
                        " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $7)",
                        &values, NULL, NULL, err);
}

/* Makes the job if need be and chooses, within the caller's transaction. */
static int batch_store_begin_run(struct lull_batch_jobs *jobs, const struct lull_batch_job *wanted,
                                 uint64_t retry_of, struct lull_batch_ticket *ticket,
                                 struct lull_error *err)
{
    struct lull_batch *batch = NULL;
    struct lull_batch_job job;
    int64_t now_s = 0;
    int result = lull_sql_now(jobs->sql, &now_s, err);

    if (result == 0)
        result = lull_batch_rows_job(jobs, wanted->name, &job, err);
    if (result == -ENOENT) {
        result = insert_job(jobs, wanted, now_s, err);
        job = *wanted;
    } else if (result == 0) {
        result = batch_store_check_job(wanted, &job, err);
    }
    if (result == 0)
        result = expire_dead(jobs, job.name, now_s, &ticket->lost_count, err);
    if (result == 0)
        result = lull_batch_rows_state(jobs, &job, &batch, err);
    if (result < 0)
        return result;
    lull_batch_choose(batch, retry_of, &ticket->choice);
    lull_batch_destroy(batch);
    return record_choice(jobs, job.name, retry_of, now_s, ticket, err);
}

int lull_batch_jobs_submit(struct lull_batch_jobs *jobs, const struct lull_batch_job *job,
                           uint64_t retry_of, struct lull_batch_ticket *ticket_out,
                           struct lull_error *err)
{
    struct lull_batch_ticket ticket = {0};
    int result = jobs->sql->kind->begin(jobs->sql, err);

    if (result < 0)
        return result;
    result = batch_store_begin_run(jobs, job, retry_of, &ticket, err);
    result = jobs->sql->kind->end(jobs->sql, result, err);
    if (result == 0)
        *ticket_out = ticket;
    return result;
}

/* ---- all jobs ------------------------------------------------------------------------------ */

struct batch_jobs_walk {
    int (*each)(void *context, const char *name);
    void *context;
};

static int batch_store_take_name(void *context, const struct lull_sql_row *row)
{
    const struct batch_jobs_walk *walk = context;

    return walk->each(walk->context, lull_sql_text(row, 0));
}

int lull_batch_jobs_walk(struct lull_batch_jobs *jobs, int (*each)(void *context, const char *name),
                         void *context, struct lull_error *err)
{
    struct batch_jobs_walk walk = {each, context};

    return lull_sql_run(jobs->sql, "SELECT name FROM batch_job ORDER BY name", NULL,
                        batch_store_take_name, &walk, err);
}

/* A job is not removed while a run of it is under way, whose end would find no job. */
static int batch_store_remove_job(struct lull_batch_jobs *jobs, const char *name,
                                  struct lull_error *err)
{
    struct lull_batch_entry *entries = NULL;
    struct lull_sql_values values = {0};
    struct lull_batch_job job;
    size_t count = 0;
    int64_t now_s = 0;
    int result = lull_batch_rows_job(jobs, name, &job, err);

    if (result == 0)
        result = lull_sql_now(jobs->sql, &now_s, err);
    if (result == 0)
        result = lull_batch_rows_entries(jobs, name, now_s, &entries, &count, err);
    for (size_t i = 0; result == 0 && i < count; i++)
        if (entries[i].is_alive)
            result = lull_error_set(err, -EBUSY,
                                    "%.60s: run %" PRIu64 " is under way (process %" PRId64
                                    "); stop it first",
                                    name, entries[i].submitted.run, entries[i].owner.pid);
    free(entries);
    lull_sql_add_text(&values, name);
    if (result == 0)
        result = lull_sql_run(jobs->sql, "DELETE FROM batch_job WHERE name = $1", &values, NULL,
                              NULL, err);
    return result;
}

int lull_batch_jobs_forget(struct lull_batch_jobs *jobs, const char *name, struct lull_error *err)
{
    int result = jobs->sql->kind->begin(jobs->sql, err);

    if (result < 0)
        return result;
    result = batch_store_remove_job(jobs, name, err);
    return jobs->sql->kind->end(jobs->sql, result, err);
}

int lull_batch_jobs_load(struct lull_batch_jobs *jobs, const char *name,
                         struct lull_batch_job *job_out, struct lull_batch_entry **entries_out,
                         size_t *count_out, struct lull_batch **batch_out, struct lull_error *err)
{
    struct lull_batch_entry *entries = NULL;
    struct lull_batch_job job;
    int64_t now_s = 0;
    size_t count = 0;
    /* All readings are in one transaction, so that no other process writes between them. */
    int result = jobs->sql->kind->begin(jobs->sql, err);

    if (result < 0)
        return result;
    result = lull_sql_now(jobs->sql, &now_s, err);
    if (result == 0)
        result = lull_batch_rows_job(jobs, name, &job, err);
    if (result == 0)
        result = lull_batch_rows_entries(jobs, name, now_s, &entries, &count, err);
    if (result == 0 && batch_out != NULL)
        result = lull_batch_rows_state(jobs, &job, batch_out, err);
    result = jobs->sql->kind->end(jobs->sql, result, err);
    if (result < 0) {
        free(entries);
        return result;
    }
    *job_out = job;
    *entries_out = entries;
    *count_out = count;
    return 0;
}
