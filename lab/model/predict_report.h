/*
 * Prints what lull model predict has found: tables for users, or a document.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_MODEL_PREDICT_REPORT_H
#define LULL_LAB_MODEL_PREDICT_REPORT_H

#include "base/array.h"
#include "lab/trace/document.h"

/* Kernels to predict, and where. */
struct lull_prediction_list {
    const struct lull_model_set *set;
    struct lull_fitted_kernel *kernels; /* their pointers are borrowed */
    struct lull_kernel_name *names;
    size_t count;
    double sm_mhz; /* 0: at all points of the device */
    double mem_mhz;
    double slowdown_ratio; /* limit of the second pick, beside the clock of least energy */
};

/* Prints a table: of one kernel a line for each point, of several a line for each kernel. */
void lull_predictions_print(const struct lull_prediction_list *list);

/* Prints the document. Returns -1: standard output cannot be written. */
int lull_predictions_print_json(const struct lull_prediction_list *list);

#endif
