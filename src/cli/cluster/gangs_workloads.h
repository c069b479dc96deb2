/*
 * Private to gangs_modes.c and what prints of it: the files that jobs name in the column workload,
 * each read once, and what they are to the jobs. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_GANGS_WORKLOADS_H
#define LULL_CLI_CLUSTER_GANGS_WORKLOADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "simulator/cluster/job_workload.h"
#include "trace/cluster_jobs.h"

struct lull_gangs_workload { /* a file */
    uint32_t name;           /* of the table's */
    struct lull_job_workload *read;
};

struct lull_gangs_recorded { /* a file in one setting */
    uint32_t file;
    uint32_t job_class;
    uint32_t gpus; /* 0: of any job */
    struct lull_job_recorded made;
};

struct lull_gangs_workloads {
    struct lull_gangs_workload *files;
    size_t file_count;
    struct lull_gangs_recorded *recorded;
    size_t recorded_count;
    uint32_t *of_job; /* by row of the table: among recorded; UINT32_MAX: none */
    size_t jobs;      /* that have one */
};

/*
 * Adds that of a row, which names one. path: of the table, whose folder names begin in; "-": the
 * working directory. of_job has room for the row. Errors, with the table's line: those of
 * lull_job_workload_read and lull_job_workload_make; -EINVAL standard input.
 */
int lull_gangs_workloads_add(struct lull_gangs_workloads *workloads, const char *path,
                             const struct lull_cluster_jobs_table *table, size_t row,
                             const struct lull_job_setting *setting, struct lull_error *err);
void lull_gangs_workloads_fini(struct lull_gangs_workloads *workloads);

/* No row names one: there is nothing to make modes of. -EINVAL with the first that does. */
int lull_gangs_workloads_refuse(const char *path, const struct lull_cluster_jobs_table *table,
                                struct lull_error *err);

/* Of a job; NULL: it has none. */
const struct lull_gangs_recorded *lull_gangs_workloads_of(const struct lull_gangs_workloads *all,
                                                          size_t row);

#endif
