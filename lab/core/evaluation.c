/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/evaluation.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "lab/core/similarity.h"
#include "lab/core/online.h"
#include "lab/core/pick.h"
#include "lab/core/power_model.h"
#include "lab/core/spread.h"
#include "lab/core/time_model.h"

/* The prediction of one quantity, time or power, for all kernels, with its inputs. */
struct prediction {
    const struct lull_grid *grid;
    uint32_t kernels;
    const double *measured; /* kernels x points */
    uint32_t probes[LULL_GRID_PROBES];
    uint32_t probe_count;
    double *fitted;  /* kernels x points: from the probes alone, or with the device's curve */
    double *feature; /* kernels x LULL_SIMILARITY_FEATURES at most */
    double *residual;
    double *like;      /* kernels x points: estimated from similar kernels */
    double *predicted; /* kernels x points: with likeness */
};

static double *evaluation_row(double *values, const struct prediction *prediction, uint32_t kernel)
{
    return &values[(size_t)kernel * prediction->grid->point_count];
}

static const double *evaluation_measured(const struct prediction *prediction, uint32_t kernel)
{
    return &prediction->measured[(size_t)kernel * prediction->grid->point_count];
}

static void evaluation_take_memory(struct prediction *prediction, struct lull_memory *memory)
{
    const size_t cells = (size_t)prediction->kernels * prediction->grid->point_count;

    prediction->fitted = lull_memory_take(memory, cells + 1, sizeof(double));
    prediction->residual = lull_memory_take(memory, cells + 1, sizeof(double));
    prediction->like = lull_memory_take(memory, cells + 1, sizeof(double));
    prediction->predicted = lull_memory_take(memory, cells + 1, sizeof(double));
    prediction->feature = lull_memory_take(
        memory, (size_t)prediction->kernels * LULL_SIMILARITY_FEATURES + 1, sizeof(double));
}

/* ---- one quantity -------------------------------------------------------------------------- */

/* Writes how a kernel's values change from each probe to the last one; returns behind them. */
static double *write_changes(const struct prediction *prediction, const double *values,
                             double *feature)
{
    const double last = log(values[prediction->probes[prediction->probe_count - 1]]);

    for (uint32_t i = 0; i + 1 < prediction->probe_count; i++)
        *feature++ = log(values[prediction->probes[i]]) - last;
    return feature;
}

static double mean_log(const struct prediction *prediction, const double *values)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < prediction->probe_count; i++)
        sum += log(values[prediction->probes[i]]);
    return sum / prediction->probe_count;
}

/* Similarity of times: kernels are similar if their times change in the same ratios, whatever their
 * length. */
static uint32_t fill_time_features(struct prediction *times)
{
    double *feature = times->feature;

    for (uint32_t k = 0; k < times->kernels; k++)
        feature = write_changes(times, evaluation_measured(times, k), feature);
    return times->probe_count - 1;
}

/* Similarity of powers: kernels are similar if their powers are equally high and change in the
 * same ratios, and their times do too. Waiting for memory and computing have different powers. */
static uint32_t fill_power_features(struct prediction *powers, const struct prediction *times)
{
    double *feature = powers->feature;

    for (uint32_t k = 0; k < powers->kernels; k++) {
        feature = write_changes(powers, evaluation_measured(powers, k), feature);
        feature = write_changes(powers, evaluation_measured(times, k), feature);
        *feature++ = mean_log(powers, evaluation_measured(powers, k));
    }
    return 2 * (powers->probe_count - 1) + 1;
}

static void fill_residuals(struct prediction *prediction)
{
    const size_t cells = (size_t)prediction->kernels * prediction->grid->point_count;

    for (size_t i = 0; i < cells; i++)
        prediction->residual[i] = log(prediction->measured[i] / prediction->fitted[i]);
}

/* Predicts a kernel from its fit, the residuals of similar kernels, and the residuals at its
 * probes. */
