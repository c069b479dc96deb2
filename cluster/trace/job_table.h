/*
 * Job traces of GPU clusters: tables with a header (columns.h), or one of the formats of
 * cluster_formats.h, plain or gzip. Columns are identified by their names, whose endings are units;
 * those not named here are ignored:
 *
 *   job_id | pod                                      any text
 *   submit_s | submit_min | creation_s                when the job was submitted
 *   num_gpus | num_gpu | nworkers                     GPUs, all at once
 *   gpu_milli                                         the share wanted of each of them, in
 *                                                     thousandths
 *   gpu_spec                                          GPU models that will do, separated by |;
 *                                                     empty: all
 *   duration_s | duration_min | duration_v100_s       run time without waiting; or both of
 *   scheduled_s, deletion_s                           (openb), whose difference it is
 *   deadline_s                                        on the clock of submission
 *   deadlines_min                                     after submission: a list like 299-319-379, of
 *                                                     which the first counts; empty: none
 *   values                                            what ending by each of them is worth, a list
 *                                                     like 10-8-5
 *   value_j                                           what ending by the deadline is worth, J;
 *                                                     empty: the job has to run
 *   vc                                                virtual cluster; a name even where it looks
 *                                                     like a number (6214e9)
 *   model | job_type                                  what the job trains
 *   weight                                            how much a second of its completion counts
 *                                                     beside other jobs'; empty: 1
 *   gpu_memory_mib                                    what it needs of each GPU
 *   preemptible                                       1 or 0
 *   min_gpus, max_gpus                             what it can have instead, both or one
 *   workload                                          a file with one rank's iteration, relative to
 *                                                     the table's folder; empty: not recorded
 *
 * Published tables are read by the names that they have: Helios, Acme and Tiresias (submit_time,
 * gpu_num, duration), openb (name, creation_time, scheduled_time, deletion_time), the later GPU
 * traces of Alibaba (gpu_request, worker_num, inst_num, plan_gpu in percent) and sacct -P (JobID,
 * Submit, Start, End, Elapsed, AllocTRES, State, Partition); job_table.c has them all. Times may
 * be dates (timestamp.h). Steps of Slurm's jobs are skipped and counted.
 *
 * Jobs without GPUs, without a submission, or without a known duration (also those that never ran
 * or still run), and those that took no time, are counted and left out.
 *
 * Threads: a table belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_JOB_TABLE_H
#define LULL_CLUSTER_TRACE_JOB_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/string_set.h"

enum { LULL_CLUSTER_STEPS_MAX = 16 }; /* deadlines of one job */

#define LULL_JOB_TABLE_NO_DEADLINE INT64_MAX
#define LULL_JOB_TABLE_MAX_VALUE_J 1e15
#define LULL_JOB_TABLE_MAX_WEIGHT 1e6

/* The longest duration, and the longest time from the first submission to the last: 30 years. */
#define LULL_JOB_TABLE_MAX_SPAN_NS INT64_C(1000000000000000000)

/* The value of ending by a deadline. */
struct lull_cluster_step {
    int64_t deadline_ns; /* on the clock of submission */
    double value;        /* >= 0; 1 where no value is given */
};

struct lull_job_table_row {
    uint32_t id;         /* names by number: lull_job_table_name */
    uint32_t vc;         /* UINT32_MAX: the table has no such column */
    uint32_t model;      /* UINT32_MAX: no such column */
    uint32_t workload;   /* UINT32_MAX: none; never read here */
    uint32_t gpus;       /* > 0 */
    uint32_t gpu_milli;  /* of each: 1 to 1000 */
    uint32_t gpu_models; /* as gpu_spec has it; UINT32_MAX: any model */
    int64_t submit_ns;   /* >= 0, on the table's own clock */
    int64_t duration_ns; /* > 0 */
    int64_t deadline_ns; /* on the clock of submission */
    double weight;       /* > 0, to LULL_JOB_TABLE_MAX_WEIGHT; 1: not reported */
    uint32_t memory_mib; /* of each GPU; 0: not reported */
    int32_t preemptible; /* 1, 0; -1: not reported */
    uint32_t min_gpus;   /* 0: not reported; else 1 to gpus */
    uint32_t max_gpus;   /* 0: not reported; else gpus or more */
    double value_j;      /* 0: not reported; else to LULL_JOB_TABLE_MAX_VALUE_J */
    uint32_t first_step; /* in the table's; by rising deadlines and falling values */
    uint32_t step_count; /* 0: no deadline */
    size_t line;         /* of the file, from 1 */
};

struct lull_job_table {
    struct lull_job_table_row *rows; /* by submission; equal ones in the order of the file */
    size_t count;
    struct lull_cluster_step *steps; /* of all rows */
    size_t step_count;
    size_t without_gpus;       /* left out */
    size_t without_submission; /* left out: with GPUs */
    size_t without_duration;   /* left out: with GPUs and a submission */
    size_t of_no_duration;     /* left out: with both, over as soon as they began */
    size_t job_steps;          /* rows of sacct that are steps of jobs */
    size_t read_rows;          /* of a format that has no lines */
    bool has_processors;       /* GPUs are processors of a trace in SWF */
    struct lull_string_set *names;
};

/*
 * Reads a file ("-" is standard input). Errors, with file, line and column: LULL_E_FORMAT a column
 * missing, cells too few or too many, no such number, a negative time, submissions over 30 years
 * apart, a deadline before the submission, deadlines or values out of order, a value or a weight
 * that is not above 0, numbers of GPUs not around num_gpus, a workload's name of more than 255
 * bytes; -ENOMEM; those of lull_columns_read. The table is left empty then.
 */
int lull_job_table_read(const char *path, struct lull_job_table *table_out, struct lull_error *err);
void lull_job_table_fini(struct lull_job_table *table);

/* The text of a name; "" for UINT32_MAX. Lives as long as the table. */
const char *lull_job_table_name(const struct lull_job_table *table, uint32_t name);

#endif
