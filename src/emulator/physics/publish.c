/*
 * Values of the emulated GPU that clients can read from the driver: energy, power and clock, each
 * with a refresh period of its own. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics/internal.h"

static void init_meter(struct lull_physics_meter *meter, int64_t now_ns, double window_ms,
                       double period_ms, double power_w)
{
    meter->period_ns = lull_ns_from_ms(period_ms);
    meter->window_ns = lull_ns_from_ms(window_ms);
    meter->next_ns = now_ns + meter->period_ns;
    meter->sample_ns = meter->window_ns < meter->period_ns ? meter->next_ns - meter->window_ns
                                                           : LULL_PHYSICS_NEVER;
    meter->initial_w = power_w;
    meter->published_w = power_w;
}

void lull_physics_init_publishing(struct lull_physics *gpu)
{
    const struct lull_gpu_model *model = &gpu->model;
    /* A100s average over 25 ms of every 100 ms (published, arXiv 2312.02741). */
    const double short_ms = fmin(model->power_window_ms, 25.0);

    init_meter(&gpu->usage, gpu->now_ns, model->power_window_ms, model->power_refresh_ms,
               gpu->power_w);
    init_meter(&gpu->instant, gpu->now_ns, short_ms, model->power_refresh_ms, gpu->power_w);
    gpu->energy_ns = gpu->now_ns + lull_ns_from_ms(model->energy_period_ms);
    gpu->published_mj = gpu->energy_base_mj;
    gpu->clock_ns = gpu->now_ns + lull_ns_from_ms(model->clock_refresh_ms);
    gpu->published_mhz = gpu->mhz;
}

/* The energy at the start of a window of that many periods. Before the first refresh the power is
 * taken to have been the initial one. */
static double window_start_j(const struct lull_physics_meter *meter, uint32_t periods)
{
    const uint32_t done = meter->refreshes;

    if (periods <= done)
        return meter->history_j[(done - periods) % LULL_PHYSICS_HISTORY];
    return -(double)(periods - 1 - done) * meter->initial_w * ((double)meter->period_ns * 1e-9);
}

/* Publishes a new mean. A window is a multiple of the period, or shorter than it. */
static void publish_refresh(struct lull_physics_meter *meter, double energy_j)
{
    const uint32_t periods = (uint32_t)(meter->window_ns / meter->period_ns);
    const double from_j = periods == 0 ? meter->start_j : window_start_j(meter, periods);

    meter->history_j[meter->refreshes % LULL_PHYSICS_HISTORY] = energy_j;
    meter->published_w = (energy_j - from_j) / ((double)meter->window_ns * 1e-9);
    meter->refreshes++;
    meter->next_ns += meter->period_ns;
    if (periods == 0)
        meter->sample_ns = meter->next_ns - meter->window_ns;
}

static void publish_power(struct lull_physics_meter *meter, int64_t now_ns, double energy_j)
{
    if (meter->sample_ns <= now_ns) {
        meter->start_j = energy_j;
        meter->sample_ns = LULL_PHYSICS_NEVER;
    }
    if (meter->next_ns <= now_ns)
        publish_refresh(meter, energy_j);
}

static void keep_power(struct lull_physics *gpu, uint32_t refreshes)
{
    if (gpu->instant.refreshes != refreshes)
        gpu->samples.power_mw[refreshes % LULL_PHYSICS_SAMPLES] =
            lull_physics_published_mw(gpu, &gpu->instant);
}

void lull_physics_publish(struct lull_physics *gpu)
{
    const uint32_t refreshes = gpu->instant.refreshes;

    publish_power(&gpu->usage, gpu->folded_ns, gpu->energy_j);
    publish_power(&gpu->instant, gpu->folded_ns, gpu->energy_j);
    keep_power(gpu, refreshes);
    if (gpu->energy_ns <= gpu->folded_ns) {
        gpu->published_mj = gpu->energy_base_mj + (int64_t)(gpu->energy_j * gpu->gain_ratio * 1e3);
        gpu->energy_ns += lull_ns_from_ms(gpu->model.energy_period_ms);
    }
    if (gpu->clock_ns <= gpu->folded_ns) {
        gpu->published_mhz = gpu->mhz;
        gpu->clock_ns += lull_ns_from_ms(gpu->model.clock_refresh_ms);
    }
}

uint32_t lull_physics_published_mhz(const struct lull_physics *gpu)
{
    /* Under a power cap the clock lies between two steps, but a reading is always one of the grid.
     */
    const uint32_t step = lull_gpu_model_nearest_step(&gpu->model, gpu->published_mhz);

    return (uint32_t)floor(lull_gpu_model_step_mhz(&gpu->model, step));
}

uint32_t lull_physics_memory_mhz(const struct lull_physics *gpu)
{
    return gpu->model
        .memory_clocks_mhz[gpu->context_count > 0 ? 0 : gpu->model.memory_clock_count - 1];
}

uint64_t lull_physics_published_mj(const struct lull_physics *gpu)
{
    return (uint64_t)gpu->published_mj;
}

uint32_t lull_physics_published_mw(const struct lull_physics *gpu,
                                   const struct lull_physics_meter *meter)
{
    double noise = 0;

    if (gpu->seed != 0) {
        const uint64_t bits = lull_noise_mix(gpu->seed ^ (uint64_t)meter->next_ns);

        /* The white noise of a reading is 0.4 %, as in traces of an H200. */
        noise = 0.004 * lull_noise_normal_of(bits);
    }
    return (uint32_t)(meter->published_w * gpu->gain_ratio * (1.0 + noise) * 1e3);
}
