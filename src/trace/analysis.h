/*
 * Use of a GPU's time by a recorded rank: exposure, gaps, iterations, communication sections.
 *
 * Iterations are those the program's profiler marked; without marks, the repeating sequence of
 * communication kernels (core/section/iteration.h), unless that may be the layers of a model: one
 * operation again and again, or operations of unknown size in less time than an iteration takes.
 * The span is that of the kernels; where the marked iterations take longer, the GPU was idle at the
 * edges for as much longer. A section here is all communication of one kernel name, process group
 * and size class.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_ANALYSIS_H
#define LULL_TRACE_ANALYSIS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/section/exposure.h"
#include "trace/trace.h"

enum {
    LULL_ANALYSIS_COLUMNS = 72,
    LULL_ANALYSIS_NAME_BYTES = 64,
    LULL_ANALYSIS_SECTIONS = 1000, /* reported sections; further ones are only counted */
};

/* Activity that fills most of one column of the timeline. */
enum lull_activity { LULL_ACTIVITY_IDLE, LULL_ACTIVITY_COMMUNICATION, LULL_ACTIVITY_COMPUTE };

struct lull_analysis_section {
    const char *operation;                 /* static */
    char kernel[LULL_ANALYSIS_NAME_BYTES]; /* its name up to the parameters */
    char group[LULL_ANALYSIS_NAME_BYTES];  /* "" unknown */
    int64_t ranks;                         /* LULL_TRACE_UNKNOWN */
    double bytes;                          /* mean payload; negative: unknown */
    uint64_t count;
    double total_ms;
    double exposed_ms; /* of that, without compute kernels beside it */
    double mean_ms;    /* length of one, and its quantiles */
    double p50_ms;
    double p90_ms;
    double p99_ms;
};

struct lull_analysis {
    uint64_t kernel_count;
    uint64_t communication_kernel_count;
    struct lull_exposure exposure;
    struct lull_gap *gaps; /* in order */
    size_t gap_count;
    uint64_t iterations;                    /* 0: none found */
    double iteration_ms;                    /* mean */
    bool has_marks;                         /* iterations are the profiler's */
    struct lull_analysis_section *sections; /* most exposed first, LULL_ANALYSIS_SECTIONS at most */
    size_t section_count;
    size_t other_sections;                              /* less exposed ones, which are left out */
    enum lull_activity timeline[LULL_ANALYSIS_COLUMNS]; /* of the whole span */
};

/*
 * Analyses a trace of one GPU (lull_trace_of_gpu()) into the caller's storage, which needs the
 * trace no longer. LULL_E_FORMAT: it has no kernels, the text does not name the file; -ENOMEM.
 */
int lull_analysis_init(const struct lull_trace *trace, struct lull_analysis *analysis_out,
                       struct lull_error *err);

void lull_analysis_fini(struct lull_analysis *analysis);

/* Frees the gaps, most of an analysis, where they are needed no longer. */
void lull_analysis_drop_gaps(struct lull_analysis *analysis);

#endif
