/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/prediction.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "base/clock.h"
#include "core/section/duty.h"

static const char default_model[] = "A100-SXM4-40GB";
/* Jobs of more than one node with eight GPUs are assumed to have one 200 Gb/s adapter per GPU; this
 * is not measured. */
static const double network_gbs = 25.0;
enum { NODE_GPUS = 8, CHANNELS = 16 };

/* ---- the GPU ---- */

void lull_predict_model(const struct lull_prediction_setup *setup, const char *product,
                        struct lull_prediction *prediction)
{
    prediction->borrower = NULL;
    prediction->model = setup->model;
    if (prediction->model == NULL)
        prediction->model = lull_device_curve_of_product(product, &prediction->borrower);
    prediction->is_model_assumed = prediction->model == NULL;
    if (prediction->is_model_assumed)
        prediction->model = lull_device_curve_find(default_model, sizeof(default_model) - 1);

    const double typical_ms = prediction->model->switch_ms;
    prediction->down_ms = setup->down_ms >= 0.0 ? setup->down_ms : typical_ms;
    prediction->up_ms = setup->up_ms >= 0.0 ? setup->up_ms : typical_ms;
}

/* ---- clocks and power ---- */

double lull_predict_limit_w(const struct lull_device_curve *model)
{
    return model->limit_default_w * model->limit_settle_ratio;
}

void lull_predict_kernel_clocks(const struct lull_device_curve *model,
                                const struct lull_device_kernel *kernel, double limit_w,
                                struct lull_prediction_clocks *clocks_out)
{
    struct lull_device_clock clocks[LULL_DEVICE_CURVE_CLOCKS];

    clocks_out->count = lull_device_clocks(model, clocks);
    assert(clocks_out->count > 0);
    for (uint32_t i = 0; i < clocks_out->count; i++) {
        const struct lull_device_run run =
            lull_device_kernel_run(clocks, clocks_out->count, kernel, limit_w, i);

        clocks_out->clocks[i] = (struct lull_prediction_clock){clocks[i].mhz, 1.0 / run.time_ratio,
                                                               run.watts, clocks[i].waiting_w};
    }
}

void lull_predict_clocks(const struct lull_device_curve *model, double limit_w,
                         struct lull_prediction_clocks *clocks_out)
{
    lull_predict_kernel_clocks(model, lull_device_curve_default(model), limit_w, clocks_out);
}

static double choose_link_gbs(const struct lull_device_curve *model, int64_t world_size)
{
    return world_size > 0 && world_size <= NODE_GPUS ? model->link_gbs : network_gbs;
}

/* Returns the lowest clock at which the channels still fill the link. */
static uint32_t lowest_harmless(const struct lull_device_curve *model,
                                const struct lull_prediction_clocks *clocks, double link_gbs)
{
    const double full_gbs =
        lull_device_transfer_gbs(model, link_gbs, CHANNELS, clocks->clocks[0].mhz);
    uint32_t lowest = clocks->count - 1;

    while (lowest > 0 && lull_device_transfer_gbs(model, link_gbs, CHANNELS,
                                                  clocks->clocks[lowest].mhz) < full_gbs)
        lowest--;
    return lowest;
}

struct lull_power_level lull_predict_level(const struct lull_prediction *prediction,
                                           const struct lull_prediction_clock *clock)
{
    const struct lull_device_curve *const model = prediction->model;
    const double rate_gbs =
        lull_device_transfer_gbs(model, prediction->link_gbs, CHANNELS, clock->mhz);

    return (struct lull_power_level){
        .compute_w = clock->compute_w,
        .idle_w = clock->waiting_w,
        .communication_w = lull_device_transfer_w(model, rate_gbs, CHANNELS, clock->mhz),
    };
}

/* The board's limiter goes by the mean over some 100 ms: short bursts of computation may be above
 * the limit. */
