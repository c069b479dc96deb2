/*
 * Accuracy of time and power that are predicted from counters alone.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>

#include "base/array.h"
#include "lab/core/evaluation.h"
#include "lab/core/prior.h"

/* Of a kernel, at most: all counters and a power. */
enum { FEATURES = LULL_GRID_COUNTERS + 1 };

/* Time or power of all kernels, with the predictors. */
struct quantity {
    const struct lull_grid *grid;
    const double *measured; /* kernels x points */
    uint32_t kernels;
    uint32_t features;
    double *feature;   /* kernels x features */
    double *change;    /* kernels x points: log(measured / measured at the base) */
    double *predicted; /* of change */
};

/* Returns whether all kernels have a counter, and not all the same value of it. */
static bool prior_eval_is_informative(const struct lull_grid *grid, uint32_t counter)
{
    const double first = grid->counters[counter];
    bool has_varied = false;

    for (uint32_t k = 0; k < grid->kernel_count; k++) {
        const double value = grid->counters[(size_t)k * LULL_GRID_COUNTERS + counter];

        if (isnan(value))
            return false;
        has_varied = has_varied || value > first || value < first;
    }
    return has_varied;
}

/* Copies the counters that distinguish kernels, followed by the power at the base if requested.
 * Returns how many counters there are. */
static uint32_t take_features(struct quantity *quantity, bool with_power)
{
    const struct lull_grid *const grid = quantity->grid;
    bool telling[LULL_GRID_COUNTERS];
    double *feature = quantity->feature;
    uint32_t counters = 0;

    for (uint32_t i = 0; i < LULL_GRID_COUNTERS; i++) {
        telling[i] = prior_eval_is_informative(grid, i);
        counters += telling[i] ? 1U : 0U;
    }
    for (uint32_t k = 0; k < quantity->kernels; k++) {
        for (uint32_t i = 0; i < LULL_GRID_COUNTERS; i++)
            if (telling[i])
                *feature++ = grid->counters[(size_t)k * LULL_GRID_COUNTERS + i];
        if (with_power)
            *feature++ = lull_grid_powers(grid, k)[grid->base];
    }
    quantity->features = counters + (with_power ? 1 : 0);
    return counters;
}

static void take_changes(const struct quantity *quantity)
{
    const uint32_t points = quantity->grid->point_count, base = quantity->grid->base;

    for (uint32_t k = 0; k < quantity->kernels; k++) {
        const double *const measured = &quantity->measured[(size_t)k * points];

        for (uint32_t i = 0; i < points; i++)
            quantity->change[(size_t)k * points + i] = log(measured[i] / measured[base]);
    }
}

/* The mean error of predictions at points other than the base, where they are exact. */
static double prior_eval_mean_error(const struct quantity *quantity)
{
    const size_t cells = (size_t)quantity->kernels * quantity->grid->point_count;
    double sum = 0.0;

    for (size_t i = 0; i < cells; i++)
        sum += fabs(expm1(quantity->predicted[i] - quantity->change[i]));
    return sum / (double)(cells - quantity->kernels);
}

/* Judges one quantity by the prior and by its neighbours. Returns 0, or -ENOMEM. */
static int prior_eval_judge(struct quantity *quantity, bool with_power, uint32_t *counters_out,
                            double *error_out, double *neighbours_error_out)
{
    struct lull_prior prior = {.kernels = quantity->kernels,
                               .points = quantity->grid->point_count,
                               .feature = quantity->feature,
                               .change = quantity->change};

    *counters_out = take_features(quantity, with_power);
    if (*counters_out == 0 || quantity->kernels < LULL_PRIOR_KERNELS)
        return 0;
    prior.features = quantity->features;
    take_changes(quantity);
    if (lull_prior_predict(&prior, quantity->predicted) < 0)
        return -ENOMEM;
    *error_out = prior_eval_mean_error(quantity);
    if (lull_prior_neighbours(&prior, quantity->predicted) < 0)
        return -ENOMEM;
    *neighbours_error_out = prior_eval_mean_error(quantity);
    return 0;
}

int lull_evaluate_prior(const struct lull_grid *grid, struct lull_prior_worth *worth_out)
{
    const size_t kernels = grid->kernel_count, cells = kernels * grid->point_count;
    struct lull_prior_worth worth = {0, NAN, NAN, NAN, NAN};
    struct lull_memory memory = {0};
    struct quantity quantity = {
        .grid = grid,
        .measured = grid->time_ms,
        .kernels = grid->kernel_count,
        .feature = lull_memory_take(&memory, kernels * FEATURES, sizeof(double)),
        .change = lull_memory_take(&memory, cells, sizeof(double)),
        .predicted = lull_memory_take(&memory, cells, sizeof(double)),
    };
    int rc = memory.has_failed ? -ENOMEM : 0;

    if (rc == 0)
        rc = prior_eval_judge(&quantity, false, &worth.counters, &worth.time_error,
                              &worth.time_neighbours_error);
    quantity.measured = grid->power_w;
    quantity.kernels = grid->powered_count;
    if (rc == 0)
        rc = prior_eval_judge(&quantity, true, &worth.counters, &worth.power_error,
                              &worth.power_neighbours_error);
    lull_memory_free(&memory);
    if (rc == 0)
        *worth_out = worth;
    return rc;
}
