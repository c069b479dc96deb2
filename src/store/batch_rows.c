/* Reads jobs, their runs and the search's state from the database. SPDX-License-Identifier:
 * Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/process.h"
#include "store/batch_rows.h"

/* An owner in another place counts as dead after this much silence: many of the heartbeats that it
 * sends every second. */
enum { SILENCE_S = 60 };

/*
 * Returns whether an owner still lives. /proc decides for an owner in the same place as self.
 * Another one counts as dead if it has reported nothing for SILENCE_S or more.
 */
static bool batch_rows_is_alive(const struct lull_batch_owner *owner,
                                const struct lull_batch_owner *self, int64_t silence_s)
{
    if (strcmp(owner->place, self->place) == 0)
        return lull_process_start_ticks((pid_t)owner->pid) == owner->start;
    return silence_s < SILENCE_S;
}

/* ---- the job ------------------------------------------------------------------------------- */

static size_t batch_rows_parse_sizes(const char *text, uint32_t sizes[LULL_BATCH_SIZES])
{
    size_t count = 0;

    while (count < LULL_BATCH_SIZES && *text != '\0') {
        char *end;

        sizes[count++] = (uint32_t)strtoul(text, &end, 10);
        if (end == text)
            return 0;
        text = *end == ',' ? end + 1 : end;
    }
    return count;
}

static int batch_rows_take_job(void *context, const struct lull_sql_row *row)
{
    struct lull_batch_job *job = context;

    snprintf(job->name, sizeof(job->name), "%s", lull_sql_text(row, 0));
    job->size_count = batch_rows_parse_sizes(lull_sql_text(row, 1), job->sizes);
    job->default_size = (uint32_t)lull_sql_integer(row, 2, 0);
    job->price.eta_ratio = lull_sql_number(row, 3, NAN);
    job->price.max_power_w = lull_sql_number(row, 4, NAN);
    job->price.gpu_count = (uint32_t)lull_sql_integer(row, 5, 0);
    job->beta_ratio = lull_sql_number(row, 6, INFINITY);
    job->seed = strtoull(lull_sql_text(row, 7), NULL, 10);
    snprintf(job->gpu_name, sizeof(job->gpu_name), "%s", lull_sql_text(row, 8));
    job->created_s = lull_sql_integer(row, 9, 0);
    return 0;
}

int lull_batch_rows_job(struct lull_batch_jobs *jobs, const char *name,
                        struct lull_batch_job *job_out, struct lull_error *err)
{
    struct lull_sql_values values = {0};
    struct lull_batch_job job = {0};
    int result;

    lull_sql_add_text(&values, name);
    result = lull_sql_run(jobs->sql,
                          "SELECT name, sizes, default_size, eta_ratio, max_power_w, gpu_count,"
                          " beta_ratio, seed, gpu_name, created_s FROM batch_job WHERE name = $1",
                          &values, batch_rows_take_job, &job, err);
    if (result < 0)
        return result;
    if (job.name[0] == '\0')
        return lull_error_set(err, -ENOENT, "%s: no such job; see lull batch list", name);
    *job_out = job;
    return 0;
}

/* ---- its runs ------------------------------------------------------------------------------ */

struct batch_rows_reading {
    struct lull_batch_jobs *jobs;
    int64_t now_s;
    struct lull_batch_entry *entries;
    size_t count;
};

/* Columns are taken by their place in the SELECT of lull_batch_rows_entries. */
static int batch_rows_take_entry(void *context, const struct lull_sql_row *row)
{
    struct batch_rows_reading *reading = context;
    struct lull_batch_entry *entry;

    if (lull_array_grow(&reading->entries, reading->count, sizeof(*entry)) < 0)
        return -ENOMEM;
    entry = &reading->entries[reading->count++];
    *entry = (struct lull_batch_entry){
        .submitted = {.event = LULL_BATCH_SUBMITTED,
                      .run = (uint64_t)lull_sql_integer(row, 0, 0),
                      .retry_of = (uint64_t)lull_sql_integer(row, 1, 0),
                      .size = (uint32_t)lull_sql_integer(row, 2, 0),
                      .bound = lull_sql_number(row, 3, INFINITY)},
        .is_exploring = lull_sql_integer(row, 4, 0) != 0,
        .submitted_s = lull_sql_integer(row, 5, 0),
        .owner = {.pid = lull_sql_integer(row, 7, 0), .start = lull_sql_integer(row, 8, 0)},
        .is_over = lull_sql_integer(row, 10, 0) != 0,
        .over = {.event = (enum lull_batch_event)lull_sql_integer(row, 11, LULL_BATCH_LOST),
                 .run = (uint64_t)lull_sql_integer(row, 0, 0),
                 .energy_j = lull_sql_number(row, 12, NAN),
                 .time_s = lull_sql_number(row, 13, 0.0)},
        .epochs = (uint32_t)lull_sql_integer(row, 14, 0),
        .metric = lull_sql_number(row, 15, NAN),
    };
    snprintf(entry->owner.place, sizeof(entry->owner.place), "%s", lull_sql_text(row, 6));
    entry->is_alive =
        !entry->is_over && batch_rows_is_alive(&entry->owner, &reading->jobs->self,
                                               reading->now_s - lull_sql_integer(row, 9, 0));
    return 0;
}

