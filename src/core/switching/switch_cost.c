/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/switch_cost.h"

#include <assert.h>
#include <math.h>

/* What a change takes before any has been seen: V100, published. */
static const double prior_call_ms = 5.0;
static const double prior_settle_ms = 20.0;
/* A clock that never settled counts as having taken this long. Chosen, not measured: longer than
 * any that does settle. */
static const double never_settled_ms = 300.0;

void lull_switch_cost_add(struct lull_switch_cost *cost, enum lull_direction direction,
                          double call_ms, double settle_ms)
{
    const double total_ms = call_ms + (settle_ms < 0.0 ? never_settled_ms : settle_ms);

    assert(direction < LULL_DIRECTION_COUNT);
    if (!isfinite(call_ms) || !isfinite(settle_ms) || call_ms < 0.0)
        return;
    lull_quantile_add(&cost->call_ms[direction], call_ms);
    lull_quantile_add(&cost->total_ms[direction], total_ms);
    if (direction == LULL_DIRECTION_UP)
        lull_recent_tail_add(&cost->slowest_up_ms, total_ms);
    else
        lull_recent_tail_add(&cost->quickest_down, -log(total_ms)); /* of 0 ms: ignored */
}

void lull_switch_cost_add_outcome(struct lull_switch_cost *cost, enum lull_direction direction,
                                  double call_ms, const struct lull_switch_outcome *outcome)
{
    if (!outcome->overtaken ||
        call_ms + outcome->settle_ms > lull_switch_cost_total_ms(cost, direction, 0.5))
        lull_switch_cost_add(cost, direction, call_ms, outcome->settle_ms);
}

double lull_switch_cost_call_ms(const struct lull_switch_cost *cost, enum lull_direction direction,
                                double p)
{
    const struct lull_quantile *const seen = &cost->call_ms[direction];

    if (seen->count == 0)
        return prior_call_ms;
    return lull_quantile_get(seen, p);
}

double lull_switch_cost_total_ms(const struct lull_switch_cost *cost, enum lull_direction direction,
                                 double p)
{
    const struct lull_quantile *const seen = &cost->total_ms[direction];

    if (seen->count == 0)
        return prior_call_ms + prior_settle_ms;
    return lull_quantile_get(seen, p);
}

double lull_switch_cost_lead_ms(const struct lull_switch_cost *cost, double allowed_ms)
{
    const struct lull_quantile *const seen = &cost->total_ms[LULL_DIRECTION_UP];

    if (seen->count == 0)
        return fmax(prior_call_ms + prior_settle_ms - fmax(allowed_ms, 0.0), 0.0);
    return lull_quantile_threshold(seen, allowed_ms);
}

double lull_switch_cost_sure_lead_ms(const struct lull_switch_cost *cost, double late_share)
{
    if (cost->slowest_up_ms.newer.count == 0)
        return 2.0 * (prior_call_ms + prior_settle_ms);
    return lull_recent_tail_exceeded(&cost->slowest_up_ms, late_share);
}

double lull_switch_cost_sure_ahead_ms(const struct lull_switch_cost *cost, double early_share)
{
    if (cost->quickest_down.newer.count == 0)
        return prior_call_ms / 2.0;
    return exp(-lull_recent_tail_exceeded(&cost->quickest_down, early_share));
}
