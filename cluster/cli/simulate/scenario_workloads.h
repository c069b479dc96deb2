/*
 * The files that jobs name in the column workload, each read once, and the operating points that a
 * recorded iteration has. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_SIMULATE_SCENARIO_WORKLOADS_H
#define LULL_CLUSTER_CLI_SIMULATE_SCENARIO_WORKLOADS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/simulator/job_workload.h"
#include "cluster/trace/job_table.h"

struct lull_scenario_workload {
    uint32_t name; /* the file's, among the names of the table */
    struct lull_job_workload *read;
};

/* A file as run by one kind of job. */
struct lull_scenario_recorded {
    uint32_t file;
    uint32_t job_class;
    uint32_t gpus; /* 0: it is the same on any number */
    struct lull_job_recorded made;
};

/* Zero-initialised it has no files. */
struct lull_scenario_workloads {
    struct lull_scenario_workload *files;
    size_t file_count;
    struct lull_scenario_recorded *recorded;
    size_t recorded_count;
    uint32_t *of_job; /* [row of the table]: number among recorded; UINT32_MAX: none */
    size_t jobs;      /* number of jobs that have one */
};

/*
 * Reads the workload that a row names, unless another row named it before. Its name begins in the
 * folder of the table, which was read from path ("-": in the working directory). of_job has room
 * for the row. Errors, with the table's line: those of lull_job_workload_read and
 * lull_job_workload_make; -EINVAL the row names standard input; -ENOMEM.
 */
int lull_scenario_workloads_add(struct lull_scenario_workloads *workloads, const char *path,
                                const struct lull_job_table *table, size_t row,
                                const struct lull_job_setting *setting, struct lull_error *err);
void lull_scenario_workloads_fini(struct lull_scenario_workloads *workloads);

/* Refuses jobs with a workload if no type of GPU is known. -EINVAL: a row names a workload; err
 * names the first such row. */
int lull_scenario_workloads_refuse(const char *path, const struct lull_job_table *table,
                                   struct lull_error *err);

/* The workload of a job; null: it has none. */
const struct lull_scenario_recorded *
lull_scenario_workloads_of(const struct lull_scenario_workloads *all, size_t row);

#endif