int lull_batch_rows_entries(struct lull_batch_jobs *jobs, const char *name, int64_t now_s,
                            struct lull_batch_entry **entries_out, size_t *count_out,
                            struct lull_error *err)
{
    struct batch_rows_reading reading = {.jobs = jobs, .now_s = now_s};
    struct lull_sql_values values = {0};
    int result;

    lull_sql_add_text(&values, name);
    result = lull_sql_run(jobs->sql,
                          "SELECT run, retry_of, size, bound_j, is_exploring, submitted_s, place,"
                          " pid, start, seen_s, ended, event, energy_j, time_s, epochs, metric"
                          " FROM batch_run WHERE job = $1 ORDER BY run",
                          &values, batch_rows_take_entry, &reading, err);
    if (result < 0) {
        free(reading.entries);
        return result == -ENOMEM ? lull_error_set(err, -ENOMEM, "%s: no memory for its runs", name)
                                 : result;
    }
    *entries_out = reading.entries;
    *count_out = reading.count;
    return 0;
}

/* ---- the search's state -------------------------------------------------------------------- */

struct batch_rows_replay {
    struct lull_batch *batch;
    struct lull_error *err;
};

/* Columns are taken by their place in the SELECT of lull_batch_rows_state. Records that cannot be
 * are refused, as they would lead the search astray silently. */
static int take_record(void *context, const struct lull_sql_row *row)
{
    struct batch_rows_replay *replay = context;
    const struct lull_batch_record record = {
        .event = (enum lull_batch_event)lull_sql_integer(row, 1, -1),
        .run = (uint64_t)lull_sql_integer(row, 2, 0),
        .retry_of = (uint64_t)lull_sql_integer(row, 3, 0),
        .size = (uint32_t)lull_sql_integer(row, 4, 0),
        .bound = lull_sql_number(row, 5, INFINITY),
        .energy_j = lull_sql_number(row, 6, NAN),
        .time_s = lull_sql_number(row, 7, NAN),
    };

    if (record.event < LULL_BATCH_SUBMITTED || record.event > LULL_BATCH_CRASHED)
        return lull_error_set(replay->err, LULL_E_FORMAT, "run %" PRIu64 ": no known event",
                              record.run);
    return lull_batch_apply(replay->batch, &record, replay->err);
}

int lull_batch_rows_state(struct lull_batch_jobs *jobs, const struct lull_batch_job *job,
                          struct lull_batch **batch_out, struct lull_error *err)
{
    struct lull_batch_config config;
    struct lull_sql_values values = {0};
    struct batch_rows_replay replay = {.err = err};
    int result;

    lull_batch_config_default(&config);
    config.sizes = job->sizes;
    config.size_count = job->size_count;
    config.default_size = job->default_size;
    config.price = job->price;
    config.beta_ratio = job->beta_ratio;
    config.seed = job->seed;
    result = lull_batch_create(&config, &replay.batch, err);
    if (result < 0)
        return result;
    lull_sql_add_text(&values, job->name);
    result = lull_sql_run(jobs->sql,
                          "SELECT run AS place, 0 AS event, run, retry_of, size, bound_j,"
                          " energy_j, time_s FROM batch_run WHERE job = $1 UNION ALL"
                          " SELECT ended, event, run, 0, 0, NULL, energy_j, time_s FROM batch_run"
                          " WHERE job = $1 AND ended IS NOT NULL ORDER BY 1",
                          &values, take_record, &replay, err);
    if (result < 0) {
        lull_batch_destroy(replay.batch);
        return result;
    }
    *batch_out = replay.batch;
    return 0;
}