double lull_predict_compute_limit_w(const struct lull_prediction *prediction,
                                    const struct lull_exposure *exposure)
{
    const struct lull_device_curve *const model = prediction->model;
    const double high_mhz = model->sm_max_mhz;
    const double rate_gbs =
        lull_device_transfer_gbs(model, prediction->link_gbs, CHANNELS, high_mhz);
    const double gaps_ns = (double)(exposure->exposed_ns + exposure->idle_ns);
    const double other_nj = gaps_ns * lull_device_clock_at(model, high_mhz).waiting_w +
                            (double)exposure->communication_ns *
                                lull_device_transfer_w(model, rate_gbs, CHANNELS, high_mhz);

    if (exposure->compute_ns == 0)
        return INFINITY;
    return (lull_predict_limit_w(model) * (double)exposure->span_ns - other_nj) /
           (double)exposure->compute_ns;
}

static void choose_levels(const struct lull_prediction_clocks *clocks, int64_t world_size,
                          struct lull_prediction *prediction)
{
    const struct lull_device_curve *const model = prediction->model;
    const struct lull_prediction_clock *low = &clocks->clocks[clocks->count - 1];

    if (world_size != 1)
        low = &clocks->clocks[lowest_harmless(model, clocks, prediction->link_gbs)];
    prediction->high_mhz = clocks->clocks[0].mhz;
    prediction->low_mhz = low->mhz;
    prediction->levels.high = lull_predict_level(prediction, &clocks->clocks[0]);
    prediction->levels.low = lull_predict_level(prediction, low);
    prediction->levels.low_speed_ratio = low->speed_ratio;
}

/* ---- steady clocks ---- */

struct lull_exposure lull_predict_slower(const struct lull_exposure *exposure, double speed_ratio)
{
    struct lull_exposure slower = *exposure;

    slower.compute_ns = (int64_t)((double)exposure->compute_ns / speed_ratio);
    slower.overlap_ns = (int64_t)((double)exposure->overlap_ns / speed_ratio);
    slower.communication_ns = exposure->exposed_ns + slower.overlap_ns;
    slower.span_ns = exposure->span_ns + slower.compute_ns - exposure->compute_ns;
    return slower;
}

/* Cost of one steady clock, and the energy saved by it and by the gaps below it. */
struct steady_point {
    double mhz;
    double slowdown_ratio;
    double steady_j;
    double gaps_j;
};

struct steady_points {
    uint32_t count;
    bool takes_turns; /* iterations are long enough for turns between two clocks */
    struct steady_point points[LULL_DEVICE_CURVE_CLOCKS]; /* the highest clock first */
};

static struct steady_point evaluate_clock(const struct lull_prediction *prediction,
                                          const struct lull_exposure *exposure,
                                          const struct lull_prediction_clock *clock)
{
    const struct lull_exposure slower = lull_predict_slower(exposure, clock->speed_ratio);
    const struct lull_power_levels levels = {.high = lull_predict_level(prediction, clock),
                                             .low = prediction->levels.low,
                                             .low_speed_ratio = prediction->levels.low_speed_ratio};
    const struct lull_switchable *const gaps = &prediction->switchable[LULL_SWITCHING_FEED_FORWARD];

    return (struct steady_point){
        .mhz = clock->mhz,
        .slowdown_ratio = (double)slower.span_ns / (double)exposure->span_ns - 1.0,
        .steady_j = prediction->energy_j - lull_exposure_energy_j(&slower, &levels),
        .gaps_j = fmax(lull_savings_estimate_j(gaps, &levels), 0.0),
    };
}

/* Returns what a steady point saves within a slowdown, with a share of the gaps below it: the best
 * of all clocks within tolerance_ratio, each alone and by turns with the next lower one until the
 * slowdown is aimed_ratio. The next clock has a share of the iterations that is a multiple of one
 * part; parts 0: any share. */
