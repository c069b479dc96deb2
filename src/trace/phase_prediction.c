/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/phase_prediction.h"

#include <math.h>

#include "trace/prediction.h"

/* The kernel of a model that stands for a phase; NULL: none does. */
static const struct lull_device_kernel *phase_kernel(const struct lull_device_curve *model,
                                                     enum lull_trace_phase phase)
{
    return phase == LULL_TRACE_DECODE ? lull_device_curve_decode(model)
                                      : lull_device_curve_prefill(model);
}

static double tokens_of(const struct lull_phase *phase, enum lull_trace_phase kind)
{
    if (kind == LULL_TRACE_PREFILL)
        return phase->prompt_tokens;
    if (kind == LULL_TRACE_DECODE)
        return phase->output_tokens;
    return phase->prompt_tokens + phase->output_tokens;
}

/* The phase at a clock. */
static struct lull_phase_point point_at(const struct lull_prediction *prediction,
                                        const struct lull_phase *phase, double tokens,
                                        const struct lull_prediction_clock *clock)
{
    const struct lull_exposure slower = lull_predict_slower(&phase->exposure, clock->speed_ratio);
    const struct lull_power_levels levels = {.high = lull_predict_level(prediction, clock),
                                             .low_speed_ratio = 1.0};
    const double energy_j = lull_exposure_energy_j(&slower, &levels);

    return (struct lull_phase_point){
        .mhz = clock->mhz,
        .slowdown_ratio = (double)slower.span_ns / (double)phase->exposure.span_ns - 1.0,
        .energy_j = energy_j,
        .power_w = energy_j / ((double)slower.span_ns * 1e-9),
        .j_per_token = tokens > 0.0 ? energy_j / tokens : (double)NAN,
    };
}

void lull_predict_phase(const struct lull_prediction *prediction, const struct lull_phase *phase,
                        enum lull_trace_phase kind, double tolerance_ratio,
                        struct lull_phase_prediction *predicted_out)
{
    const struct lull_device_kernel *const kernel = phase_kernel(prediction->model, kind);
    const double tokens = tokens_of(phase, kind);
    struct lull_phase_prediction predicted = {.is_known =
                                                  kernel != NULL && phase->exposure.span_ns > 0};
    struct lull_prediction_clocks clocks;

    *predicted_out = predicted;
    if (!predicted.is_known)
        return;
    lull_predict_kernel_clocks(prediction->model, kernel,
                               lull_predict_compute_limit_w(prediction, &phase->exposure), &clocks);
    for (uint32_t i = 0; i < clocks.count; i++) {
        const struct lull_phase_point point =
            point_at(prediction, phase, tokens, &clocks.clocks[i]);

        if (i == 0)
            predicted.full = predicted.best = predicted.tolerated = point;
        if (point.energy_j < predicted.best.energy_j)
            predicted.best = point;
        if (point.slowdown_ratio <= tolerance_ratio &&
            point.energy_j < predicted.tolerated.energy_j)
            predicted.tolerated = point;
    }
    *predicted_out = predicted;
}
