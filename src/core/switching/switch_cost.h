/*
 * What changing an operating point costs in time, learnt from the changes themselves: one side of
 * the break-even of a section (the design, "Control").
 *
 * For each GPU and direction: how long the driver call blocked and how long the clock took to
 * settle. Before the first measurement a prior of 5 + 20 ms holds (V100, published). Old changes
 * are forgotten: quantiles and tails have windows. Pure; caller's storage; zero-initialised knows
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_SWITCH_COST_H
#define LULL_CORE_SWITCHING_SWITCH_COST_H

#include "core/switching/switch_outcome.h"
#include "core/stats/quantile.h"
#include "core/stats/upper_tail.h"

enum lull_direction { LULL_DIRECTION_DOWN, LULL_DIRECTION_UP, LULL_DIRECTION_COUNT };

struct lull_switch_cost {
    struct lull_quantile call_ms[LULL_DIRECTION_COUNT];
    struct lull_quantile total_ms[LULL_DIRECTION_COUNT]; /* call + settle */
    struct lull_recent_tail
        slowest_up_ms; /* call + settle of the last one or two thousand raisings */
    struct lull_recent_tail quickest_down; /* of the last lowerings: -log of the same in ms */
};

/*
 * Adds one observed change; settle_ms < 0: never settled, counts as 300 ms. Ignored if call_ms is
 * negative or either is not finite.
 */
void lull_switch_cost_add(struct lull_switch_cost *cost, enum lull_direction direction,
                          double call_ms, double settle_ms);

/*
 * Adds the change that an outcome tells of; its call counts as call_ms. A change that was overtaken
 * took at least as long as told: that is ignored unless it is longer than usual, because it would
 * make clocks look quicker than they are.
 */
void lull_switch_cost_add_outcome(struct lull_switch_cost *cost, enum lull_direction direction,
                                  double call_ms, const struct lull_switch_outcome *outcome);

/* The p-quantile of call and of call + settle, with the prior where nothing was seen. ms. */
double lull_switch_cost_call_ms(const struct lull_switch_cost *cost, enum lull_direction direction,
                                double p);
double lull_switch_cost_total_ms(const struct lull_switch_cost *cost, enum lull_direction direction,
                                 double p);

/*
 * The smallest lead >= 0 with which raising is late by at most allowed_ms on average, ms: the mean
 * of max(total - lead, 0) over the window is <= allowed_ms. allowed_ms 0 (or less): never late
 * within the window.
 */
double lull_switch_cost_lead_ms(const struct lull_switch_cost *cost, double allowed_ms);

/*
 * A lowering has effect sooner than this in no more than this share of all cases, seen or
 * extrapolated, ms > 0; share in (0, 1).
 */
double lull_switch_cost_sure_ahead_ms(const struct lull_switch_cost *cost, double early_share);

/*
 * The lead with which raising is late in no more than this share of all cases, seen or
 * extrapolated, ms; share in (0, 1).
 */
double lull_switch_cost_sure_lead_ms(const struct lull_switch_cost *cost, double late_share);

#endif
