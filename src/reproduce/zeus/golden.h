/*
 * Holds Zeus's policy, step by step, against a recorded series that brings its random draws along
 * (trace/batch_golden.h): the same decisions, the same numbers. A run that differs is counted, and
 * the recorded decision taken, so that one mistake does not make the rest worthless.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_ZEUS_GOLDEN_H
#define LULL_REPRODUCE_ZEUS_GOLDEN_H

#include <stdint.h>

#include "base/error.h"
#include "reproduce/zeus/trace.h"
#include "trace/lines.h"

/* What the series was recorded with. */
struct lull_golden_setting {
    double eta_ratio;
    double beta_ratio; /* INFINITY: no early stopping */
    uint32_t window;
};

struct lull_golden_verdict {
    uint32_t steps;
    uint32_t mismatches;     /* steps that differ in a decision, or by over 1e-9 in a number */
    uint32_t first_mismatch; /* its step, where there is one */
    char first_what[64];     /* and its column */
    /* Of energies, times, costs, bounds, means, and of deviations as a share of their mean. */
    double max_relative_error;
};

/* Reads lines from the header on. Errors: of format or memory; a mismatch is none. */
int lull_golden_check(const struct lull_batch_trace *trace,
                      const struct lull_golden_setting *setting, struct lull_lines *lines,
                      struct lull_golden_verdict *verdict_out, struct lull_error *err);

#endif
