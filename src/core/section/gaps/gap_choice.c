/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/gaps/gap_choice.h"

#include <assert.h>
#include <math.h>

/*
 * The part of the share that may be late which lowerings that come early may use up. Latencies have
 * a long tail above and a short one below: halving this costs a fraction of a millisecond, halving
 * the rest costs several. */
static const double early_ratio = 0.125;
/* Latencies that hardly vary are not known better than by this factor, and by this much, which is
 * how often the clock is read. */
static const double sure_ratio = 0.97;
static const double reading_ms = 0.1;
/* Time that a gap must spend low to be worth two driver calls. */
static const double min_low_ms = 1.0;

static double ahead_for(const struct lull_switch_cost *cost, double late_share)
{
    return sure_ratio * lull_switch_cost_sure_ahead_ms(cost, early_ratio * late_share);
}

static double lead_for(const struct lull_switch_cost *cost, double late_share)
{
    return lull_switch_cost_sure_lead_ms(cost, (1.0 - early_ratio) * late_share) + reading_ms;
}

void lull_gap_need_find(const struct lull_switch_cost *cost, double late_share,
                        struct lull_gap_need *need_out)
{
    assert(late_share > 0.0);
    const double call_ms = lull_switch_cost_call_ms(cost, LULL_DIRECTION_UP, 0.9);
    const double ahead_ms = ahead_for(cost, late_share);
    const double lead_ms = lead_for(cost, late_share);

    *need_out = (struct lull_gap_need){
        .ahead_ms = ahead_ms,
        .lead_ms = lead_ms,
        .ahead_scale_ms = ahead_ms - ahead_for(cost, late_share / M_E),
        .lead_scale_ms = lead_for(cost, late_share / M_E) - lead_ms,
        .call_ms = call_ms,
        .min_ms = fmax(lead_ms - ahead_ms + fmax(call_ms, min_low_ms), lead_ms),
    };
}

uint32_t lull_gap_choose(const double *lengths_ms, uint32_t count, uint32_t most,
                         const struct lull_switch_cost *cost, double late_share)
{
    double sum_ms = 0.0;
    double best_ms = 0.0;
    uint32_t best = 0;

    for (uint32_t k = 1; k <= count && k <= most; k++) {
        struct lull_gap_need need;
        double low_ms;

        lull_gap_need_find(cost, late_share / k, &need);
        if (!(lengths_ms[k - 1] > need.min_ms))
            break;
        sum_ms += lengths_ms[k - 1];
        low_ms = sum_ms - k * (need.lead_ms - need.ahead_ms);
        if (low_ms > best_ms) {
            best_ms = low_ms;
            best = k;
        }
    }
    return best;
}

/* ---- whether a GPU was low outside its gaps ------------------------------------------------ */

void lull_low_interval_gap_begins(struct lull_low_interval *low, int64_t time_ns)
{
    const uint32_t slot = low->gap_count++ % LULL_LOW_INTERVAL_GAPS;

    low->gaps[slot].begin_ns = time_ns;
    low->gaps[slot].end_ns = INT64_MAX;
}

void lull_low_interval_gap_ends(struct lull_low_interval *low, int64_t time_ns)
{
    if (low->gap_count == 0)
        return;
    if (low->gaps[(low->gap_count - 1) % LULL_LOW_INTERVAL_GAPS].end_ns == INT64_MAX)
        low->gaps[(low->gap_count - 1) % LULL_LOW_INTERVAL_GAPS].end_ns = time_ns;
}

void lull_low_interval_lowered(struct lull_low_interval *low, int64_t effect_ns)
{
    if (!low->is_low)
        low->from_ns = effect_ns;
    low->is_low = true;
}

bool lull_low_interval_raised(struct lull_low_interval *low, int64_t effect_ns)
{
    if (!low->is_low)
        return false;
    low->is_low = false;
    if (effect_ns <= low->from_ns)
        return false;
    assert(!low->is_low && effect_ns > low->from_ns);
    for (uint32_t i = 0; i < low->gap_count && i < LULL_LOW_INTERVAL_GAPS; i++)
        if (low->gaps[i].begin_ns <= low->from_ns && effect_ns <= low->gaps[i].end_ns)
            return false;
    return true;
}
