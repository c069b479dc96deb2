/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/server_model.h"

#include <math.h>

/* Features of the time of a window: its steps, output tokens and prompt tokens, each multiplied by
 * the time of memory accesses and of computation at the window's clock. */
enum {
    HOST,
    STEPS_MEMORY,
    STEPS_COMPUTE,
    OUTPUT_MEMORY,
    OUTPUT_COMPUTE,
    PROMPT_MEMORY,
    PROMPT_COMPUTE,
};

/* Price of explaining time by what does not follow the SM clock, relative to the time explained.
 * Default: a wrong compute-bound explanation is given up when it errs by about a tenth at half of
 * the windows. A higher price is more cautious and learns later. */
static const double time_price[] = {0.004, 0.002, 0.0, 0.002, 0.0, 0.002, 0.0};
static const double power_price[] = {0.0, 0.0, 0.0};
/* Windows of one range of clocks that count. Default: at two windows a second, two minutes. Fewer
 * follow the load's mix of contexts faster, and scatter more. */
static const double time_memory = 240.0;
/* A window whose time differs from the prediction by more than this ratio counts less. Default: a
 * pause of the server must not look like slow steps. */
static const double outlier_ratio = 0.3;
/* Windows that the assumed power is worth. Default: it only decides until the first readings of
 * energy at two clocks. */
static const double assumed_windows = 2.0;
/* The least share of time that is left for steps. */
static const double least_room = 0.1;

struct lull_server_clock lull_server_clock_at(const struct lull_device_curve *curve,
                                              double highest_mhz, double mhz)
{
    struct lull_server_clock clock = {.mhz = mhz, .compute = fmax(highest_mhz / mhz, 1.0)};

    if (curve == NULL) {
        clock.memory = clock.compute;
        clock.dynamic = 1.0 / clock.compute;
        return clock;
    }

    const struct lull_device_clock highest = lull_device_clock_at(curve, highest_mhz);
    const struct lull_device_clock at = lull_device_clock_at(curve, mhz);

    clock.memory = fmax(highest.bandwidth_ratio / at.bandwidth_ratio, 1.0);
    clock.dynamic = at.dynamic_ratio;
    clock.waiting_w = at.waiting_w;
    return clock;
}

/* The times of one step, of one decoding sequence and of one prompt token at a clock. */
struct server_times {
    double step_s;
    double sequence_s;
    double prompt_s;
};

static struct server_times server_times_at(const struct lull_server_model *model,
                                           const struct lull_server_clock *clock)
{
    const double *const value = model->time.value;

    return (struct server_times){
        .step_s = value[HOST] + value[STEPS_MEMORY] * clock->memory +
                  value[STEPS_COMPUTE] * clock->compute,
        .sequence_s = value[OUTPUT_MEMORY] * clock->memory + value[OUTPUT_COMPUTE] * clock->compute,
        .prompt_s = value[PROMPT_MEMORY] * clock->memory + value[PROMPT_COMPUTE] * clock->compute,
    };
}

/* How busy cores are at a clock, relative to the highest one: they wait for memory (r in
 * core/energy/device_curve.h). */
static double server_model_reached(double memory_s, double compute_s,
                                   const struct lull_server_clock *clock)
{
    const double taken_s = memory_s * clock->memory + compute_s * clock->compute;

    return taken_s > 0.0 ? fmin((memory_s + compute_s * clock->compute) / taken_s, 1.0) : 1.0;
}

/* The dynamic power of decoding, or of prefill, at a clock, relative to its coefficient. */
static double server_model_dynamic(const struct lull_server_model *model,
                                   const struct lull_server_clock *clock, bool is_prefill,
                                   double running)
{
    const double *const value = model->time.value;

    if (is_prefill)
        return clock->dynamic *
               server_model_reached(value[PROMPT_MEMORY], value[PROMPT_COMPUTE], clock);
    return clock->dynamic *
           server_model_reached(value[STEPS_MEMORY] + value[OUTPUT_MEMORY] * running,
                                value[STEPS_COMPUTE] + value[OUTPUT_COMPUTE] * running, clock);
}

