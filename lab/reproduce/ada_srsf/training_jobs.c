/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/ada_srsf/training_jobs.h"

#include <stdio.h>

#include "lab/reproduce/job_set.h"
#include "trace/columns.h"

enum training_job_field {
    ID,
    WORKERS,
    ITERATIONS,
    FORWARD,
    BACKWARD,
    MODEL,
    NEEDED,
    MEMORY = NEEDED,
    ARRIVAL,
    NET
};

static const struct lull_column known[] = {
    {"job_id", ID, 0},        {"nworkers", WORKERS, 0},
    {"iters", ITERATIONS, 0}, {"fw_time", FORWARD, 0},
    {"bw_time", BACKWARD, 0}, {"model_size", MODEL, 0},
    {"train_mem", MEMORY, 0}, {"start_time", ARRIVAL, 0},
    {"dnn", NET, 0},          {NULL, 0, 0},
};

enum { MAX_WORKERS = 1 << 20, MAX_MS = 1 << 30 };

#define MAX_ITERATIONS INT64_C(1000000000)
#define MAX_ARRIVAL_MS INT64_C(1000000000000) /* 30 years */

static const double max_mb = 1e9;

/* ---- one job ------------------------------------------------------------------------------ */

static int training_job_check_names(const struct lull_columns *record, struct lull_error *err)
{
    int rc = 0;

    for (uint32_t field = 0; rc == 0 && field < NEEDED; field++)
        rc = lull_columns_need(record, UINT64_C(1) << field, err);
    return rc;
}

static int training_job_read_count(const struct lull_columns *record, enum training_job_field field,
                                   int64_t max, uint32_t *count_out, struct lull_error *err)
{
    int64_t count = 0;
    const int rc =
        lull_columns_integer(record, field, 1, max, "not a whole number from 1 on", &count, err);

    if (rc == 0)
        *count_out = (uint32_t)count;
    return rc;
}

static int read_mb(const struct lull_columns *record, enum training_job_field field, double *mb_out,
                   struct lull_error *err)
{
    return lull_columns_real(record, field, 0.0, max_mb, "not from 0 to 1e9 MB", mb_out, err);
}

static int training_job_read_counts(const struct lull_columns *record,
                                    struct lull_training_job *job, struct lull_error *err)
{
    const struct {
        enum training_job_field field;
        int64_t max;
        uint32_t *count_out;
    } counts[] = {
        {WORKERS, MAX_WORKERS, &job->workers},
        {ITERATIONS, MAX_ITERATIONS, &job->iterations},
        {FORWARD, MAX_MS, &job->forward_ms},
        {BACKWARD, MAX_MS, &job->backward_ms},
    };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < sizeof(counts) / sizeof(counts[0]); i++)
        rc = training_job_read_count(record, counts[i].field, counts[i].max, counts[i].count_out,
                                     err);
    return rc;
}

static int training_job_read(const struct lull_columns *record, void *job_out,
                             struct lull_error *err)
{
    struct lull_training_job *const job = job_out;
    int rc;

    *job = (struct lull_training_job){0};
    rc = lull_columns_integer(record, ID, 0, INT64_MAX, "not a whole number", &job->id, err);
    if (rc == 0)
        rc = training_job_read_counts(record, job, err);
    if (rc == 0)
        rc = read_mb(record, MODEL, &job->model_mb, err);
    if (rc == 0 && lull_columns_is_filled(record, MEMORY))
        rc = read_mb(record, MEMORY, &job->memory_mb, err);
    if (rc == 0 && lull_columns_is_filled(record, ARRIVAL))
        rc = lull_columns_integer(record, ARRIVAL, 0, MAX_ARRIVAL_MS,
                                  "not a whole number of ms from 0 on", &job->arrival_ms, err);
    if (lull_columns_has(record, NET))
        snprintf(job->net, sizeof(job->net), "%s", record->cells[NET]);
    return rc;
}

/* ---- many --------------------------------------------------------------------------------- */

static const struct lull_job_kind kind = {
    .known = known,
    .many = "jobs",
    .size = sizeof(struct lull_training_job),
    .check = training_job_check_names,
    .read = training_job_read,
};

int lull_training_jobs_read_text(const char *name, char *text, struct lull_training_job *job_out,
                                 struct lull_error *err)
{
    return lull_job_set_read_text(&kind, name, text, job_out, err);
}

int lull_training_jobs_read(const char *path, struct lull_training_job **jobs_out,
                            size_t *count_out, struct lull_error *err)
{
    void *all;
    const int rc = lull_job_set_read(&kind, path, &all, count_out, err);

    if (rc == 0)
        *jobs_out = all;
    return rc;
}
