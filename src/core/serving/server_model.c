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
static const double time_price[] = {0.001, 0.0005, 0.0, 0.0005, 0.0, 0.0005, 0.0};
/* The same of an unknown product's power that does not follow the clock. Default: at one clock
 * power seems to follow it, so that a lower one is tried. Of a known product the kernels of its
 * curves decide instead. */
static const double base_price = 0.02;
/* Windows of one range of clocks that count. Default: at two windows a second, two minutes. Fewer
 * follow the load's mix of contexts faster, and scatter more. */
static const double time_memory = 240.0;
/* The same of power. Default: fewer, so that the rare windows at high clocks keep their weight. */
static const double power_memory = 30.0;
/* A window whose time differs from the prediction by more than this ratio counts less. Default: a
 * pause of the server must not look like slow steps. */
static const double outlier_ratio = 0.3;
/* Windows that the assumed power is worth. Default: it only decides until the first readings of
 * energy at two clocks. */
static const double assumed_windows = 2.0;
/* Of the first measured power of an unknown product, this share does not follow the clock. Default:
 * most accelerators have less, so lower clocks are tried. */
static const double unknown_base = 0.5;
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

struct lull_server_times lull_server_model_times(const struct lull_server_model *model,
                                                 const struct lull_server_clock *clock)
{
    const double *const value = model->time.value;

    return (struct lull_server_times){
        .step_s = value[HOST] + value[STEPS_MEMORY] * clock->memory +
                  value[STEPS_COMPUTE] * clock->compute,
        .sequence_s = value[OUTPUT_MEMORY] * clock->memory + value[OUTPUT_COMPUTE] * clock->compute,
        .prompt_s = value[PROMPT_MEMORY] * clock->memory + value[PROMPT_COMPUTE] * clock->compute,
    };
}

/* The dynamic power at a clock, relative to its coefficient, of work with these times at the
 * highest clock: cores wait for the host and for memory. */
static double server_model_dynamic(const struct lull_server_clock *clock, double host_s,
                                   double memory_s, double compute_s)
{
    const double working_s = memory_s + compute_s * clock->compute;
    const double taken_s = host_s + memory_s * clock->memory + compute_s * clock->compute;

    return taken_s > 0.0 ? clock->dynamic * fmin(working_s / taken_s, 1.0) : clock->dynamic;
}

double lull_server_model_decoding(const struct lull_server_model *model,
                                  const struct lull_server_clock *clock, double running)
{
    const double *const value = model->time.value;

    return server_model_dynamic(clock, value[HOST],
                                value[STEPS_MEMORY] + value[OUTPUT_MEMORY] * running,
                                value[STEPS_COMPUTE] + value[OUTPUT_COMPUTE] * running);
}

double lull_server_model_prefilling(const struct lull_server_model *model,
                                    const struct lull_server_clock *clock)
{
    const double *const value = model->time.value;

    return server_model_dynamic(clock, 0.0, value[PROMPT_MEMORY], value[PROMPT_COMPUTE]);
}

/* The power of one GPU; it settles below its limit. An unknown product is assumed to draw its base
 * while it waits: less would make short bursts at the highest clock look cheap. */
static double server_model_watts(const struct lull_server_model *model,
                                 const struct lull_server_clock *clock, double busy, double prefill,
                                 double running)
{
    const double *const value = model->power.value;
    const double decode_w = value[1] * lull_server_model_decoding(model, clock, running);
    const double prefill_w =
        fmin(value[2] * lull_server_model_prefilling(model, clock), model->limit_w - value[0]);

    const double waiting_w = model->is_known ? clock->waiting_w : value[0];

    return busy * value[0] + (1.0 - busy) * waiting_w + (busy - prefill) * decode_w +
           prefill * prefill_w;
}

/* Begins with an assumed base and slope of power, from the highest clock's dynamic power to the
 * lowest one's. */
static void server_model_assume(struct lull_server_model *model, double base_w, double slope_w,
                                double highest, double lowest)
{
    const double rows[][3] = {{1.0, highest, 0.0}, {1.0, 0.0, highest}, {1.0, lowest, 0.0}};
    const double price[] = {model->is_known ? 0.0 : base_price, 0.0, 0.0};

    lull_clock_fit_init(&model->power, 3, price, power_memory);
    for (int i = 0; i < 3; i++)
        lull_clock_fit_add(&model->power, 1.0, rows[i],
                           base_w + slope_w * (rows[i][1] + rows[i][2]), assumed_windows / 3.0);
    for (int i = 0; i < 8; i++)
        lull_clock_fit_solve(&model->power);
}

void lull_server_model_init(struct lull_server_model *model, const struct lull_device_curve *curve,
                            double highest_mhz, double lowest_mhz)
{
    const struct lull_device_kernel *kernel;

    *model = (struct lull_server_model){.is_known = curve != NULL};
    lull_clock_fit_init(&model->time, 7, time_price, time_memory);
    if (curve == NULL) {
        server_model_assume(model, 1.0, 1.0, 1.0, lowest_mhz / highest_mhz);
        model->limit_w = INFINITY;
        return;
    }
    kernel = lull_device_curve_default(curve);
    model->has_power = true;
    model->limit_w = curve->limit_default_w * curve->limit_settle_ratio;
    server_model_assume(model, kernel->base_w, kernel->slope_w,
                        lull_device_clock_at(curve, highest_mhz).dynamic_ratio,
                        lull_device_clock_at(curve, lowest_mhz).dynamic_ratio);
}

