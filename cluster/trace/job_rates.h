/*
 * Rates of kinds of jobs on types and numbers of GPUs, as Gavel measured them (OSDI'20): a table
 * (columns.h) with the columns gpu, consolidated (1: the GPUs are in one server), job_type,
 * num_gpus and iters_per_s (up to 1e9). Threads: a table belongs to its caller.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_JOB_RATES_H
#define LULL_CLUSTER_TRACE_JOB_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/job_surface.h"

enum { LULL_JOB_RATES_MAX = 1 << 16, LULL_JOB_RATES_NAME = 64 };

struct lull_job_rates_row {
    char gpu[LULL_JOB_RATES_NAME];
    char job_type[LULL_JOB_RATES_NAME];
    bool is_consolidated;
    uint32_t gpus; /* 1..65536 */
    double rate;   /* per second, >= 0; 0: it does not run */
};

struct lull_job_rates_table {
    struct lull_job_rates_row *rows; /* by gpu, job_type, consolidated, gpus */
    size_t count;                    /* > 0 */
};

/*
 * Reads a file ("-" is standard input). Errors, with file and line: LULL_E_FORMAT a column missing,
 * no such number, a name that is empty or too long, a row that is there twice, no rows or more than
 * LULL_JOB_RATES_MAX; -ENOMEM; those of lull_columns_read. The table is left empty then.
 */
int lull_job_rates_read(const char *path, struct lull_job_rates_table *table_out,
                        struct lull_error *err);
void lull_job_rates_fini(struct lull_job_rates_table *table);

/* Returns whether there is a row for a type of GPU. Its name counts up to the first '-', case
 * ignored: "V100-SXM2-16GB" is v100. */
bool lull_job_rates_has_gpu(const struct lull_job_rates_table *table, const char *gpu);

/*
 * Lists the rates above 0 of a kind of job on a type of GPU (named as above), the fewest GPUs
 * first, at most LULL_JOB_MAX_RATES. A single GPU counts both as consolidated and as not. A count
 * of 0 means that there are none.
 */
void lull_job_rates_of(const struct lull_job_rates_table *table, const char *gpu,
                       const char *job_type, bool is_consolidated,
                       struct lull_job_rates *rates_out);

#endif
