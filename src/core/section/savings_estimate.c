/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/savings_estimate.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/switching/feed_forward.h"

static const double ms_per_ns = 1e-6;

/* The length from which on a section is worth switching. */
static double break_even_ns(const struct lull_switch_latency *latency)
{
    return lull_forecast_break_even_ms((double)latency->down_ns * ms_per_ns,
                                       (double)latency->up_ns * ms_per_ns) /
           ms_per_ns;
}

/* Adds the part of a gap that lies between two times. */
static void add_low(struct lull_switchable *sum, const struct lull_gap *gap, int64_t from_ns,
                    int64_t until_ns)
{
    const int64_t begin_ns = lull_later_ns(from_ns, gap->begin_ns);
    const int64_t end_ns = lull_earlier_ns(until_ns, gap->end_ns);

    if (end_ns <= begin_ns)
        return;

    assert(gap->end_ns > gap->begin_ns);
    const double low_ms = (double)(end_ns - begin_ns) * ms_per_ns;
    sum->gap_ms += low_ms;
    sum->communication_ms +=
        low_ms * (double)gap->communication_ns / (double)(gap->end_ns - gap->begin_ns);
}

void lull_switchable_ideal(const struct lull_gap *gaps, size_t count,
                           struct lull_switchable *switchable_out)
{
    struct lull_switchable sum = {.sections = count};

    for (size_t i = 0; i < count; i++)
        add_low(&sum, &gaps[i], gaps[i].begin_ns, gaps[i].end_ns);
    *switchable_out = sum;
}

/* Adds the section of the gaps first to last with the computation between them, if it pays. */
static void add_section(struct lull_switchable *sum, const struct lull_gap *gaps, size_t first,
                        size_t last, const struct lull_switch_latency *latency)
{
    const int64_t from_ns = gaps[first].begin_ns + latency->down_ns;
    const int64_t until_ns = gaps[last].end_ns - latency->up_ns;
    const double gap_before_ms = sum->gap_ms;
    const int64_t length_ns = gaps[last].end_ns - gaps[first].begin_ns;

    if ((double)length_ns <= break_even_ns(latency))
        return;
    for (size_t i = first; i <= last; i++)
        add_low(sum, &gaps[i], from_ns, until_ns);
    sum->sections++;
    sum->slowed_ms += (double)(until_ns - from_ns) * ms_per_ns - (sum->gap_ms - gap_before_ms);
}

void lull_switchable_alone(const struct lull_gap *gaps, size_t count,
                           const struct lull_switch_latency *latency,
                           struct lull_switchable *switchable_out)
{
    struct lull_switchable sum = {0};

    for (size_t i = 0; i < count; i++)
        add_section(&sum, gaps, i, i, latency);
    sum.slowed_ms = 0.0; /* rounding left a trace of it */
    *switchable_out = sum;
}

/* ---- merging ---- */

/* Origin of the best choices up to gap i. */
enum {
    STAYED = 1, /* low in gap i: low in the one before already */
    CLOSED = 2, /* high after gap i: low in it */
};

/* The best choice at a price, by dynamic programming over low and high; from[] to trace it back. */
static void savings_choose(const struct lull_gap *gaps, size_t count, double section_ns,
                           double price, uint8_t *from)
{
    double low = -INFINITY; /* of the best choice that is low in the gap before */
    double high = 0.0;      /* that is high after it */

    for (size_t i = 0; i < count; i++) {
        const int64_t bridge_ns = i > 0 ? gaps[i].begin_ns - gaps[i - 1].end_ns : 0;
        const double stay = low - price * (double)bridge_ns;
        const double enter = high - section_ns;

        low = fmax(stay, enter) + (double)(gaps[i].end_ns - gaps[i].begin_ns);
        from[i] = (uint8_t)((stay >= enter ? STAYED : 0) | (low > high ? CLOSED : 0));
        high = fmax(high, low);
    }
}

static struct lull_switchable savings_merge(const struct lull_gap *gaps, size_t count,
                                            const struct lull_switch_latency *latency, double price,
                                            uint8_t *from)
{
    struct lull_switchable sum = {0};
    bool is_low = false;
    size_t last = 0;

    savings_choose(gaps, count, break_even_ns(latency), price, from);
    for (size_t i = count; i-- > 0;) {
        if (!is_low) {
            is_low = (from[i] & CLOSED) != 0;
            last = i;
        }
        if (is_low && (from[i] & STAYED) == 0) {
            add_section(&sum, gaps, i, last, latency);
            is_low = false;
        }
    }
    return sum;
}

/* The higher the price, the less computation is slowed: bisection over its magnitude. */
int lull_switchable_merged(const struct lull_gap *gaps, size_t count,
                           const struct lull_switch_latency *latency, double allowed_slowed_ms,
                           struct lull_switchable *switchable_out)
{
    enum { HALVINGS = 48 };
    double too_low = 1e-9;
    double enough = 1e12; /* ns of gap per ns of computation: joins nothing */
    uint8_t *const from = malloc(lull_max_size(count, 1));

    if (from == NULL)
        return -ENOMEM;
    lull_switchable_alone(gaps, count, latency, switchable_out);
    for (int i = 0; i < HALVINGS; i++) {
        const double price = sqrt(too_low * enough);

        assert(too_low <= enough);
        const struct lull_switchable sum = savings_merge(gaps, count, latency, price, from);

        if (sum.slowed_ms > allowed_slowed_ms) {
            too_low = price;
            continue;
        }
        enough = price;
        if (sum.gap_ms > switchable_out->gap_ms)
            *switchable_out = sum;
    }
    free(from);
    return 0;
}

void lull_switchable_feed_forward(const struct lull_gap *gaps, size_t count,
                                  const struct lull_switch_latency *latency,
                                  struct lull_switchable *switchable_out)
{
    struct lull_switchable sum = {0};
    int64_t raised_ns = 0; /* when the driver was last done */

    for (size_t i = 0; i < count; i++) {
        const struct lull_gap *const gap = &gaps[i];
        const int64_t length_ns = gap->end_ns - gap->begin_ns;

        if (length_ns <= latency->down_ns + latency->up_ns)
            continue;
        add_low(&sum, gap, sum.sections > 0 ? raised_ns + latency->down_ns : gap->begin_ns,
                gap->end_ns);
        raised_ns = gap->end_ns;
        sum.sections++;
    }
    *switchable_out = sum;
}

double lull_exposure_energy_j(const struct lull_exposure *exposure,
                              const struct lull_power_levels *levels)
{
    const struct lull_power_level *const high = &levels->high;
    const int64_t gaps_ns = exposure->exposed_ns + exposure->idle_ns;

    return ((double)exposure->compute_ns * high->compute_w + (double)gaps_ns * high->idle_w +
            (double)exposure->communication_ns * high->communication_w) *
           1e-9;
}

double lull_savings_estimate_j(const struct lull_switchable *switchable,
                               const struct lull_power_levels *levels)
{
    const struct lull_power_level *const high = &levels->high;
    const struct lull_power_level *const low = &levels->low;

    return (switchable->gap_ms * (high->idle_w - low->idle_w) +
            switchable->communication_ms * (high->communication_w - low->communication_w) +
            switchable->slowed_ms * (high->compute_w - low->compute_w / levels->low_speed_ratio)) *
           1e-3;
}
