/*
 * The figures that every simulation of a cluster reports at its end, whatever the policy, so that
 * policies can be compared; as text and as JSON.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_SUMMARY_H
#define LULL_SIMULATOR_SUMMARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "base/error.h"

struct lull_cluster_summary {
    uint64_t jobs;
    uint64_t rejected;
    double average_completion_s; /* from arrival to end, over the jobs that were not rejected */
    double p99_completion_s;
    double makespan_s; /* from time 0 to the last end */
    double run_j;
    double idle_j;
    double turn_on_j;
    uint64_t deadline_misses;
    double
        bound_j; /* lower bound on the energy of any schedule as good as the run; NAN if unknown */
    double
        certificate_ratio; /* the energy is at most this many times the minimum; NAN if unknown */
    bool is_of_gains; /* the certificate is instead: the largest gain is at most that many times the
                         run's */
};

/*
 * Fills in the average and the 99 % quantile of these times, which are 0 if count is 0.
 * Errors: -ENOMEM.
 */
int lull_cluster_summarise_times(const double *completion_s, size_t count,
                                 struct lull_cluster_summary *summary);

/* All energy that the run took, J. */
double lull_cluster_summary_energy_j(const struct lull_cluster_summary *summary);

void lull_cluster_summary_print(const struct lull_cluster_summary *summary, FILE *out);

/* The summary's fields as a JSON object, which the caller owns. NULL: out of memory. */
json_t *lull_cluster_summary_json(const struct lull_cluster_summary *summary);

/* Prints a document on standard output and takes it. Errors: -ENOMEM, also for a null document. */
int lull_cluster_print_json(json_t *document);

/*
 * Prints the summary's fields and those of `more` as one JSON document. Takes `more`; a null one
 * represents a lack of memory. Errors: -ENOMEM.
 */
int lull_cluster_summary_print_json(const struct lull_cluster_summary *summary, json_t *more);

#endif
