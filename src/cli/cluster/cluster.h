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

#define LULL_CLUSTER_COMMAND "simulate cluster"

/* argv[0] is overwritten. */
int lull_cluster_main(int argc, char **argv);

/* A policy, its options in argv, without --policy. Returns an enum lull_exit. */
int lull_cluster_edl_main(const char *policy, int argc, char **argv);

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
};

/* Fills in the average and the p99 of these times; 0 for none. Errors: -ENOMEM. */
int lull_cluster_summarise_times(const double *completion_s, size_t count,
                                 struct lull_cluster_summary *summary);

void lull_cluster_summary_print(const struct lull_cluster_summary *summary, FILE *out);

/* A new object with the summary's fields; NULL: no memory. */
json_t *lull_cluster_summary_json(const struct lull_cluster_summary *summary);

#endif
