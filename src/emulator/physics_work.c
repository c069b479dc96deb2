/*
 * What the emulated GPU does and what that draws: kernels of several contexts in turns, transfers
 * beside them. SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "base/clock.h"
#include "emulator/noise.h"
#include "emulator/physics_internal.h"

static struct lull_physics_kernel *first_kernel(struct lull_physics_context *context)
{
    return &context->kernels[context->head];
}

static const struct lull_gpu_profile *running_profile(const struct lull_physics_context *context)
{
    return context->is_live && context->count > 0 ? &context->kernels[context->head].profile : NULL;
}

static uint32_t running_count(const struct lull_physics *gpu)
{
    uint32_t running = 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        running += running_profile(&gpu->contexts[i]) != NULL;
    return running;
}

/* SMs that transfers keep from the kernels, as a share of all. */
static double taken_ratio(const struct lull_physics *gpu)
{
    uint32_t channels = 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++)
        if (gpu->contexts[i].is_live && gpu->contexts[i].transfer.is_active)
            channels += gpu->contexts[i].transfer.channels;
    return fmin((double)channels / gpu->model.sm_count, 0.9);
}

bool lull_physics_is_busy(const struct lull_physics *gpu)
{
    return running_count(gpu) > 0 || taken_ratio(gpu) > 0;
}

/* ---- power ---- */

static double idle_w(const struct lull_physics *gpu, double mhz)
{
    const struct lull_gpu_curve *active = &gpu->model.active_idle_w;

    if (gpu->context_count > 0)
        return lull_gpu_curve_at(active, mhz);
    return gpu->model.idle_w + lull_gpu_curve_at(active, mhz) -
           lull_gpu_curve_at(active, gpu->model.sm_min_mhz);
}

double lull_physics_load_w(const struct lull_physics *gpu, double mhz)
{
    double kernels_w = 0;
    double transfers_w = 0;
    uint32_t running = 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        const struct lull_physics_context *context = &gpu->contexts[i];
        const struct lull_gpu_profile *profile = running_profile(context);

        if (profile != NULL) {
            kernels_w += lull_gpu_model_kernel_w(&gpu->model, profile, mhz);
            running++;
        }
        if (context->is_live && context->transfer.is_active)
            transfers_w += lull_gpu_model_transfer_w(&gpu->model, context->transfer.rate_gbs,
                                                     context->transfer.channels, mhz);
    }
    const double base_w = running > 0 ? kernels_w / running : idle_w(gpu, mhz);

    return (base_w + transfers_w) * gpu->unit_ratio * gpu->plateau_ratio;
}

double lull_physics_static_mhz(const struct lull_physics *gpu, double limit_w)
{
    double low = gpu->model.sm_min_mhz;
    double high = gpu->model.sm_max_mhz;

    if (lull_physics_load_w(gpu, high) <= limit_w)
        return high;
    for (int i = 0; i < 40; i++) {
        const double middle = (low + high) / 2;

        if (lull_physics_load_w(gpu, middle) <= limit_w)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* ---- rates ---- */

/* The first whole nanosecond at which amount has been worked off. */
static int64_t end_after(const struct lull_physics *gpu, double amount, double per_second)
{
    const double ns = ceil(amount / per_second * 1e9);

    if (!(ns < 9e17)) /* about 28 years: it does not end */
        return LULL_PHYSICS_NEVER;
    return gpu->folded_ns + (ns > 0 ? (int64_t)ns : 0);
}

static void update_transfer(const struct lull_physics *gpu, struct lull_physics_transfer *transfer)
{
    transfer->rate_gbs = 0;
    transfer->end_ns = LULL_PHYSICS_NEVER;
    if (!transfer->is_active || transfer->bytes <= 0)
        return;
    transfer->rate_gbs =
        lull_gpu_model_transfer_gbs(&gpu->model, transfer->link_gbs, transfer->channels, gpu->mhz);
    transfer->end_ns = end_after(gpu, transfer->bytes, transfer->rate_gbs * 1e9);
}

void lull_physics_update_work(struct lull_physics *gpu)
{
    const bool is_capped = (gpu->reasons & LULL_REASON_POWER_CAP) != 0;
    const double efficiency = is_capped ? gpu->model.cap_efficiency_ratio : 1.0;
    const uint32_t running = running_count(gpu);
    const double share = running > 0 ? (1.0 - taken_ratio(gpu)) * efficiency / running : 0;

    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        struct lull_physics_context *context = &gpu->contexts[i];
        const struct lull_gpu_profile *profile = running_profile(context);

        if (!context->is_live)
            continue;
        context->end_ns = LULL_PHYSICS_NEVER;
        if (profile != NULL) {
            context->speed =
                share * lull_gpu_model_speed(&gpu->model, profile->memory_ratio, gpu->mhz);
            context->end_ns = end_after(gpu, first_kernel(context)->work_s, context->speed);
        }
        update_transfer(gpu, &context->transfer);
    }
}

/* ---- beginning and ending ---- */

static void start_first(struct lull_physics *gpu, struct lull_physics_context *context)
{
    if (context->count == 0)
        return;
    gpu->kernels_started++;
    if (gpu->mhz < lull_physics_allowed_mhz(gpu))
        gpu->kernels_started_low++;
    if (gpu->seed != 0) {
        const double spread = 0.001; /* measured repeatability at a locked clock */
        const uint64_t bits = lull_noise_mix(gpu->seed ^ gpu->kernels_started);
        const double normal =
            lull_noise_normal(lull_noise_unit(bits), lull_noise_unit(lull_noise_mix(bits)));

        first_kernel(context)->work_s *= 1.0 + spread * fmin(fmax(normal, -3.0), 3.0);
    }
}

void lull_physics_finish_work(struct lull_physics *gpu)
{
    for (uint32_t i = 0; i < LULL_PHYSICS_CONTEXTS; i++) {
        struct lull_physics_context *context = &gpu->contexts[i];

        if (!context->is_live)
            continue;
        if (context->transfer.end_ns <= gpu->folded_ns)
            context->transfer.bytes = 0;
        if (context->count > 0 && context->end_ns <= gpu->folded_ns) {
            context->head = (context->head + 1) % LULL_PHYSICS_KERNELS;
            context->count--;
            start_first(gpu, context);
        }
    }
}

bool lull_physics_launch(struct lull_physics *gpu, int index, double duration_s,
                         const struct lull_gpu_profile *profile)
{
    struct lull_physics_context *context = &gpu->contexts[index];
    const uint32_t slot = (context->head + context->count) % LULL_PHYSICS_KERNELS;

    if (context->is_live && context->count == LULL_PHYSICS_KERNELS)
        return false;
    if (!context->is_live) /* closed under the caller: its process was taken for dead */
        return true;
    lull_physics_fold(gpu, gpu->now_ns);
    context->kernels[slot] = (struct lull_physics_kernel){duration_s, *profile};
    context->count++;
    if (context->count == 1)
        start_first(gpu, context);
    lull_physics_update(gpu);
    return true;
}

void lull_physics_transfer_begin(struct lull_physics *gpu, int index, double bytes, double link_gbs,
                                 uint32_t channels)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->contexts[index].transfer = (struct lull_physics_transfer){
        .is_active = true,
        .total_bytes = bytes,
        .bytes = bytes,
        .link_gbs = link_gbs,
        .channels = channels,
    };
    lull_physics_update(gpu);
}

