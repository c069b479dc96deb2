/*
 * Predicts the energy of an inference server's phases at each clock, as prediction.h does for whole
 * ranks: prefill and mixed steps compute, decode reads memory. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PHASE_PREDICTION_H
#define LULL_TRACE_PHASE_PREDICTION_H

#include "trace/phases.h"
#include "trace/prediction.h"

struct lull_phase_point {
    double mhz;
    double slowdown_ratio; /* of the phase */
    double energy_j;
    double power_w;     /* mean */
    double j_per_token; /* prompt tokens of prefill, output tokens of decode, both of mixed steps;
                           NAN: their number is not known */
};

struct lull_phase_prediction {
    bool is_known;                     /* the model has a kernel that stands for the phase */
    struct lull_phase_point full;      /* at the highest clock */
    struct lull_phase_point best;      /* of least energy */
    struct lull_phase_point tolerated; /* of least energy within the tolerance */
};

/* prediction: of the rank, whose model and link count. */
void lull_predict_phase(const struct lull_prediction *prediction, const struct lull_phase *phase,
                        enum lull_trace_phase kind, double tolerance_ratio,
                        struct lull_phase_prediction *predicted_out);

#endif
