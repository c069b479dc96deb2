/*
 * The phases of an inference server in a recorded rank: prefill and decode (serving_mark.h).
 *
 * A kernel belongs to the step whose mark was the last to begin before the kernel's launch, or
 * before the kernel itself where only marks on the GPU's timeline are recorded. So sampling belongs
 * to the step before it. Without marks, attention kernels decide, each for the kernels around it:
 * by their names, or because they were launched within a graph, as decode is. The boundary between
 * two phases is then the longest idle time between their attention kernels; a step with prompts and
 * output tokens counts as prefill.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PHASES_H
#define LULL_TRACE_PHASES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/exposure.h"
#include "trace/trace.h"

/* Where the phases of a trace are from. */
enum lull_phases_source {
    LULL_PHASES_UNKNOWN,
    LULL_PHASES_MARKS,
    LULL_PHASES_KERNELS, /* by their names and graphs */
};

struct lull_phase {
    uint64_t steps; /* 0: not known */
    uint64_t kernels;
    struct lull_exposure exposure; /* of its steps one after another, each from its first kernel to
                                      its last; without marks: of stretches of steps */
    double requests;               /* of all its steps; NAN: not known, as the others */
    double prompt_tokens;
    double output_tokens;
};

struct lull_phases {
    enum lull_phases_source source;
    bool has_attention; /* without a source: kernels of attention were seen, and no backward pass */
    struct lull_phase phases[LULL_TRACE_PHASES];
    int64_t outside_ns; /* outside all steps */
};

/* "prefill", "mixed", "decode". */
const char *lull_phase_name(enum lull_trace_phase phase);

/* Finds the phases of a trace of one GPU that has kernels. Errors: -ENOMEM. */
int lull_phases_find(const struct lull_trace *trace, struct lull_phases *phases_out);

#endif