void lull_physics_transfer_end(struct lull_physics *gpu, int index)
{
    lull_physics_fold(gpu, gpu->now_ns);
    gpu->contexts[index].transfer.is_active = false;
    lull_physics_update(gpu);
}

/* ---- estimates for those who wait ---- */

int64_t lull_physics_queue_end_ns(const struct lull_physics *gpu, int index)
{
    const struct lull_physics_context *context = &gpu->contexts[index];
    const struct lull_gpu_profile *profile = running_profile(context);
    int64_t end_ns = context->end_ns;
    double share;

    if (profile == NULL)
        return gpu->now_ns;
    share = context->speed / lull_gpu_model_speed(&gpu->model, profile->memory_ratio, gpu->mhz);
    for (uint32_t i = 1; i < context->count; i++) {
        const struct lull_physics_kernel *kernel =
            &context->kernels[(context->head + i) % LULL_PHYSICS_KERNELS];
        const double speed =
            share * lull_gpu_model_speed(&gpu->model, kernel->profile.memory_ratio, gpu->mhz);

        end_ns += (int64_t)ceil(kernel->work_s / speed * 1e9);
    }
    return end_ns;
}

int64_t lull_physics_queue_room_ns(const struct lull_physics *gpu, int index)
{
    const struct lull_physics_context *context = &gpu->contexts[index];

    return context->is_live && context->count == LULL_PHYSICS_KERNELS ? context->end_ns
                                                                      : gpu->now_ns;
}

int64_t lull_physics_transfer_share_ns(const struct lull_physics *gpu, int index, double share)
{
    const struct lull_physics_transfer *transfer = &gpu->contexts[index].transfer;
    const double left = transfer->bytes - (1.0 - share) * transfer->total_bytes;

    if (!gpu->contexts[index].is_live || !transfer->is_active || left <= 0)
        return gpu->now_ns;
    const int64_t end_ns = end_after(gpu, left, transfer->rate_gbs * 1e9);

    /* The state is of folded_ns; part of what is left may have been moved since. */
    return end_ns > gpu->now_ns ? end_ns : gpu->now_ns;
}

/* ---- latencies ---- */

static double draw_lognormal(double median, double sigma, uint64_t *random)
{
    const double u = lull_noise_next(random);
    const double w = lull_noise_next(random);

    return median * exp(sigma * lull_noise_normal(u, w));
}

double lull_physics_draw_api_ms(const struct lull_gpu_model *model, uint64_t *random)
{
    const double ms = draw_lognormal(model->api_ms, model->api_sigma, random);

    return fmin(fmax(ms, model->api_min_ms), model->api_max_ms);
}

bool lull_physics_is_slow_step(const struct lull_gpu_model *model, uint64_t unit_seed,
                               uint32_t step)
{
    const uint64_t bits = lull_noise_mix(lull_noise_mix(unit_seed ^ 0x736c6f77u) ^ step);

    return unit_seed != 0 && lull_noise_unit(bits) < model->slow_ratio;
}

double lull_physics_draw_settle_ms(const struct lull_gpu_model *model, bool is_slow,
                                   uint64_t *random)
{
    const double normal_99 = 2.3263;
    const double sigma = log(model->settle_p99_ms / model->settle_ms) / normal_99;
    const double usual_ms = draw_lognormal(model->settle_ms, sigma, random);

    if (is_slow)
        return model->slow_min_ms +
               (model->slow_max_ms - model->slow_min_ms) * lull_noise_next(random);
    return fmin(usual_ms, model->settle_max_ms);
}
