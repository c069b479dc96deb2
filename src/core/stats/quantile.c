/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/quantile.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void lull_quantile_add(struct lull_quantile *quantile, double value)
{
    if (!isfinite(value))
        return;
    quantile->values[quantile->next] = value;
    quantile->next = (quantile->next + 1) % LULL_QUANTILE_WINDOW;
    if (quantile->count < LULL_QUANTILE_WINDOW)
        quantile->count++;
}

static int compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

static void sort_values(const struct lull_quantile *quantile, double *sorted)
{
    memcpy(sorted, quantile->values, quantile->count * sizeof(*sorted));
    qsort(sorted, quantile->count, sizeof(*sorted), compare_doubles);
}

double lull_quantile_of_sorted(const double *sorted, size_t count, double p)
{
    assert(p >= 0.0 && p <= 1.0);
    if (count == 0)
        return NAN;

    const double place = p * (double)(count - 1);
    const size_t below = (size_t)place;
    if (below + 1 >= count)
        return sorted[count - 1];
    return sorted[below] + (place - (double)below) * (sorted[below + 1] - sorted[below]);
}

double lull_quantile_soft_most(const struct lull_quantile *quantile, double scale)
{
    double most = NAN; /* which fmax() ignores */
    double sum = 0.0;

    for (uint32_t i = 0; i < quantile->count; i++)
        most = fmax(most, quantile->values[i]);
    if (quantile->count == 0 || !(scale > 0.0))
        return most;
    for (uint32_t i = 0; i < quantile->count; i++)
        sum += exp((quantile->values[i] - most) / scale);
    return most + scale * log(sum / (double)quantile->count);
}

double lull_quantile_soft_least(const struct lull_quantile *quantile, double scale)
{
    struct lull_quantile negative = *quantile;

    for (uint32_t i = 0; i < negative.count; i++)
        negative.values[i] = -negative.values[i];
    return -lull_quantile_soft_most(&negative, scale);
}

double lull_quantile_get(const struct lull_quantile *quantile, double p)
{
    double sorted[LULL_QUANTILE_WINDOW];

    sort_values(quantile, sorted);
    return lull_quantile_of_sorted(sorted, quantile->count, p);
}

double lull_quantile_lower_mean(const struct lull_quantile *quantile)
{
    double sorted[LULL_QUANTILE_WINDOW];
    const uint32_t half = (quantile->count + 1) / 2;
    double sum = 0.0;

    if (quantile->count == 0)
        return NAN;
    sort_values(quantile, sorted);
    for (uint32_t i = 0; i < half; i++)
        sum += sorted[i];
    return sum / (double)half;
}

double lull_quantile_excess(const struct lull_quantile *quantile, double threshold)
{
    double sum = 0.0;

    if (quantile->count == 0)
        return 0.0;
    for (uint32_t i = 0; i < quantile->count; i++)
        sum += fmax(quantile->values[i] - threshold, 0.0);
    return sum / (double)quantile->count;
}

/*
 * Between two neighbouring values the excess is linear in the threshold, with the number of values
 * above as its slope: walk down from the largest value to the stretch that holds the answer.
 */
double lull_quantile_threshold(const struct lull_quantile *quantile, double excess)
{
    double sorted[LULL_QUANTILE_WINDOW];
    const double allowed = fmax(excess, 0.0) * (double)quantile->count;
    double above = 0.0;

    sort_values(quantile, sorted);
    for (uint32_t n = 1; n <= quantile->count; n++) {
        const uint32_t left = quantile->count - n;

        above += sorted[left];
        const double threshold = (above - allowed) / (double)n;
        if (left == 0 || threshold >= sorted[left - 1])
            return fmax(threshold, 0.0);
    }
    return 0.0;
}