static void server_model_add_power(struct lull_server_model *model,
                                   const struct lull_server_clock *clock,
                                   const struct lull_server_window *window)
{
    const struct lull_server_times times = lull_server_model_times(model, clock);
    const double watts = window->joules / window->seconds;
    const double running = window->output_tokens / fmax(window->steps, 1.0);
    const double prefilling = window->prompt_tokens * times.prompt_s / window->seconds;
    const double prefill = lull_server_window_is_prefill(window) ? 1.0 : fmin(prefilling, 1.0);
    const double features[] = {
        1.0,
        (1.0 - prefill) * lull_server_model_decoding(model, clock, running),
        prefill * lull_server_model_prefilling(model, clock),
    };

    if (!model->has_power)
        server_model_assume(model, unknown_base * watts, (1.0 - unknown_base) * watts, 1.0, 0.1);
    if (!model->is_known)
        model->limit_w = fmax(model->has_power ? model->limit_w : 0.0, watts);
    lull_clock_fit_add(&model->power, clock->compute, features, watts, 1.0);
    lull_clock_fit_solve(&model->power);
    model->has_power = true;
}

bool lull_server_window_is_prefill(const struct lull_server_window *window)
{
    return window->first_tokens > 0.0 && window->output_tokens <= window->first_tokens;
}

void lull_server_model_add(struct lull_server_model *model, const struct lull_server_clock *clock,
                           const struct lull_server_window *window)
{
    const double steps = lull_server_window_is_prefill(window) ? 0.0 : window->steps;
    const double features[] = {
        [HOST] = steps,
        [STEPS_MEMORY] = steps * clock->memory,
        [STEPS_COMPUTE] = steps * clock->compute,
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

/* Of a server that decodes nothing: its output tokens are first tokens. */
static struct lull_server_outlook
server_model_predict_prefill(const struct lull_server_model *model,
                             const struct lull_server_clock *clock,
                             const struct lull_server_demand *demand)
{
    const struct lull_server_times times = lull_server_model_times(model, clock);
    const double request_s = times.sequence_s + demand->prompt_tokens * times.prompt_s;
    const double busy =
        demand->output_rate * times.sequence_s + demand->prompt_rate * times.prompt_s;

    return (struct lull_server_outlook){
        .first_token_s = request_s,
        .prefill_s = demand->prompt_tokens > 0.0 ? request_s / demand->prompt_tokens : 0.0,
        .busy_ratio = busy,
        .watts = server_model_watts(model, clock, busy, busy, 0.0),
    };
}

/* Of a server of which only steps are known. One that is full of prompts follows the clock, the
 * worst case. */
static struct lull_server_outlook
server_model_predict_steps(const struct lull_server_model *model,
                           const struct lull_server_clock *clock,
                           const struct lull_server_demand *demand)
{
    const double *const value = model->time.value;
    const double step_s = lull_server_model_times(model, clock).step_s;
    const double highest_s = value[HOST] + value[STEPS_MEMORY] + value[STEPS_COMPUTE];

    return (struct lull_server_outlook){
        .decode_s = step_s,
        .step_s = step_s,
        .first_token_s = highest_s * clock->compute,
        .busy_ratio = demand->prompt_ratio * clock->compute,
        .watts = server_model_watts(model, clock, fmin(demand->running, 1.0), 0.0, 0.0),
    };
}

struct lull_server_outlook lull_server_model_predict(const struct lull_server_model *model,
                                                     const struct lull_server_clock *clock,
                                                     const struct lull_server_demand *demand)
{
    const struct lull_server_times times = lull_server_model_times(model, clock);
    const double prefill = demand->prompt_rate * times.prompt_s;
    const double decode = demand->output_rate * times.sequence_s;
    const double settled_s = times.step_s / fmax(1.0 - prefill - decode, least_room);
    const double settled = demand->output_rate * settled_s;
    const double running = fmax(demand->running, settled);
    const double room = fmax(1.0 - prefill, least_room);
    const double decode_s = times.step_s + times.sequence_s * running;
    const double busy = fmin(prefill + room * (1.0 - exp(-settled)), 1.0);

    if (demand->is_prefill)
        return server_model_predict_prefill(model, clock, demand);
    if (demand->is_of_steps)
        return server_model_predict_steps(model, clock, demand);
    return (struct lull_server_outlook){
        .decode_s = decode_s,
        .step_s = decode_s / room,
        .first_token_s = decode_s + demand->prompt_tokens * times.prompt_s,
        .prefill_s = times.prompt_s,
        .busy_ratio = prefill + decode,
        .watts = server_model_watts(model, clock, busy, fmin(prefill, busy), running),
    };
}