void lull_server_model_init(struct lull_server_model *model, const struct lull_device_curve *curve,
                            double highest_mhz, double lowest_mhz)
{
    const double nothing[] = {0.0, 0.0, 0.0};

    *model = (struct lull_server_model){.has_power = curve != NULL};
    lull_clock_fit_init(&model->time, 7, time_price, time_memory);
    lull_clock_fit_init(&model->power, 3, power_price, time_memory);
    if (curve == NULL) {
        lull_clock_fit_add(&model->power, 1.0, nothing, 0.0, 1.0);
        return;
    }

    const struct lull_device_kernel *const kernel = lull_device_curve_default(curve);
    const double highest = lull_device_clock_at(curve, highest_mhz).dynamic_ratio;
    const double lowest = lull_device_clock_at(curve, lowest_mhz).dynamic_ratio;
    const double rows[][3] = {{1.0, highest, 0.0}, {1.0, 0.0, highest}, {1.0, lowest, 0.0}};

    model->idle_w = lull_device_clock_at(curve, lowest_mhz).waiting_w;
    for (int i = 0; i < 3; i++)
        lull_clock_fit_add(&model->power, 1.0, rows[i],
                           kernel->base_w + kernel->slope_w * (rows[i][1] + rows[i][2]),
                           assumed_windows / 3.0);
    for (int i = 0; i < 8; i++)
        lull_clock_fit_solve(&model->power);
}

static void server_model_add_power(struct lull_server_model *model,
                                   const struct lull_server_clock *clock,
                                   const struct lull_server_window *window)
{
    const struct server_times times = server_times_at(model, clock);
    const double running = window->output_tokens / fmax(window->steps, 1.0);
    const double prefill = fmin(window->prompt_tokens * times.prompt_s / window->seconds, 1.0);
    const double features[] = {
        1.0,
        (1.0 - prefill) * server_model_dynamic(model, clock, false, running),
        prefill * server_model_dynamic(model, clock, true, running),
    };

    lull_clock_fit_add(&model->power, clock->compute, features, window->joules / window->seconds,
                       1.0);
    lull_clock_fit_solve(&model->power);
    model->has_power = true;
}

void lull_server_model_add(struct lull_server_model *model, const struct lull_server_clock *clock,
                           const struct lull_server_window *window)
{
    const double features[] = {
        [HOST] = window->steps,
        [STEPS_MEMORY] = window->steps * clock->memory,
        [STEPS_COMPUTE] = window->steps * clock->compute,
        [OUTPUT_MEMORY] = window->output_tokens * clock->memory,
        [OUTPUT_COMPUTE] = window->output_tokens * clock->compute,
        [PROMPT_MEMORY] = window->prompt_tokens * clock->memory,
        [PROMPT_COMPUTE] = window->prompt_tokens * clock->compute,
    };
    const double expected = lull_clock_fit_predict(&model->time, features);
    double weight = 1.0;

    if (expected > 0.0)
        weight = fmin(outlier_ratio * expected / fabs(window->seconds - expected), 1.0);
    lull_clock_fit_add(&model->time, clock->compute, features, window->seconds, fmax(weight, 0.05));
    lull_clock_fit_solve(&model->time);
    model->windows += 1.0;
    if (isfinite(window->joules))
        server_model_add_power(model, clock, window);
}

struct lull_server_outlook lull_server_model_predict(const struct lull_server_model *model,
                                                     const struct lull_server_clock *clock,
                                                     const struct lull_server_demand *demand)
{
    const struct server_times times = server_times_at(model, clock);
    const double prefill = demand->prompt_rate * times.prompt_s;
    const double decode = demand->output_rate * times.sequence_s;
    const double settled_s = times.step_s / fmax(1.0 - prefill - decode, least_room);
    const double settled = demand->output_rate * settled_s;
    const double running = fmax(demand->running, settled);
    const double room = fmax(1.0 - prefill, least_room);
    const double decode_s = times.step_s + times.sequence_s * running;
    const double busy = fmin(prefill + room * (1.0 - exp(-settled)), 1.0);
    const double prefilling = fmin(prefill, busy);

    return (struct lull_server_outlook){
        .decode_s = decode_s,
        .step_s = decode_s / room,
        .first_token_s = decode_s + demand->prompt_tokens * times.prompt_s,
        .prefill_s = times.prompt_s,
        .busy_ratio = prefill + decode,
        .watts =
            model->power.value[0] + (1.0 - busy) * (clock->waiting_w - model->idle_w) +
            model->power.value[1] * (busy - prefilling) *
                server_model_dynamic(model, clock, false, running) +
            model->power.value[2] * prefilling * server_model_dynamic(model, clock, true, running),
    };
}
