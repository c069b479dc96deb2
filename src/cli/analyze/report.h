/*
 * Output of `lull analyze`. Text from traces is stripped of characters that a terminal or JSON
 * cannot accept. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_ANALYZE_REPORT_H
#define LULL_CLI_ANALYZE_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/analysis.h"
#include "trace/phase_prediction.h"
#include "trace/prediction.h"

/* Holds what the analysis found out about one rank, or GPU, of a trace. */
struct lull_analyzed_rank {
    const char *file;
    int64_t rank; /* LULL_TRACE_UNKNOWN if it is not in the trace */
    int64_t world_size;
    bool is_part;     /* one of several GPUs in the file */
    int64_t device;   /* its number; LULL_TRACE_UNKNOWN */
    char process[64]; /* the pid of its kernels; "" unknown */
    int64_t begin_ns; /* of its first kernel */
    char gpu[64];
    struct lull_trace_loss loss; /* of the file; of a part that is not the first: nothing */
    struct lull_analysis analysis;
    struct lull_prediction prediction;
    struct lull_phases phases;
    struct lull_phase_prediction predicted_phases[LULL_TRACE_PHASES];
};

/* Writes a rank's number, or "gpu0" of a part of a file; "?" unknown. Returns the buffer. */
const char *lull_analyzed_rank_name(const struct lull_analyzed_rank *rank, char *buffer,
                                    size_t size);

/* Prints one JSON document on standard output. Returns 0, or -1 if it could not be written. */
int lull_analyze_print_json(const struct lull_analyzed_rank *ranks, size_t count);

/* Prints tables, timelines and a summary on standard output. */
void lull_analyze_print_text(const struct lull_analyzed_rank *ranks, size_t count);

#endif
