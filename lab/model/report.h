/*
 * Output of lull model evaluate for each set: a table for users, or a document.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_MODEL_REPORT_H
#define LULL_LAB_MODEL_REPORT_H

#include <stddef.h>

#include "base/printable.h"
#include "lab/core/evaluation.h"
#include "lab/trace/kernel_table.h"

struct lull_evaluated_set {
    const struct lull_kernel_set *set; /* borrowed */
    struct lull_grid grid;
    bool has_grid; /* false: no two points are shared by most kernels, so there is no evaluation */
    struct lull_evaluation evaluation;
};

struct lull_model_set_name {
    char text[2 * sizeof(struct lull_printable)];
};

/* GPU and set, as messages and tables name them: "v100/real2018". */
struct lull_model_set_name lull_model_set_name(const char *gpu, const char *set);

/* Prints a table. */
void lull_model_report_print(const struct lull_evaluated_set *sets, size_t count);

/* Prints the document. -1: standard output cannot be written. */
int lull_model_report_print_json(const struct lull_evaluated_set *sets, size_t count);

#endif
