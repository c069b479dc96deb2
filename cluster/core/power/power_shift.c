/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_shift.h"

#include <assert.h>
#include <math.h>

/* Returns which value holds at a time. */
static size_t index_at(const struct lull_tariff *tariff, int64_t time_ns)
{
    size_t low = 0;
    size_t high = tariff->count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (tariff->time_ns[middle] <= time_ns)
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* The mean of the tariff, or of its size, over a run. */
static double power_shift_mean(const struct lull_tariff *tariff, int64_t begin_ns,
                               int64_t length_ns, bool is_size)
{
    const int64_t end_ns = begin_ns + length_ns;
    int64_t at_ns = begin_ns;
    double sum = 0.0;

    for (size_t i = index_at(tariff, begin_ns); at_ns < end_ns; i++) {
        const int64_t next_ns = i + 1 < tariff->count && tariff->time_ns[i + 1] < end_ns
                                    ? tariff->time_ns[i + 1]
                                    : end_ns;
        const double value = is_size ? fabs(tariff->value[i]) : tariff->value[i];

        sum += value * (double)(next_ns - at_ns);
        at_ns = next_ns;
    }
    return sum / (double)length_ns;
}

/* A search for the cheapest start: what is compared, and the best start so far. */
struct shift_search {
    const struct lull_tariff *tariff;
    int64_t length_ns, now_ns, latest_ns;
    int64_t best_ns;
    double best;
};

static void power_shift_inspect(struct shift_search *search, int64_t begin_ns)
{
    double here;

    if (begin_ns <= search->now_ns || begin_ns > search->latest_ns)
        return;
    here = power_shift_mean(search->tariff, begin_ns, search->length_ns, false);
    if (here < search->best || (here == search->best && begin_ns < search->best_ns)) {
        search->best = here;
        search->best_ns = begin_ns;
    }
}

struct lull_power_shift lull_power_shift_find(const struct lull_tariff *tariff, int64_t length_ns,
                                              int64_t now_ns, int64_t latest_ns, double min_ratio)
{
    const int64_t known_ns = tariff->time_ns[tariff->count - 1] - length_ns;
    struct shift_search search = {.tariff = tariff,
                                  .length_ns = length_ns,
                                  .now_ns = now_ns,
                                  .latest_ns = latest_ns < known_ns ? latest_ns : known_ns,
                                  .best_ns = now_ns};
    double now;

    assert(tariff->count > 0 && length_ns > 0 && min_ratio >= 0.0);
    now = search.best = power_shift_mean(tariff, now_ns, length_ns, false);
    power_shift_inspect(&search, search.latest_ns);
    for (size_t i = 0; i < tariff->count; i++) {
        power_shift_inspect(&search, tariff->time_ns[i]);
        power_shift_inspect(&search, tariff->time_ns[i] - length_ns);
    }
    if (now - search.best <= min_ratio * power_shift_mean(tariff, now_ns, length_ns, true))
        return (struct lull_power_shift){now_ns, now, now};
    return (struct lull_power_shift){search.best_ns, now, search.best};
}