static double best_of_turns(const struct steady_points *all, double tolerance_ratio,
                            double aimed_ratio, uint32_t parts, double gaps_share)
{
    double best_j = 0.0;

    for (uint32_t i = 0; i < all->count && all->points[i].slowdown_ratio <= tolerance_ratio; i++) {
        const struct steady_point *const point = &all->points[i];
        const struct steady_point *const next = point + 1;
        const double alone_j = point->steady_j + gaps_share * point->gaps_j;

        best_j = fmax(best_j, alone_j);
        if (!all->takes_turns || i + 1 == all->count || next->slowdown_ratio <= aimed_ratio ||
            point->slowdown_ratio >= aimed_ratio)
            continue;

        const double share =
            (aimed_ratio - point->slowdown_ratio) / (next->slowdown_ratio - point->slowdown_ratio);
        const double taken = parts > 0 ? floor(share * parts) / parts : share;
        const double next_j = next->steady_j + gaps_share * next->gaps_j;

        best_j = fmax(best_j, alone_j + taken * (next_j - alone_j));
    }
    return best_j;
}

/* Finds the best single clock within a slowdown, with gaps below it. */
static struct steady_point prediction_best_clock(const struct steady_points *all,
                                                 double tolerance_ratio)
{
    struct steady_point best = {.mhz = all->points[0].mhz};

    for (uint32_t i = 0; i < all->count; i++) {
        const struct steady_point *const point = &all->points[i];

        if (point->slowdown_ratio <= tolerance_ratio &&
            point->steady_j + point->gaps_j > best.steady_j + best.gaps_j)
            best = *point;
    }
    return best;
}

static struct lull_prediction_budget predict_budget(const struct steady_points *all,
                                                    double tolerance_ratio)
{
    const struct steady_point best = prediction_best_clock(all, tolerance_ratio);
    const double aimed_ratio = LULL_PREDICTION_AIMED_SHARE * tolerance_ratio;

    return (struct lull_prediction_budget){
        .tolerance_ratio = tolerance_ratio,
        .slowdown_ratio = best.slowdown_ratio,
        .steady_mhz = best.mhz,
        .steady_j = best.steady_j,
        .both_j = best.steady_j + best.gaps_j,
        .likely_j = best_of_turns(all, tolerance_ratio, aimed_ratio, LULL_DUTY_SLOTS,
                                  LULL_PREDICTION_GAPS_SHARE),
        .max_j = best_of_turns(all, tolerance_ratio, tolerance_ratio, 0, 1.0),
        .cautious_j =
            prediction_best_clock(all, LULL_PREDICTION_PROVEN_SHARE * tolerance_ratio).steady_j,
    };
}

/* Returns whether a run may alternate between two clocks. If iterations are too short, it stays on
 * one clock (core/section/duty.h). If their length is unknown, it may alternate. Without
 * communication a run finds no iterations. */
static bool takes_turns(const struct lull_prediction *prediction,
                        const struct lull_analysis *analysis)
{
    const double change_ms = fmax(prediction->down_ms, 1e-3); /* of no latency: short, but > 0 */

    if (analysis->communication_kernel_count == 0)
        return false;
    return !(analysis->iteration_ms > 0.0) ||
           lull_duty_slot_iterations(analysis->iteration_ms, change_ms) > 0;
}

static double step_ms(const struct lull_trace_step *step)
{
    return lull_ms_from_ns(step->end_ns - step->begin_ns);
}

/* Returns the standard deviation of the marked iterations' lengths over their mean; 0: not known.
 */
static double scatter_of(const struct lull_trace *trace)
{
    const double count = (double)trace->step_count;
    double sum_ms = 0.0;
    double squares = 0.0;

    if (trace->step_count < 2)
        return 0.0;
    for (size_t i = 0; i < trace->step_count; i++)
        sum_ms += step_ms(&trace->steps[i]);
    for (size_t i = 0; i < trace->step_count; i++)
        squares += pow(step_ms(&trace->steps[i]) - sum_ms / count, 2.0);
    return sum_ms > 0.0 ? sqrt(squares / count) / (sum_ms / count) : 0.0;
}

