/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/clock_fit.h"

#include <assert.h>
#include <math.h>

/* Clocks whose ratio is less than this share a range. Default: 16 ranges reach from the highest
 * clock to a tenth; smaller ranges forget more slowly. */
static const double range_ratio = 1.15;
/* Rounds of coordinate descent at each fit. Default: features that clocks hardly tell apart
 * converge over several fits, because each starts at the coefficients of the one before. */
enum { SWEEPS = 60 };
/* Keeps the diagonal positive where a feature did not occur, relative to it. */
static const double ridge = 1e-6;

void lull_clock_fit_init(struct lull_clock_fit *fit, uint32_t features, const double *price,
                         double memory)
{
    assert(features >= 1 && features <= LULL_CLOCK_FIT_FEATURES && memory > 1.0);
    *fit = (struct lull_clock_fit){.features = features, .memory = memory};
    for (uint32_t i = 0; i < features; i++)
        fit->price[i] = price[i];
}

static uint32_t clock_fit_range(double slowness)
{
    const double range = log(fmax(slowness, 1.0)) / log(range_ratio);

    return range < LULL_CLOCK_FIT_RANGES - 1 ? (uint32_t)range : LULL_CLOCK_FIT_RANGES - 1;
}

void lull_clock_fit_add(struct lull_clock_fit *fit, double slowness, const double *features,
                        double sum, double weight)
{
    struct lull_clock_fit_range *const range = &fit->ranges[clock_fit_range(slowness)];
    const double kept = range->weight > fit->memory ? fit->memory / range->weight : 1.0;

    assert(isfinite(sum) && weight > 0.0);
    range->weight = kept * range->weight + weight;
    for (uint32_t i = 0; i < fit->features; i++) {
        for (uint32_t j = 0; j < fit->features; j++)
            range->products[i][j] =
                kept * range->products[i][j] + weight * features[i] * features[j];
        range->targets[i] = kept * range->targets[i] + weight * features[i] * sum;
    }
}

void lull_clock_fit_solve(struct lull_clock_fit *fit)
{
    struct lull_clock_fit_range all = {0};

    for (uint32_t r = 0; r < LULL_CLOCK_FIT_RANGES; r++) {
        const struct lull_clock_fit_range *const range = &fit->ranges[r];

        if (range->weight <= 0.0)
            continue;
        for (uint32_t i = 0; i < fit->features; i++) {
            for (uint32_t j = 0; j < fit->features; j++)
                all.products[i][j] += range->products[i][j];
            all.targets[i] += range->targets[i];
        }
    }
    for (uint32_t sweep = 0; sweep < SWEEPS; sweep++) {
        /* The last feature first: the first fit begins with the features of the lowest price. */
        for (uint32_t i = fit->features; i-- > 0;) {
            double rest = all.targets[i] * (1.0 - fit->price[i]);

            if (all.products[i][i] <= 0.0)
                continue;
            for (uint32_t j = 0; j < fit->features; j++)
                if (j != i)
                    rest -= all.products[i][j] * fit->value[j];
            fit->value[i] = fmax(rest, 0.0) / (all.products[i][i] * (1.0 + ridge));
        }
    }
}

double lull_clock_fit_predict(const struct lull_clock_fit *fit, const double *features)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < fit->features; i++)
        sum += fit->value[i] * features[i];
    return sum;
}
