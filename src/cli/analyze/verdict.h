/*
 * The first line of `lull analyze`: what a job could save, by what, and what to do.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_VERDICT_H
#define LULL_CLI_ANALYZE_VERDICT_H

#include <stdbool.h>
#include <stddef.h>

/* A smaller saving is not worth a run. Default: it is within the noise of `lull run` itself. */
#define LULL_VERDICT_MIN_RATIO 0.01

/* The default of --tolerance. */
#define LULL_VERDICT_TOLERANCE_RATIO 0.01

struct lull_analyze_verdict {
    double min_ratio;    /* saving that is sure under the assumptions */
    double max_ratio;    /* possible saving by all levers together */
    double likely_ratio; /* likely saving, between the two; NAN: not known */
    double tolerance_ratio;
    double compute_ratio; /* share of the time in which GPUs compute */
    double gaps_ratio;    /* saving by gaps alone */
    bool is_of_run;       /* the range is of a run once its search has settled */
    const char *levers;   /* "one steady clock and low clocks in gaps" */
};

/* Writes the verdict as one line without its end. Returns text. */
const char *lull_analyze_verdict_write(const struct lull_analyze_verdict *verdict, char *text,
                                       size_t size);

#endif
