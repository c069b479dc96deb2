/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/prediction.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"

static const char default_model[] = "A100-SXM4-40GB";
/* Jobs of more than one node with eight GPUs are assumed to have one 200 Gb/s adapter per GPU; this
 * is not measured. */
static const double network_gbs = 25.0;
enum { NODE_GPUS = 8, CHANNELS = 16 };

/* ---- the GPU ---- */

/* Returns the length of a model's name if it stands in a product's name as whole words, else 0. */
static size_t match(const char *product, const char *name)
{
    const size_t length = strlen(name);

    for (const char *at = product; (at = strcasestr(at, name)) != NULL; at++)
        if ((at == product || !isalnum((unsigned char)at[-1])) &&
            !isalnum((unsigned char)at[length]))
            return length;
    return 0;
}

/* Finds the model with the longest name in the product's: "NVIDIA A100-SXM4-80GB" contains A100 as
 * well as A100-SXM4-80GB. */
static const struct lull_gpu_model *find_model(const char *product)
{
    const struct lull_gpu_model *found = NULL;
    size_t longest = 0;

    for (uint32_t i = 0; i < lull_gpu_model_count; i++) {
        const struct lull_gpu_model *const model = &lull_gpu_models[i];
        size_t length = match(product, model->name);

        for (uint32_t a = 0; a < model->alias_count; a++)
            if (match(product, model->aliases[a]) > length)
                length = match(product, model->aliases[a]);
        if (length > longest) {
            longest = length;
            found = model;
        }
    }
    return found;
}

void lull_predict_model(const struct lull_prediction_setup *setup, const char *product,
                        struct lull_prediction *prediction)
{
    prediction->model = setup->model != NULL ? setup->model : find_model(product);
    prediction->is_model_assumed = prediction->model == NULL;
    if (prediction->is_model_assumed)
        prediction->model = lull_gpu_model_find(default_model, (uint32_t)strlen(default_model));

    const double usual_ms = prediction->model->api_ms + prediction->model->settle_ms;
    prediction->down_ms = setup->down_ms >= 0.0 ? setup->down_ms : usual_ms;
    prediction->up_ms = setup->up_ms >= 0.0 ? setup->up_ms : usual_ms;
}

/* ---- clocks and power ---- */

/* Returns the lowest clock at which the channels still fill the link. */
static double lowest_harmless_mhz(const struct lull_gpu_model *model, double link_gbs)
{
    const double full_gbs =
        lull_gpu_model_transfer_gbs(model, link_gbs, CHANNELS, model->sm_max_mhz);

    for (uint32_t step = 0; step < lull_gpu_model_step_count(model); step++) {
        const double mhz = lull_gpu_model_step_mhz(model, step);

        if (lull_gpu_model_transfer_gbs(model, link_gbs, CHANNELS, mhz) >= full_gbs)
            return mhz;
    }
    return model->sm_max_mhz;
}

static struct lull_power_level power_at(const struct lull_prediction *prediction, double mhz)
{
    const struct lull_gpu_model *const model = prediction->model;
    const struct lull_gpu_profile *const profile = lull_gpu_model_profile(model, "training");
    const double rate_gbs = lull_gpu_model_transfer_gbs(model, prediction->link_gbs, CHANNELS, mhz);

    return (struct lull_power_level){
        .compute_w = fmin(lull_gpu_model_kernel_w(model, profile, mhz), model->limit_default_w),
        .idle_w = lull_gpu_curve_at(&model->active_idle_w, mhz),
        .communication_w = lull_gpu_model_transfer_w(model, rate_gbs, CHANNELS, mhz),
    };
}

static void choose_levels(int64_t world_size, struct lull_prediction *prediction)
{
    const struct lull_gpu_model *const model = prediction->model;
    const struct lull_gpu_profile *const profile = lull_gpu_model_profile(model, "training");
    const bool is_one_node = world_size > 0 && world_size <= NODE_GPUS;

    prediction->link_gbs = is_one_node ? model->link_gbs : network_gbs;
    prediction->high_mhz = model->sm_max_mhz;
    prediction->low_mhz =
        world_size == 1 ? model->sm_min_mhz : lowest_harmless_mhz(model, prediction->link_gbs);
    prediction->levels.high = power_at(prediction, prediction->high_mhz);
    prediction->levels.low = power_at(prediction, prediction->low_mhz);
    prediction->levels.low_speed_ratio =
        lull_gpu_model_speed(model, profile->memory_ratio, prediction->low_mhz);
}

/* ---- switching ---- */

/* Returns how much computation may run at the low clock until the job is slower by the tolerance.
 */
static double allowed_slowed_ms(const struct lull_exposure *exposure, double speed_ratio)
{
    const double slowdown = 1.0 / speed_ratio - 1.0;
    const double span_ms = lull_ms_from_ns(exposure->span_ns);

    return slowdown > 0.0 ? LULL_PREDICTION_TOLERANCE_RATIO * span_ms / slowdown : span_ms;
}

int lull_predict(const struct lull_prediction_setup *setup, const struct lull_trace *trace,
                 const struct lull_analysis *analysis, struct lull_prediction *prediction_out,
                 struct lull_error *err)
{
    struct lull_prediction prediction = {0};
    struct lull_switchable *const switchable = prediction.switchable;
    const struct lull_gap *const gaps = analysis->gaps;
    const size_t count = analysis->gap_count;
    struct lull_switch_latency latency;
    int result;

    lull_predict_model(setup, trace->gpu, &prediction);
    /* The low clock depends on the link: it must not slow communication. */
    choose_levels(trace->world_size, &prediction);
    latency = (struct lull_switch_latency){lull_ns_from_ms(prediction.down_ms),
                                           lull_ns_from_ms(prediction.up_ms)};
    lull_switchable_alone(gaps, count, &latency, &switchable[LULL_SWITCHING_ALONE]);
    lull_switchable_feed_forward(gaps, count, &latency, &switchable[LULL_SWITCHING_FEED_FORWARD]);
    lull_switchable_ideal(gaps, count, &switchable[LULL_SWITCHING_IDEAL]);
    result = lull_switchable_merged(
        gaps, count, &latency,
        allowed_slowed_ms(&analysis->exposure, prediction.levels.low_speed_ratio),
        &switchable[LULL_SWITCHING_MERGED]);
    if (result < 0)
        return lull_error_set(err, result, "there is no memory for %zu gaps", count);
    prediction.energy_j = lull_exposure_energy_j(&analysis->exposure, &prediction.levels);
    for (int i = 0; i < LULL_SWITCHING_COUNT; i++)
        prediction.saving_j[i] = lull_savings_estimate_j(&switchable[i], &prediction.levels);
    *prediction_out = prediction;
    return 0;
}
