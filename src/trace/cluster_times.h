/*
 * Times in traces of clusters, and what a job is worth by when. Functions return NULL or, in the
 * user's words, what is wrong. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CLUSTER_TIMES_H
#define LULL_TRACE_CLUSTER_TIMES_H

#include <stddef.h>
#include <stdint.h>

enum { LULL_CLUSTER_STEPS_MAX = 16 };

/* Ending by a deadline is worth so much. */
struct lull_cluster_step {
    int64_t deadline_ns; /* on the clock of submission */
    double value;        /* >= 0; 1 where nothing is told */
};

/* The first length bytes of text, in units of so many seconds: from 0 to about 30 years. What does
 * not count beyond nanoseconds is rounded. */
const char *lull_cluster_time_parse(const char *text, size_t length, int64_t unit_s,
                                    int64_t *time_ns_out);

/* A list like 299-319-379, rising, of times after submission, into steps of value 1. */
const char *lull_cluster_steps_parse(const char *text, int64_t unit_s, int64_t submit_ns,
                                     struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX],
                                     uint32_t *count_out);

/* A list like 10-8-5, falling, one for each of the steps. */
const char *lull_cluster_values_parse(const char *text, struct lull_cluster_step *steps,
                                      uint32_t count);

#endif
