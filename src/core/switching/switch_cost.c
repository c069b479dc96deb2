/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/switch_cost.h"

#include <assert.h>
#include <math.h>

#include "base/clock.h"

/* The time of a change before any has been observed: V100, published. */
static const double prior_call_ms = 5.0;
static const double prior_settle_ms = 20.0;
/* A clock that never settled counts as having taken this long. Default: longer than
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

/*
 * Estimates a value that is known only to lie within unsure >= 0 of `middle`. It is the mean of the
 * known values within these bounds. If there are none, it is the bound nearest to a known value,
 * provided that value is no further away from the bound than the bounds are from each other;
 * otherwise it is `middle`, because the value is new. So repeated estimates of one true value lie
 * between the first guess and the truth, and no reading moves them away from it.
 */
static double likely_value(const struct lull_quantile *known, double middle, double unsure)
{
    double sum = 0.0;
    double nearest = INFINITY; /* distance from the middle */
    double towards = 0.0;
    uint32_t count = 0;

    for (uint32_t i = 0; i < known->count; i++) {
        const double distance = known->values[i] - middle;

        if (fabs(distance) <= unsure) {
            sum += known->values[i];
            count++;
        } else if (fabs(distance) < nearest) {
            nearest = fabs(distance);
            towards = copysign(unsure, distance);
        }
    }
    if (count > 0)
        return sum / count;
    return nearest <= 3.0 * unsure ? middle + towards : middle;
}

struct lull_switch_outcome lull_switch_cost_likely(const struct lull_switch_cost *known,
                                                   enum lull_direction direction,
                                                   const struct lull_switch_outcome *outcome)
{
    const struct lull_quantile *const seen = &known->total_ms[direction];
    const bool is_unseen = isnan(outcome->settle_ms);
    const double settle_ms = is_unseen ? 0.0 : outcome->settle_ms;
    const double total_ms = outcome->driver_ms + settle_ms;
    struct lull_switch_outcome likely = *outcome;
    double later_ms = 0.0;

    assert(direction < LULL_DIRECTION_COUNT && outcome->unsure_ms >= 0.0);
    if (seen->count == 0 || settle_ms < 0.0)
        return likely;
    if (outcome->overtaken || is_unseen)
        later_ms = fmax(lull_quantile_get(seen, 0.5) - total_ms, 0.0);
    else if (outcome->unsure_ms > 0.0)
        later_ms = likely_value(seen, total_ms, outcome->unsure_ms) - total_ms;
    likely.settle_ms = settle_ms + later_ms;
    likely.effect_ns += lull_ns_from_ms(later_ms);
    return likely;
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

/* ---- calibration --------------------------------------------------------------------------- */

/* A pulse lasts longer than a typical call and its settling: about 5 and 20 ms (published, V100).
 */
const int64_t lull_switch_calibration_pulse_ns = INT64_C(100000000);
/* The first pulses of two GPUs are this far apart: longer than a typical call takes. */
static const int64_t stagger_ns = INT64_C(12000000);
/* The clock gets this long to follow a call that has returned. */
static const int64_t settle_ns = INT64_C(50000000);
/* A request that the driver is not working on and has not reported on for this long is lost. */
static const int64_t patience_ns = INT64_C(1000000000);

void lull_switch_calibration_init(struct lull_switch_calibration *calibration, uint32_t index)
{
    *calibration = (struct lull_switch_calibration){.index = index, .next_ns = INT64_MAX};
}

void lull_switch_calibration_skip(struct lull_switch_calibration *calibration)
{
    calibration->started = true;
}

void lull_switch_calibration_start(struct lull_switch_calibration *calibration, int64_t now_ns)
{
    if (calibration->started)
        return;
    calibration->started = true;
    /* One edge more than the pulses need: the last one only waits for the result of the one before.
     */
    calibration->edges_left = 2 * LULL_CALIBRATION_PULSES + 1;
    calibration->next_ns = now_ns + (int64_t)calibration->index * stagger_ns;
}

void lull_switch_calibration_forget(struct lull_switch_calibration *calibration)
{
    lull_switch_calibration_init(calibration, calibration->index);
}

void lull_switch_calibration_take_call(struct lull_switch_calibration *calibration, int64_t now_ns)
{
    if (calibration->waits && calibration->next_ns < now_ns + settle_ns)
        calibration->next_ns = now_ns + settle_ns;
    calibration->waits = false;
}

bool lull_switch_calibration_poll(struct lull_switch_calibration *calibration, int64_t now_ns,
                                  bool is_busy, uint32_t *point_out)
{
    if (!lull_switch_calibration_runs(calibration) || now_ns < calibration->next_ns)
        return false;
    if (calibration->waits && (is_busy || now_ns < calibration->edge_ns + patience_ns))
        return false;
    assert(calibration->started);
    calibration->edges_left--;
    if (calibration->edges_left == 0) {
        calibration->next_ns = INT64_MAX;
        return false;
    }
    calibration->low = !calibration->low;
    calibration->waits = true;
    calibration->edge_ns = now_ns;
    calibration->next_ns = now_ns + lull_switch_calibration_pulse_ns;
    *point_out = calibration->low;
    return true;
}

bool lull_switch_calibration_stop(struct lull_switch_calibration *calibration)
{
    bool low = calibration->low;

    calibration->low = false;
    calibration->waits = false;
    calibration->edges_left = 0;
    calibration->next_ns = INT64_MAX;
    return low;
}

bool lull_switch_calibration_runs(const struct lull_switch_calibration *calibration)
{
    return calibration->edges_left > 0;
}

bool lull_switch_calibration_done(const struct lull_switch_calibration *calibration)
{
    return calibration->started && calibration->edges_left == 0;
}

int64_t lull_switch_calibration_wake_ns(const struct lull_switch_calibration *calibration)
{
    if (!lull_switch_calibration_runs(calibration) || calibration->waits)
        return INT64_MAX;
    return calibration->next_ns;
}
