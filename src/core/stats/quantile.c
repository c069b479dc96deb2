/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/quantile.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"

void lull_quantile_add(struct lull_quantile *quantile, double value)
{
    if (!isfinite(value))
        return;
    quantile->values[quantile->next] = value;
    quantile->next = (quantile->next + 1) % LULL_QUANTILE_WINDOW;
    if (quantile->count < LULL_QUANTILE_WINDOW)
        quantile->count++;
}

static int quantile_compare_doubles(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;

    return (a > b) - (a < b);
}

void lull_quantile_sort(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), quantile_compare_doubles);
}

static void sort_values(const struct lull_quantile *quantile, double *sorted)
{
    memcpy(sorted, quantile->values, quantile->count * sizeof(*sorted));
    lull_quantile_sort(sorted, quantile->count);
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

/* ---- the upper tail ------------------------------------------------------------------------ */

void lull_upper_tail_add(struct lull_upper_tail *tail, double value)
{
    uint32_t place = lull_min_u32(tail->count, LULL_UPPER_TAIL_KEPT);

    if (!isfinite(value))
        return;
    for (; place > 0 && tail->largest[place - 1] < value; place--)
        if (place < LULL_UPPER_TAIL_KEPT)
            tail->largest[place] = tail->largest[place - 1];
    if (place < LULL_UPPER_TAIL_KEPT)
        tail->largest[place] = value;
    tail->count++;
}

void lull_upper_tail_merge(struct lull_upper_tail *tail, const struct lull_upper_tail *other)
{
    const uint32_t kept = lull_min_u32(other->count, LULL_UPPER_TAIL_KEPT);

    for (uint32_t i = 0; i < kept; i++)
        lull_upper_tail_add(tail, other->largest[i]);
    tail->count += other->count - kept;
}

double lull_upper_tail_p99(const struct lull_upper_tail *tail)
{
    const uint32_t above = tail->count / 100; /* this many may exceed or equal it */
    const uint32_t last = LULL_UPPER_TAIL_KEPT - 1;

    if (tail->count == 0)
        return NAN;
    if (above == 0)
        return tail->largest[0];
    return tail->largest[lull_min_u32(above - 1, last)];
}

/* From this many values on, one outlier is to be expected, and it says little about the others. */
enum { CENSORED_FROM = 64 };
/* With few values the tail is a third of them, but at least eight. */
enum { TAIL_SHARE = 3, TAIL_MIN = 8 };

/* The mean by which the kept values exceed the smallest of them. */
static double mean_excess(const struct lull_upper_tail *tail, uint32_t kept)
{
    const bool is_censored = tail->count >= CENSORED_FROM;
    double sum = 0.0;

    for (uint32_t i = 0; i < kept; i++)
        sum += tail->largest[is_censored && i == 0 ? 1 : i] - tail->largest[kept - 1];
    return sum / (is_censored ? kept - 2 : kept);
}

/* Number of kept values that count as the tail. */
static uint32_t tail_size(const struct lull_upper_tail *tail)
{
    const uint32_t least = lull_min_u32(tail->count, TAIL_MIN);

    return lull_min_u32(lull_max_u32(tail->count / TAIL_SHARE, least), LULL_UPPER_TAIL_KEPT);
}

double lull_upper_tail_exceeded(const struct lull_upper_tail *tail, double share)
{
    const uint32_t kept = tail_size(tail);
    const double smallest = kept == 0 ? NAN : tail->largest[kept - 1];
    const double kept_share = (double)kept / (double)tail->count;

    if (kept == 0 || share >= kept_share)
        return smallest;
    return smallest + mean_excess(tail, kept) * log(kept_share / share);
}

void lull_recent_tail_add(struct lull_recent_tail *tail, double value)
{
    if (tail->newer.count == LULL_RECENT_TAIL_SPAN) {
        tail->older = tail->newer;
        tail->newer = (struct lull_upper_tail){0};
    }
    lull_upper_tail_add(&tail->newer, value);
}

double lull_recent_tail_exceeded(const struct lull_recent_tail *tail, double share)
{
    struct lull_upper_tail both = tail->newer;

    lull_upper_tail_merge(&both, &tail->older);
    return lull_upper_tail_exceeded(&both, share);
}
