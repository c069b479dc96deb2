/*
 * Rates of kinds of jobs on types and numbers of GPUs, as Gavel measured them (OSDI'20): a
 * table (columns.h) of gpu, consolidated, job_type, num_gpus and iters_per_s (up to 1e9).
 * consolidated: 1 if the GPUs are in one server. Threads: a table belongs to its caller.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JOB_RATES_H
#define LULL_TRACE_JOB_RATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/cluster/model/job_surface.h"
#include "trace/lines.h"

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
 * Reads a file ("-": standard input). Errors, with file and line: LULL_E_FORMAT a column missing,
 * no such number, a name that is empty or too long, a row that is there twice, no rows or more than
 * LULL_JOB_RATES_MAX; -ENOMEM; those of lull_lines_open. The table is left empty then.
 */
int lull_job_rates_read(const char *path, struct lull_job_rates_table *table_out,
                        struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_job_rates_read_lines(struct lull_lines *lines, struct lull_job_rates_table *table_out,
                              struct lull_error *err);
void lull_job_rates_fini(struct lull_job_rates_table *table);

/* Whether there is a row of that type of GPU (its name as far as the first '-', case ignored:
 * "V100-SXM2-16GB" is v100). */
bool lull_job_rates_has_gpu(const struct lull_job_rates_table *table, const char *gpu);

/*
 * The rates above 0 of a kind of job on a type of GPU (as above), the fewest GPUs first, at most
 * LULL_JOB_MOST_RATES; a single GPU counts as consolidated or not. count 0: there are none.
 */
void lull_job_rates_of(const struct lull_job_rates_table *table, const char *gpu,
                       const char *job_type, bool is_consolidated,
                       struct lull_job_rates *rates_out);

#endif
