/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/rounds.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/* A lag explains the intervals if it leaves less than this share of their mean square difference.
 */
static const double unexplained_max = 0.2;
/* Sums over a lag that deviate by less than this share of their mean need no longer lag. Default:
 * the job's own noise is of that size. */
static const double notable_ratio = 0.05;
/* So many of the longest intervals are looked at, and their cut. */
enum { LONGEST = 16, CUT = LULL_ROUNDS_SEEN };

struct look {
    const double *intervals_ms;
    uint32_t count;
    double cut_ms;
};

/* Positions of the longest intervals, the longest first; returns their number. */
static uint32_t find_longest(const double *intervals_ms, uint32_t count, uint32_t longest[LONGEST])
{
    uint32_t found = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t place = found;

        while (place > 0 && intervals_ms[longest[place - 1]] < intervals_ms[i])
            place--;
        if (place == LONGEST)
            continue;
        found += found < LONGEST;
        memmove(&longest[place + 1], &longest[place], (found - 1 - place) * sizeof(longest[0]));
        longest[place] = i;
    }
    return found;
}

/* Mean square by which intervals differ from those a lag before, ms^2. */
static double rounds_difference(const struct look *look, uint32_t lag)
{
    double sum = 0.0;

    assert(lag < look->count);
    for (uint32_t i = 0; i + lag < look->count; i++) {
        const double ms =
            fmin(fabs(look->intervals_ms[i] - look->intervals_ms[i + lag]), look->cut_ms);

        sum += ms * ms;
    }
    return sum / (look->count - lag);
}

/* Returns whether the sums of `lag` intervals in a row vary notably. */
static bool sums_vary(const struct look *look, uint32_t lag)
{
    double sum_ms = 0.0;
    double mean_ms = 0.0;
    double squares = 0.0;
    uint32_t sums = 0;

    for (uint32_t i = 0; i < look->count; i++) {
        sum_ms += fmin(look->intervals_ms[i], look->cut_ms);
        if (i >= lag)
            sum_ms -= fmin(look->intervals_ms[i - lag], look->cut_ms);
        if (i + 1 < lag)
            continue;
        sums++;
        squares += (sum_ms - mean_ms) * (sum_ms - mean_ms) * (sums - 1) / sums;
        mean_ms += (sum_ms - mean_ms) / sums;
    }
    return sqrt(squares / sums) > notable_ratio * mean_ms;
}

/* Inserts a lag into an ascending list without duplicates. */
static uint32_t insert_lag(uint32_t *lags, uint32_t count, uint32_t lag)
{
    uint32_t place = count;

    while (place > 0 && lags[place - 1] > lag)
        place--;
    if (place > 0 && lags[place - 1] == lag)
        return count;
    memmove(&lags[place + 1], &lags[place], (count - place) * sizeof(lags[0]));
    lags[place] = lag;
    return count + 1;
}

/* Distances between the longest intervals that may be an iteration, ascending. */
static uint32_t find_lags(const struct look *look, const uint32_t *longest, uint32_t found,
                          uint32_t period, uint32_t *lags)
{
    uint32_t count = 0;

    for (uint32_t i = 1; i < found; i++)
        for (uint32_t j = 0; j < i; j++) {
            const uint32_t lag =
                longest[i] > longest[j] ? longest[i] - longest[j] : longest[j] - longest[i];

            if (lag % period == 0 && lag >= 3 * period && lag <= look->count / LULL_ROUNDS_SEEN)
                count = insert_lag(lags, count, lag);
        }
    return count;
}

/* A lag and what it leaves unexplained. */
struct best {
    uint32_t lag;
    double left;
};

/* Returns one period, or two together where they fit much better. The gap map itself joins two
 * iterations that alternate. */
static struct best begin_with(const struct look *look, uint32_t period)
{
    const double alone = rounds_difference(look, period);
    const double twofold = rounds_difference(look, 2 * period);

    if (twofold <= unexplained_max * alone)
        return (struct best){2 * period, twofold};
    return (struct best){period, fmin(alone, twofold)};
}

/* Takes a longer lag that explains what the best one leaves. */
static void try_lag(const struct look *look, uint32_t lag, struct best *best)
{
    if (lag <= best->lag || lag > look->count / LULL_ROUNDS_SEEN)
        return;
    const double left = rounds_difference(look, lag);

    if (left <= unexplained_max * best->left)
        *best = (struct best){lag, left};
}

uint32_t lull_rounds_find(const double *intervals_ms, uint32_t count, uint32_t period,
                          uint32_t current)
{
    struct look look = {.intervals_ms = intervals_ms, .count = count};
    uint32_t longest[LONGEST] = {0};
    uint32_t lags[LONGEST * (LONGEST - 1) / 2];
    struct best best;
    uint32_t found;
    uint32_t lag_count;

    assert(period >= 1 && current >= 1);
    if (count < 3 * LULL_ROUNDS_SEEN * period)
        return 1;
    found = find_longest(intervals_ms, count, longest);
    look.cut_ms = intervals_ms[longest[CUT - 1]];
    best = begin_with(&look, period);
    if (sums_vary(&look, best.lag))
        try_lag(&look, current * period, &best);
    lag_count = find_lags(&look, longest, found, period, lags);
    for (uint32_t i = 0; i < lag_count && sums_vary(&look, best.lag); i++)
        try_lag(&look, lags[i], &best);
    return best.lag <= 2 * period ? 1 : best.lag / period;
}