static void predict_kernel(struct prediction *prediction, uint32_t features, uint32_t kernel)
{
    const uint32_t points = prediction->grid->point_count;
    const struct lull_similarity similarity = {.kernels = prediction->kernels,
                                               .features = features,
                                               .points = points,
                                               .feature = prediction->feature,
                                               .residual = prediction->residual};
    const double *const fitted = evaluation_row(prediction->fitted, prediction, kernel);
    double *const predicted = evaluation_row(prediction->predicted, prediction, kernel);
    double *const like = evaluation_row(prediction->like, prediction, kernel);
    double left[LULL_GRID_PROBES];
    struct lull_grid_point probes[LULL_GRID_PROBES];
    struct lull_spread spread;

    /* A kernel with a single probe changes nowhere, and is similar to no other. */
    memset(like, 0, points * sizeof(*like));
    if (features > 0)
        lull_similarity_residual(&similarity, kernel, like);
    for (uint32_t i = 0; i < prediction->probe_count; i++) {
        const uint32_t at = prediction->probes[i];

        probes[i] = prediction->grid->points[at];
        left[i] = log(evaluation_measured(prediction, kernel)[at] / fitted[at]) - like[at];
    }
    lull_spread_fit(prediction->grid->points, points, probes, left, prediction->probe_count,
                    &spread);
    for (uint32_t i = 0; i < points; i++)
        predicted[i] =
            fitted[i] * exp(like[i] + lull_spread_at(&spread, &prediction->grid->points[i]));
}

static bool evaluation_is_probe(const struct prediction *prediction, uint32_t point)
{
    for (uint32_t i = 0; i < prediction->probe_count; i++)
        if (prediction->probes[i] == point)
            return true;
    return false;
}

/* The mean error of values, kernels x points, away from the probes. NAN: there is nothing there. */
static double evaluation_mean_error(const struct prediction *prediction, const double *values)
{
    const uint32_t points = prediction->grid->point_count;
    double sum = 0.0;
    size_t count = 0;

    for (uint32_t k = 0; k < prediction->kernels; k++)
        for (uint32_t i = 0; i < points; i++) {
            if (evaluation_is_probe(prediction, i))
                continue;
            sum +=
                fabs(values[(size_t)k * points + i] / evaluation_measured(prediction, k)[i] - 1.0);
            count++;
        }
    /* All kernels have as many points, so that this is the mean over kernels of their means. */
    return count > 0 ? sum / (double)count : NAN;
}

/* ---- time and power ----------------------------------------------------------------------- */

/* shapes is room for the shapes at all points. */
static void predict_times(struct prediction *times, double *shapes)
{
    uint32_t features;

    lull_time_shapes(times->grid, shapes);
    for (uint32_t k = 0; k < times->kernels; k++) {
        struct lull_time_model model;

        lull_time_fit(shapes, evaluation_measured(times, k), times->probes, times->probe_count,
                      &model);
        for (uint32_t i = 0; i < times->grid->point_count; i++)
            evaluation_row(times->fitted, times, k)[i] =
                lull_time_at(&model, &shapes[(size_t)i * LULL_TIME_SHAPES]);
    }
    features = fill_time_features(times);
    fill_residuals(times);
    for (uint32_t k = 0; k < times->kernels; k++)
        predict_kernel(times, features, k);
}

/* The curve is that of all kernels but the one that is predicted, for which all are fitted again.
 */
static void predict_powers(struct prediction *powers, const struct prediction *times,
                           const struct lull_power_curve *curves)
{
    const struct lull_grid *const grid = powers->grid;
    const uint32_t features = fill_power_features(powers, times);

    for (uint32_t kernel = 0; kernel < powers->kernels; kernel++) {
        for (uint32_t k = 0; k < powers->kernels; k++) {
            struct lull_power_model model;

            lull_power_fit(grid, &curves[kernel], evaluation_measured(powers, k), powers->probes,
                           powers->probe_count, &model);
            for (uint32_t i = 0; i < grid->point_count; i++)
                evaluation_row(powers->fitted, powers, k)[i] =
                    lull_power_at(grid, &curves[kernel], &model, i);
        }
        fill_residuals(powers);
        predict_kernel(powers, features, kernel);
    }
}

/* ---- picks -------------------------------------------------------------------------------- */

/* The pick of a kernel that is fitted from its probes and from similar kernels. */
static uint32_t find_pick(const struct prediction *times, const struct prediction *powers,
                          const struct lull_power_curve *curves, uint32_t kernel,
                          double slowdown_ratio)
{
    const struct lull_grid *const grid = times->grid;
    const struct lull_online_search search = {grid->points, grid->point_count, grid->base,
                                              slowdown_ratio};
    const struct lull_fitted_device device = {.point_count = grid->point_count,
                                              .points = grid->points,
                                              .base = grid->base,
                                              .curve = curves[kernel]};
    struct lull_fitted_point points[LULL_GRID_PROBES];
    struct lull_fitted_kernel fitted;
    struct lull_online_best found;

    for (uint32_t i = 0; i < times->probe_count; i++) {
        const uint32_t at = times->probes[i];

        points[i] = (struct lull_fitted_point){grid->points[at].sm_mhz, grid->points[at].mem_mhz,
                                               evaluation_measured(times, kernel)[at],
                                               evaluation_measured(powers, kernel)[at]};
    }
    lull_fitted_probe_like(&device, points, times->probe_count,
                           evaluation_row(times->like, times, kernel),
                           evaluation_row(powers->like, powers, kernel), &fitted);
    lull_online_pick(&device, &fitted, &search, &found);
    return found.best;
}

