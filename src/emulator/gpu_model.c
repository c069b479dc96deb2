/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/gpu_model.h"

#include <math.h>
#include <string.h>
#include <strings.h>

static bool gpu_model_is_name(const char *known, const char *name, uint32_t length)
{
    return strlen(known) == length && strncasecmp(known, name, length) == 0;
}

const struct lull_gpu_model *lull_gpu_model_find(const char *name, uint32_t length)
{
    for (uint32_t i = 0; i < lull_gpu_model_count; i++) {
        const struct lull_gpu_model *model = &lull_gpu_models[i];

        if (gpu_model_is_name(model->name, name, length))
            return model;
        for (uint32_t a = 0; a < model->alias_count; a++)
            if (gpu_model_is_name(model->aliases[a], name, length))
                return model;
    }
    return NULL;
}

static const struct lull_gpu_profile *find_profile(const struct lull_gpu_model *model,
                                                   const char *name)
{
    for (uint32_t i = 0; i < model->profile_count; i++)
        if (strcmp(model->profiles[i].name, name) == 0)
            return &model->profiles[i];
    return NULL;
}

const struct lull_gpu_profile *lull_gpu_model_profile(const struct lull_gpu_model *model,
                                                      const char *name)
{
    const struct lull_gpu_profile *profile = name != NULL ? find_profile(model, name) : NULL;

    if (profile == NULL)
        profile = find_profile(model, "llm_fwd");
    if (profile != NULL)
        return profile;
    return &model->profiles[0];
}

double lull_gpu_curve_at(const struct lull_gpu_curve *curve, double mhz)
{
    uint32_t i = 0;

    if (mhz <= curve->points[0].mhz)
        return curve->points[0].value;
    while (i < curve->count && curve->points[i].mhz < mhz)
        i++;
    if (i == curve->count)
        return curve->points[i - 1].value;

    const double left = curve->points[i - 1].mhz;
    const double share = (mhz - left) / (curve->points[i].mhz - left);

    return curve->points[i - 1].value +
           share * (curve->points[i].value - curve->points[i - 1].value);
}

uint32_t lull_gpu_model_step_count(const struct lull_gpu_model *model)
{
    return (uint32_t)lround((model->sm_max_mhz - model->sm_min_mhz) / model->sm_step_mhz) + 1;
}

double lull_gpu_model_step_mhz(const struct lull_gpu_model *model, uint32_t step)
{
    return model->sm_min_mhz + step * model->sm_step_mhz;
}

uint32_t lull_gpu_model_nearest_step(const struct lull_gpu_model *model, double mhz)
{
    const double clamped = fmin(fmax(mhz, model->sm_min_mhz), model->sm_max_mhz);

    return (uint32_t)lround((clamped - model->sm_min_mhz) / model->sm_step_mhz);
}

double lull_gpu_model_video_mhz(const struct lull_gpu_model *model, double mhz)
{
    const double share = (mhz - model->sm_min_mhz) / (model->sm_max_mhz - model->sm_min_mhz);

    return model->video_min_mhz + share * (model->video_max_mhz - model->video_min_mhz);
}

double lull_gpu_model_speed(const struct lull_gpu_model *model, double memory_ratio, double mhz)
{
    return 1.0 / (memory_ratio / lull_gpu_curve_at(&model->bandwidth, mhz) +
                  (1.0 - memory_ratio) * model->sm_max_mhz / mhz);
}

/* The factor (f/fmax) v^2 of dynamic power, with the voltage v relative to its floor. */
static double dynamic_factor(const struct lull_gpu_model *model, double mhz)
{
    const double voltage = lull_gpu_curve_at(&model->voltage, mhz);

    return mhz / model->sm_max_mhz * voltage * voltage;
}

double lull_gpu_model_kernel_w(const struct lull_gpu_model *model,
                               const struct lull_gpu_profile *profile, double mhz)
{
    /* Below the bandwidth knee the SMs wait for data, so power follows the rate that is reached. */
    const double unlimited =
        profile->memory_ratio + (1.0 - profile->memory_ratio) * model->sm_max_mhz / mhz;
    const double reached = unlimited * lull_gpu_model_speed(model, profile->memory_ratio, mhz);
    const double busy_w =
        profile->base_w + profile->slope_w * dynamic_factor(model, mhz) * fmin(reached, 1.0);

    return fmax(busy_w, lull_gpu_curve_at(&model->active_idle_w, mhz));
}

double lull_gpu_model_transfer_gbs(const struct lull_gpu_model *model, double link_gbs,
                                   uint32_t channels, double mhz)
{
    /* A reduction reads its own byte, reads or receives the other one and writes the result. */
    enum { memory_accesses_per_byte = 3 };
    /* The rate that SMs can drive goes as f^0.72 to f^0.85: derived from measured collectives of an
     * A100 (Kareus). */
    const double channel_gbs = channels * model->channel_gbs * pow(mhz / model->sm_max_mhz, 0.8);
    const double memory_gbs =
        lull_gpu_curve_at(&model->bandwidth, mhz) * model->bandwidth_gbs / memory_accesses_per_byte;

    return fmin(link_gbs, fmin(channel_gbs, memory_gbs));
}

double lull_gpu_model_transfer_w(const struct lull_gpu_model *model, double rate_gbs,
                                 uint32_t channels, double mhz)
{
    const double poll_w = channels * model->poll_w * dynamic_factor(model, mhz) /
                          dynamic_factor(model, model->sm_max_mhz);

    return poll_w + model->link_w * fmin(rate_gbs / model->link_gbs, 1.0);
}

void lull_gpu_model_fix_latency(struct lull_gpu_model *model, double call_ms, double settle_ms)
{
    const double min_ms = 1e-6; /* above 0, because the model takes its logarithm */

    model->api_ms = model->api_min_ms = model->api_max_ms = fmax(call_ms, min_ms);
    model->api_sigma = 0;
    model->settle_ms = model->settle_p99_ms = model->settle_max_ms = fmax(settle_ms, min_ms);
    model->slow_ratio = 0;
}
