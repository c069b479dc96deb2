/*
 * `lull simulate cluster`: many jobs on many GPUs in virtual time. Each policy has its own options
 * and its own files; command.c is the table of them. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_CLUSTER_CLUSTER_H
#define LULL_CLI_CLUSTER_CLUSTER_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/error.h"

#define LULL_CLUSTER_COMMAND "simulate cluster"

/* argv[0] is overwritten. */
int lull_cluster_main(int argc, char **argv);

/* A policy, its options in argv, without --policy. Returns an enum lull_exit. */
int lull_cluster_edl_main(const char *policy, int argc, char **argv);

/* Jobs that share GPUs in time and a network by contention. */
int lull_cluster_shared_main(const char *policy, int argc, char **argv);

/* One of core/cluster/policy.h. */
int lull_cluster_gangs_main(const char *policy, int argc, char **argv);

/* ---- what every policy tells -------------------------------------------------------------- */

struct lull_cluster_summary {
    uint64_t jobs;
    uint64_t rejected;
    double average_completion_s; /* from arrival to end, of jobs that were not rejected */
    double p99_completion_s;
    double makespan_s; /* from time 0 to the last end */
    double run_j;
    double idle_j;
    double turn_on_j;
    uint64_t deadline_misses;
    double bound_j;           /* no schedule of these jobs needs less; NAN: not known */
    double certificate_ratio; /* how far from the optimum at most; NAN: not known */
};

/* Fills in the average and the p99 of these times; 0 for none. Errors: -ENOMEM. */
int lull_cluster_summarise_times(const double *completion_s, size_t count,
                                 struct lull_cluster_summary *summary);

void lull_cluster_summary_print(const struct lull_cluster_summary *summary, FILE *out);

/* Prints the summary's fields and those of more as one JSON document. Takes more, which may be NULL
 * for no memory. Errors: -ENOMEM. */
int lull_cluster_summary_print_json(const struct lull_cluster_summary *summary, json_t *more);

/*
 * Writes a table of jobs, whole or not at all; write_rows gets the open file and context, and
 * returns 0 or -ENOMEM. Errors: -ENOMEM; those of lull_file_write_atomic.
 */
int lull_cluster_write_jobs(const char *path, int (*write_rows)(const void *context, FILE *file),
                            const void *context, struct lull_error *err);

#endif
