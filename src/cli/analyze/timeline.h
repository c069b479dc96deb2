/*
 * `lull analyze` of a timeline of operations: what-if, levers, and what is printed of them.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_TIMELINE_H
#define LULL_CLI_ANALYZE_TIMELINE_H

#include <stdbool.h>

#include "trace/prediction.h"
#include "simulator/timeline/levers.h"
#include "simulator/timeline/what_if.h"

/* Watts of a GPU at the highest clock and in a lowered gap; negative: those of the model. */
struct lull_analyze_watts {
    double compute_w;
    double wait_w;
    double low_w;
};

struct lull_analyzed_timeline {
    const char *file;
    const struct lull_operation_timeline *timeline;
    const struct lull_device_curve *model; /* whose clocks and curves are assumed */
    bool is_model_assumed;
    struct lull_analyze_watts watts;
    struct lull_timeline_job job;
    struct lull_what_if what_if;
    struct lull_timeline_answer answer;
    double tolerance_ratio;
};

/* Analyses a timeline, which is borrowed, into the caller's storage. only_gaps: clocks of ranks and
 * operations are not searched. Errors: those of
 * lull_timeline_job_init, lull_what_if_ask and lull_timeline_ask. */
int lull_analyze_timeline(const struct lull_prediction_setup *setup,
                          const struct lull_analyze_watts *watts, bool only_gaps,
                          const struct lull_operation_timeline *timeline,
                          struct lull_analyzed_timeline *analyzed_out, struct lull_error *err);
void lull_analyzed_timeline_fini(struct lull_analyzed_timeline *analyzed);

/* Prints one JSON document on standard output. Returns 0, or -1 if it could not be written. */
int lull_analyze_timeline_print_json(const struct lull_analyzed_timeline *analyzed);
void lull_analyze_timeline_print_text(const struct lull_analyzed_timeline *analyzed);

#endif
