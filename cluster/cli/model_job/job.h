/*
 * Prediction of lull model job for a training job, and its output.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CLI_MODEL_JOB_JOB_H
#define LULL_CLUSTER_CLI_MODEL_JOB_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/training/training.h"
#include "cluster/trace/training_jobs.h"

enum { LULL_MODEL_JOB_CLOCKS = 32, LULL_MODEL_JOB_BINS = 11 };

/* A job at one clock. Watts and joules: NAN where they are unknown. */
struct lull_model_job_point {
    uint32_t sm_mhz; /* 0: the GPU's clocks are not known */
    double step_s;
    double compute_ratio; /* of the step, of a GPU on average */
    double exposed_ratio; /* communication that nothing hides */
    double bubble_ratio;
    double gpu_w;
    double node_w;
    double energy_j; /* of a step, all GPUs */
};

struct lull_model_job {
    const struct lull_training_entry *entry; /* borrowed */
    struct lull_training_setup job;          /* with the constants of its software */
    bool is_fitted;                          /* matrix_ratio is of its own measured step */
    double factor;                           /* of the step's interval */
    double energy_factor;
    struct lull_training_step step;
    struct lull_model_job_point points[LULL_MODEL_JOB_CLOCKS];
    uint32_t point_count; /* > 0, the highest clock first */
    /* Of a node, in equal parts of the step as measured by the meter; NAN: unknown. */
    double bins_w[LULL_MODEL_JOB_BINS];
    const char *why_null; /* why watts are unknown; NULL: they are known */
};

/* Prints a table. */
void lull_model_job_print(const struct lull_model_job *jobs, size_t count, double confidence_ratio);

/* Prints the document. -1: standard output cannot be written. */
int lull_model_job_print_json(const struct lull_model_job *jobs, size_t count,
                              double confidence_ratio, double meter_s);

#endif