static struct lull_pick_worth evaluation_judge_picks(const struct prediction *times,
                                                     const struct prediction *powers,
                                                     const struct lull_power_curve *curves,
                                                     double slowdown_ratio)
{
    const uint32_t points = times->grid->point_count, base = times->grid->base;
    struct lull_pick_worth worth = {0.0, 0.0, 0.0, 0};

    if (powers->kernels == 0)
        return (struct lull_pick_worth){NAN, NAN, NAN, 0};
    for (uint32_t k = 0; k < powers->kernels; k++) {
        const double *const times_ms = evaluation_measured(times, k), *const powers_w =
                                                                          evaluation_measured(
                                                                              powers, k);
        const double base_energy = times_ms[base] * powers_w[base];
        const uint32_t best = lull_pick_point(times_ms, powers_w, points, base, slowdown_ratio);
        const uint32_t picked = find_pick(times, powers, curves, k, slowdown_ratio);
        double saving;

        worth.available_ratio +=
            (1.0 - times_ms[best] * powers_w[best] / base_energy) / powers->kernels;
        saving = (1.0 - times_ms[picked] * powers_w[picked] / base_energy) / powers->kernels;
        worth.realised_ratio += saving;
        if (times_ms[picked] > times_ms[base] * (1.0 + slowdown_ratio))
            worth.slow_kernels++;
        else
            worth.kept_ratio += saving;
    }
    return worth;
}

/* ---- all of it ---------------------------------------------------------------------------- */

int lull_evaluate(const struct lull_grid *grid, double slowdown_ratio,
                  struct lull_evaluation *evaluation_out)
{
    struct prediction times = {
        .grid = grid, .kernels = grid->kernel_count, .measured = grid->time_ms};
    struct prediction powers = {
        .grid = grid, .kernels = grid->powered_count, .measured = grid->power_w};
    struct lull_memory memory = {0};
    struct lull_prior_worth prior;
    struct lull_online_worth online;
    struct lull_power_curve *curves; /* without each kernel, and behind them that of all */
    double *shapes;
    int rc = -ENOMEM;

    assert(grid->kernel_count > 0 && grid->powered_count <= grid->kernel_count);
    evaluation_take_memory(&times, &memory);
    evaluation_take_memory(&powers, &memory);
    shapes =
        lull_memory_take(&memory, (size_t)grid->point_count * LULL_TIME_SHAPES, sizeof(*shapes));
    curves =
        lull_memory_take(&memory, (size_t)grid->powered_count + 1, sizeof(struct lull_power_curve));
    if (memory.has_failed || lull_evaluate_prior(grid, &prior) < 0)
        goto free_memory;
    for (uint32_t kernel = 0; kernel <= grid->powered_count; kernel++)
        lull_power_curve_fit(grid, kernel, &curves[kernel]);
    if (lull_evaluate_online(grid, curves, slowdown_ratio, &online) < 0)
        goto free_memory;
    evaluation_out->prior = prior;
    evaluation_out->online = online;
    times.probe_count = lull_grid_probe_middle(grid, times.probes);
    predict_times(&times, shapes);
    powers.probe_count = lull_grid_probe_ends(grid, powers.probes);
    predict_powers(&powers, &times, curves);
    evaluation_out->power_ends_error = evaluation_mean_error(&powers, powers.predicted);
    powers.probe_count = lull_grid_probe_middle(grid, powers.probes);
    predict_powers(&powers, &times, curves);
    evaluation_out->power_error = evaluation_mean_error(&powers, powers.predicted);
    evaluation_out->time_error = evaluation_mean_error(&times, times.predicted);
    evaluation_out->pick = evaluation_judge_picks(&times, &powers, curves, INFINITY);
    evaluation_out->pick_within = evaluation_judge_picks(&times, &powers, curves, slowdown_ratio);
    rc = 0;
free_memory:
    lull_memory_free(&memory);
    return rc;
}
