/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/analyze/prediction.h"

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

static const struct lull_gpu_model *model_named(const char *name)
{
    return lull_gpu_model_find(name, (uint32_t)strlen(name));
}

/* Finds the model with the longest name in the product's: "NVIDIA A100-SXM4-80GB" contains A100 as
 * well as A100-SXM4-80GB. A product whose longest name has no model borrows one. */
static const struct lull_gpu_model *find_model(const char *product, const char **borrower_out)
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
    for (uint32_t i = 0; i < lull_gpu_borrowing_count; i++) {
        const size_t length = match(product, lull_gpu_borrowings[i].product);

        if (length > longest) {
            longest = length;
            found = model_named(lull_gpu_borrowings[i].model);
            *borrower_out = lull_gpu_borrowings[i].product;
        }
    }
    return found;
}

void lull_predict_model(const struct lull_prediction_setup *setup, const char *product,
                        struct lull_prediction *prediction)
{
    prediction->borrower = NULL;
    prediction->model =
        setup->model != NULL ? setup->model : find_model(product, &prediction->borrower);
    prediction->is_model_assumed = prediction->model == NULL;
    if (prediction->is_model_assumed)
        prediction->model = model_named(default_model);

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

/* ---- steady clocks ---- */

/* The time of a rank whose computation, and what communicates beside it, runs at another speed. */
static struct lull_exposure slower_exposure(const struct lull_exposure *exposure, double speed)
{
    struct lull_exposure slower = *exposure;

    slower.compute_ns = (int64_t)((double)exposure->compute_ns / speed);
    slower.overlap_ns = (int64_t)((double)exposure->overlap_ns / speed);
    slower.communication_ns = exposure->exposed_ns + slower.overlap_ns;
    slower.span_ns = exposure->span_ns + slower.compute_ns - exposure->compute_ns;
    return slower;
}

/* Tries one steady clock, and keeps it where it is the best within the budget so far. */
static void try_steady(const struct lull_prediction *prediction,
                       const struct lull_exposure *exposure, double mhz,
                       struct lull_prediction_budget *budget)
{
    const struct lull_gpu_model *const model = prediction->model;
    const struct lull_gpu_profile *const profile = lull_gpu_model_profile(model, "training");
    const double speed = lull_gpu_model_speed(model, profile->memory_ratio, mhz);
    const struct lull_exposure slower = slower_exposure(exposure, speed);
    const struct lull_power_levels levels = {.high = power_at(prediction, mhz),
                                             .low = prediction->levels.low,
                                             .low_speed_ratio = prediction->levels.low_speed_ratio};
    const double slowdown = (double)slower.span_ns / (double)exposure->span_ns - 1.0;
    const double steady_j = prediction->energy_j - lull_exposure_energy_j(&slower, &levels);
    const double gaps_j =
        fmax(lull_savings_estimate_j(&prediction->switchable[LULL_SWITCHING_FEED_FORWARD], &levels),
             0.0);

    if (slowdown > budget->tolerance_ratio || steady_j + gaps_j <= budget->both_j)
        return;
    budget->slowdown_ratio = slowdown;
    budget->steady_mhz = mhz;
    budget->steady_j = steady_j;
    budget->both_j = steady_j + gaps_j;
}

static void find_frontier(double tolerance_ratio, const struct lull_exposure *exposure,
                          struct lull_prediction *prediction)
{
    for (int b = 0; b < LULL_PREDICTION_BUDGETS; b++) {
        struct lull_prediction_budget *const budget = &prediction->budgets[b];
        struct lull_prediction_budget cautious;

        budget->tolerance_ratio =
            b < LULL_PREDICTION_TOLERANCE ? lull_job_frontier_budgets[b] : tolerance_ratio;
        budget->steady_mhz = prediction->high_mhz;
        cautious = (struct lull_prediction_budget){.tolerance_ratio = LULL_PREDICTION_PROVEN_SHARE *
                                                                      budget->tolerance_ratio};
        for (uint32_t step = lull_gpu_model_step_count(prediction->model); step-- > 0;) {
            const double mhz = lull_gpu_model_step_mhz(prediction->model, step);

            try_steady(prediction, exposure, mhz, budget);
            try_steady(prediction, exposure, mhz, &cautious);
        }
        budget->cautious_j = cautious.steady_j;
    }
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
    if (analysis->exposure.span_ns > 0)
        find_frontier(setup->tolerance_ratio, &analysis->exposure, &prediction);
    *prediction_out = prediction;
    return 0;
}
