/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_price.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static void power_price_add(struct lull_power_use *sum, const struct lull_power_use *more,
                            double factor)
{
    sum->gpus_s += factor * more->gpus_s;
    sum->watts_s += factor * more->watts_s;
}

/* The best clock if watts are free. */
static uint32_t first_clock(const struct lull_power_use *clocks, uint32_t count)
{
    uint32_t best = 0;

    for (uint32_t i = 1; i < count; i++)
        if (clocks[i].gpus_s < clocks[best].gpus_s ||
            (clocks[i].gpus_s == clocks[best].gpus_s && clocks[i].watts_s < clocks[best].watts_s))
            best = i;
    return best;
}

/* The clock to which a job changes as watts cost more, and the ratio at which it does; count: to
 * none. */
static uint32_t next_clock(const struct lull_power_use *clocks, uint32_t count, uint32_t from,
                           double *ratio_out)
{
    uint32_t best = count;

    *ratio_out = INFINITY;
    for (uint32_t i = 0; i < count; i++) {
        const double more_s = clocks[i].gpus_s - clocks[from].gpus_s;
        const double less_s = clocks[from].watts_s - clocks[i].watts_s;
        const double ratio = more_s / (more_s + less_s);

        if (!(less_s > 0.0) || ratio > *ratio_out ||
            (ratio == *ratio_out && clocks[i].watts_s >= clocks[best].watts_s))
            continue;
        *ratio_out = ratio;
        best = i;
    }
    return best;
}

static void power_price_change(struct lull_power_price *price, const struct lull_power_use *clocks,
                               uint32_t count, double factor)
{
    uint32_t at = first_clock(clocks, count);
    double ratio;

    assert(count > 0);
    power_price_add(&price->steps[0], &clocks[at], factor);
    for (uint32_t next; (next = next_clock(clocks, count, at, &ratio)) < count; at = next) {
        struct lull_power_use *const step =
            &price->steps[(size_t)ceil(ratio * LULL_POWER_PRICE_STEPS)];

        assert(ratio >= 0.0 && ratio <= 1.0);
        power_price_add(step, &clocks[at], -factor);
        power_price_add(step, &clocks[next], factor);
    }
}

void lull_power_price_add(struct lull_power_price *price, const struct lull_power_use *clocks,
                          uint32_t count)
{
    power_price_change(price, clocks, count, 1.0);
    price->count++;
}

void lull_power_price_remove(struct lull_power_price *price, const struct lull_power_use *clocks,
                             uint32_t count)
{
    assert(price->count > 0);
    power_price_change(price, clocks, count, -1.0);
    /* Removing the last job also removes rounding errors. */
    if (--price->count == 0)
        memset(price, 0, sizeof(*price));
}

double lull_power_price_ratio(const struct lull_power_price *price)
{
    struct lull_power_use sum = price->steps[0];
    double over_s = sum.watts_s - sum.gpus_s;
    double ratio = over_s > 0.0 ? 1.0 : 0.0;

    for (int i = 1; i <= LULL_POWER_PRICE_STEPS && over_s > 0.0; i++) {
        const double before_s = over_s;

        power_price_add(&sum, &price->steps[i], 1.0);
        over_s = sum.watts_s - sum.gpus_s;
        if (over_s <= 0.0)
            ratio = (i - 1 + before_s / (before_s - over_s)) / LULL_POWER_PRICE_STEPS;
    }
    return ratio;
}
