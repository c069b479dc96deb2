/*
 * What `lull analyze` prints. Text from traces is cleaned of what a terminal or JSON cannot take.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_REPORT_H
#define LULL_CLI_ANALYZE_REPORT_H

#include <stddef.h>
#include <stdint.h>

#include "cli/analyze/prediction.h"
#include "trace/analysis.h"

/* Holds what the analysis found out about the rank of one trace. */
struct lull_analyzed_rank {
    const char *file;
    int64_t rank; /* LULL_TRACE_UNKNOWN where the trace does not say it */
    int64_t world_size;
    char gpu[64];
    uint64_t unusable_kernels;
    struct lull_analysis analysis;
    struct lull_prediction prediction;
};

/* Prints one JSON document on standard output. Returns 0, or -1 if it could not be written. */
int lull_analyze_print_json(const struct lull_analyzed_rank *ranks, size_t count);

/* Prints tables, timelines and a summary for people on standard output. */
void lull_analyze_print_text(const struct lull_analyzed_rank *ranks, size_t count);

#endif
