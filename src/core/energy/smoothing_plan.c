/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/smoothing_plan.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

#include "core/energy/swing.h"

/* A longer stretch below the floor is a pause, which the floor does not cover. Default: half the
 * period of the slowest swing of the band. */
static const double longest_low_s = 0.5 / LULL_SWING_LOWEST_HZ;
/* A reading may come one step before or after an edge of the power. */
static const double margin_steps = 2.0;
/* Rise from nothing to the highest power limit. Default, far below the length of any phase. */
static const double ramp_up_s = 0.01;
/* Fall of the floor to nothing. Default: trades energy in pauses for a slope that a grid can
 * follow. */
static const double ramp_down_s = 1.0;

/* Raises the power of one GPU to the floor, adds it to the sum, and returns the longest stretch
 * below the floor, in steps. The floor begins to act once the power has been above it. */
static uint32_t raise_power(const double *powers_w, uint32_t count, uint32_t longest_steps,
                            double floor_w, double *sum_w)
{
    bool was_above = false;
    uint32_t low = 0;
    uint32_t longest = 0;

    for (uint32_t i = 0; i < count; i++) {
        const bool is_below = powers_w[i] < floor_w;

        was_above = was_above || !is_below;
        low = is_below && was_above ? low + 1 : 0;
        if (low > longest && low <= longest_steps)
            longest = low;
        sum_w[i] += low > 0 && low <= longest_steps ? floor_w : powers_w[i];
    }
    return longest;
}

static double mean_of(const double *values, uint32_t count)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

static double band_of(const double *powers_w, const struct lull_smoothing_series *series)
{
    return lull_swing_band_w(powers_w, series->count, series->step_s, LULL_SWING_LOWEST_HZ,
                             LULL_SWING_HIGHEST_HZ);
}

/* Sums the power of all GPUs at a floor, W; 0: none. Returns the longest stretch below it, s. */
static double sum_powers(const struct lull_smoothing_series *series, double floor_w, double *sum_w)
{
    const uint32_t longest_steps = (uint32_t)(longest_low_s / series->step_s);
    uint32_t longest = 0;

    for (uint32_t i = 0; i < series->count; i++)
        sum_w[i] = 0.0;
    for (uint32_t gpu = 0; gpu < series->gpu_count; gpu++) {
        const uint32_t low = raise_power(series->powers_w + (size_t)gpu * series->count,
                                         series->count, longest_steps, floor_w, sum_w);

        if (low > longest)
            longest = low;
    }
    return longest * series->step_s;
}

void lull_smoothing_plan_predict(const struct lull_smoothing_series *series,
                                 const struct lull_smoothing_limits *limits, uint32_t floor_percent,
                                 struct lull_smoothing_plan *plan_out)
{
    const double floor_w = 0.01 * floor_percent * limits->limit_w;
    double sum_w[LULL_SMOOTHING_MAX_READINGS];
    double low_s;

    assert(series->count >= 2 && series->count <= LULL_SMOOTHING_MAX_READINGS);
    *plan_out = (struct lull_smoothing_plan){0};
    sum_powers(series, 0.0, sum_w);
    plan_out->mean_w = mean_of(sum_w, series->count);
    plan_out->before_w = band_of(sum_w, series);
    low_s = sum_powers(series, floor_w, sum_w);
    plan_out->after_w = band_of(sum_w, series);
    plan_out->added_ratio = mean_of(sum_w, series->count) / plan_out->mean_w - 1.0;
    plan_out->smoothing = (struct lull_smoothing){
        .floor_percent = floor_percent,
        .ramp_up_w = (uint32_t)ceil(limits->limit_w / ramp_up_s),
        .ramp_down_w = (uint32_t)ceil(floor_w / ramp_down_s),
        .hysteresis_ms = (uint32_t)ceil(1e3 * (low_s + margin_steps * series->step_s)),
    };
}

void lull_smoothing_plan_make(const struct lull_smoothing_series *series,
                              const struct lull_smoothing_limits *limits,
                              struct lull_smoothing_plan *plan_out)
{
    struct lull_smoothing_plan best;

    lull_smoothing_plan_predict(series, limits, 0, &best);
    best.smoothing = (struct lull_smoothing){0};
    best.result = LULL_SMOOTHING_SHORT;
    if (best.before_w <= limits->bound_ratio * best.mean_w) {
        best.result = LULL_SMOOTHING_NOT_NEEDED;
        *plan_out = best;
        return;
    }
    for (uint32_t percent = 1; percent <= limits->max_percent; percent++) {
        struct lull_smoothing_plan plan;

        lull_smoothing_plan_predict(series, limits, percent, &plan);
        if (plan.added_ratio > limits->max_added_ratio) {
            best.result = LULL_SMOOTHING_COSTLY;
            break;
        }
        if (plan.after_w >= best.after_w)
            continue;
        best = plan;
        best.result = LULL_SMOOTHING_SHORT;
        if (plan.after_w > limits->bound_ratio * plan.mean_w)
            continue;
        best.result = LULL_SMOOTHING_BOUNDED;
        break;
    }
    if (best.smoothing.floor_percent == 0)
        best.result = LULL_SMOOTHING_VOID;
    *plan_out = best;
}
