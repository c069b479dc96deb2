/*
 * Common parts of tests of recurring jobs: the store to use, and a job.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_STORE_BATCH_CASE_H
#define LULL_TESTS_STORE_BATCH_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "store/batch_jobs.h"

static const char *location;
static char directory[64];

static struct lull_batch_jobs *open_jobs(void)
{
    struct lull_batch_jobs *jobs = NULL;
    struct lull_error err = {0};

    if (lull_batch_jobs_open(location, true, &jobs, &err) < 0)
        fail_msg("%s", err.text);
    return jobs;
}

static struct lull_batch_job make_job(const char *name)
{
    struct lull_batch_job job = {
        .sizes = {8, 16, 32, 64},
        .size_count = 4,
        .default_size = 16,
        .price = {.eta_ratio = 0.5, .max_power_w = 400.1, .gpu_count = 2},
        .beta_ratio = 2.0,
        .seed = UINT64_MAX - 4,
        .gpu_name = "GPU",
    };

    snprintf(job.name, sizeof(job.name), "%s", name);
    return job;
}

static void forget(struct lull_batch_jobs *jobs, const char *name)
{
    struct lull_error err = {0};

    if (lull_batch_jobs_forget(jobs, name, &err) < 0)
        fail_msg("%s", err.text);
}

/* Removes that directory, if there is one. */
static void batch_case_end(void)
{
    static const char *const names[] = {"batch.db", "batch.db-wal", "batch.db-shm"};

    for (int i = 0; directory[0] != '\0' && i < 3; i++) {
        char path[96];

        snprintf(path, sizeof(path), "%s/%s", directory, names[i]);
        unlink(path);
    }
    if (directory[0] != '\0')
        rmdir(directory);
}

/* LOCATION of the command line, else a sqlite file in a new directory. Errors: -1. */
static int batch_case_begin(int argc, char **argv)
{
    location = argc > 1 ? argv[1] : directory;
    if (argc > 1)
        return 0;
    snprintf(directory, sizeof(directory), "/tmp/lull-batch-XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : 0;
}

#endif
