/*
 * What could be saved on a recorded rank, with the GPU's power taken from the emulator's models.
 *
 * Assumed: power settles at once; compute kernels draw what the model's profile "training" draws;
 * communication and idle time last as long at the low clock, which is the lowest one that still
 * fills the link; switches themselves cost no energy. Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLI_PREDICTION_H
#define LULL_CLI_PREDICTION_H

#include <stdbool.h>

#include "core/section/switchable.h"
#include "emulator/gpu_model.h"
#include "trace/analysis.h"

enum lull_switching {
    LULL_SWITCHING_ALONE,
    LULL_SWITCHING_MERGED,
    LULL_SWITCHING_FEED_FORWARD,
    LULL_SWITCHING_IDEAL,
    LULL_SWITCHING_COUNT,
};

#define LULL_PREDICTION_TOLERANCE_RATIO 0.01 /* slowdown that merging may cost */

/* How one rank's GPU is switched; negative latencies: those of its model. */
struct lull_prediction_setup {
    const struct lull_gpu_model *model; /* NULL: the one whose name the trace has */
    double down_ms;
    double up_ms;
};

struct lull_prediction {
    const struct lull_gpu_model *model;
    bool is_model_assumed; /* the trace names no GPU, or none that is known */
    double down_ms;
    double up_ms;
    double high_mhz;
    double low_mhz;
    double link_gbs; /* assumed of its communication */
    struct lull_power_levels levels;
    double energy_j; /* with the highest clock all the time */
    struct lull_switchable switchable[LULL_SWITCHING_COUNT];
    double saving_j[LULL_SWITCHING_COUNT];
};

/* Wants the analysis with its gaps. -ENOMEM. */
int lull_predict(const struct lull_prediction_setup *setup, const struct lull_trace *trace,
                 const struct lull_analysis *analysis, struct lull_prediction *prediction_out,
                 struct lull_error *err);

#endif
