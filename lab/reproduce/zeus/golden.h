/*
 * Compares Zeus's policy, step by step, with a recorded series that includes its random draws
 * (series.h): decisions and numbers must be the same. A run that differs is counted, and the
 * recorded decision is used, so that one difference does not invalidate the rest.
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_ZEUS_GOLDEN_H
#define LULL_LAB_REPRODUCE_ZEUS_GOLDEN_H

#include <stdint.h>

#include "base/error.h"
#include "lab/reproduce/zeus/trace.h"
#include "trace/lines.h"

/* The settings with which the series was recorded. */
struct lull_golden_setting {
    double eta_ratio;
    double beta_ratio; /* INFINITY: no early stopping */
    uint32_t window;
};

struct lull_golden_verdict {
    uint32_t steps;
    uint32_t mismatches;     /* steps that differ in a decision, or by over 1e-9 in a number */
    uint32_t first_mismatch; /* the step of the first one */
    char first_what[64];     /* the column of the first one */
    /* Over energies, times, costs, bounds and means, and over deviations as a share of their mean.
     */
    double max_relative_error;
};

/* Checks the series in `lines`, from its header on. Errors: LULL_E_FORMAT, -ENOMEM; a mismatch is
 * not an error. */
int lull_golden_check(const struct lull_batch_trace *trace,
                      const struct lull_golden_setting *setting, struct lull_lines *lines,
                      struct lull_golden_verdict *verdict_out, struct lull_error *err);

#endif