/* Returns the share of a proven clock's saving that is sure to be reached. */
static double proven_share(const struct lull_trace *trace, const struct lull_analysis *analysis)
{
    if (analysis->communication_kernel_count == 0)
        return 0.0;
    return scatter_of(trace) > LULL_PREDICTION_MAX_SCATTER ? LULL_PREDICTION_PROOF_SHARE : 1.0;
}

static void prediction_find_frontier(double tolerance_ratio, const struct lull_trace *trace,
                                     const struct lull_analysis *analysis,
                                     const struct lull_prediction_clocks *clocks,
                                     struct lull_prediction *prediction)
{
    struct steady_points all = {.count = clocks->count,
                                .takes_turns = takes_turns(prediction, analysis)};

    for (uint32_t i = 0; i < all.count; i++)
        all.points[i] = evaluate_clock(prediction, &analysis->exposure, &clocks->clocks[i]);
    for (int b = 0; b < LULL_PREDICTION_BUDGETS; b++) {
        prediction->budgets[b] = predict_budget(
            &all, b < LULL_PREDICTION_TOLERANCE ? lull_job_frontier_budgets[b] : tolerance_ratio);
        prediction->budgets[b].cautious_j *= proven_share(trace, analysis);
    }
}

/* ---- a job ---- */

void lull_prediction_add(const struct lull_prediction_budget *rank,
                         struct lull_prediction_budget *job)
{
    job->tolerance_ratio = rank->tolerance_ratio;
    job->steady_j += rank->steady_j;
    job->both_j += rank->both_j;
    job->likely_j += rank->likely_j;
    job->max_j += rank->max_j;
    job->cautious_j += rank->cautious_j;
    job->slowdown_ratio = fmax(job->slowdown_ratio, rank->slowdown_ratio);
    if (job->steady_mhz <= 0.0 || rank->steady_mhz < job->steady_mhz)
        job->steady_mhz = rank->steady_mhz;
}

struct lull_prediction_range lull_prediction_range_of(const struct lull_prediction_budget *budget,
                                                      double energy_j)
{
    const double least = (1.0 - LULL_PREDICTION_WATCH_SHARE) * (1.0 - LULL_PREDICTION_POWER_RATIO);
    const double likely = 1.0 - LULL_PREDICTION_WATCH_SHARE / 2.0;
    const double most = 1.0 + LULL_PREDICTION_POWER_RATIO;

    if (!(energy_j > 0.0))
        return (struct lull_prediction_range){0};
    return (struct lull_prediction_range){
        .low_ratio = least * budget->cautious_j / energy_j,
        .likely_ratio = likely * budget->likely_j / energy_j,
        .high_ratio = most * budget->max_j / energy_j,
    };
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
    struct lull_prediction_clocks clocks;
    struct lull_switch_latency latency;
    int result;

    lull_predict_model(setup, trace->gpu, &prediction);
    /* The low clock depends on the link: it must not slow communication. */
    prediction.link_gbs = choose_link_gbs(prediction.model, trace->world_size);
    lull_predict_clocks(prediction.model,
                        lull_predict_compute_limit_w(&prediction, &analysis->exposure), &clocks);
    choose_levels(&clocks, trace->world_size, &prediction);
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
        return lull_error_set(err, result, "not enough memory for %zu gaps", count);
    prediction.energy_j = lull_exposure_energy_j(&analysis->exposure, &prediction.levels);
    for (int i = 0; i < LULL_SWITCHING_COUNT; i++)
        prediction.saving_j[i] = lull_savings_estimate_j(&switchable[i], &prediction.levels);
    if (analysis->exposure.span_ns > 0)
        prediction_find_frontier(setup->tolerance_ratio, trace, analysis, &clocks, &prediction);
    *prediction_out = prediction;
    return 0;
}
