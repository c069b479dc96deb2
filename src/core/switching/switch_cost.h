/*
 * The time cost of changing an operating point, learnt from the changes themselves: one side of
 * the break-even of a section (the design, "Control").
 *
 * For each GPU and direction: how long the driver call blocked and how long the clock took to
 * settle. Before the first measurement a prior of 5 + 20 ms holds (V100, published). Old changes
 * are discarded: quantiles and tails have windows. Pure; caller's storage; zero-initialised knows
 * nothing.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_SWITCH_COST_H
#define LULL_CORE_SWITCHING_SWITCH_COST_H

#include <stdbool.h>
#include <stdint.h>

#include "core/stats/quantile.h"

/*
 * The outcome of one change of an operating point, as reported to the requester. The report comes
 * some time after the change, so use effect_ns where the time of the change matters.
 */

struct lull_switch_outcome {
    uint32_t was_point; /* the point before */
    uint32_t point;
    double call_ms;   /* from the request until the driver call returned */
    double driver_ms; /* the part of it inside the driver */
    double settle_ms; /* time from the return until the clock followed; if the change was overtaken,
                         the observed time without following; < 0: it never followed; NAN: not
                         observed */
    double unsure_ms; /* error bound of settle_ms; 0: exact, or overtaken */
    int64_t effect_ns; /* the return plus settle_ms; the return where it was not observed */
    bool overtaken;    /* changed again before the clock was seen to follow */
    bool failed;       /* refused: the GPU does not switch at all */
};

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
 * Adds the change that an outcome reports; its call counts as call_ms. A change that was overtaken
 * took at least as long as reported: that is ignored unless it is longer than typical, because it
 * would make clocks look quicker than they are.
 */
void lull_switch_cost_add_outcome(struct lull_switch_cost *cost, enum lull_direction direction,
                                  double call_ms, const struct lull_switch_outcome *outcome);

/*
 * The most likely outcome of a change that was observed coarsely, because a clock is read only at
 * intervals and not while its driver is busy. `known`: of GPUs of its model, with the time inside
 * the driver for their calls. If some of the last changes took as long as this one can have taken,
 * it is taken to be like these; one that was overtaken or not observed, like the typical one, if
 * that is longer.
 */
struct lull_switch_outcome lull_switch_cost_likely(const struct lull_switch_cost *known,
                                                   enum lull_direction direction,
                                                   const struct lull_switch_outcome *outcome);

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
 * Returns the time, ms > 0, before which a lowering takes effect in at
 * most this share of all cases, observed or extrapolated; share in (0, 1).
 */
double lull_switch_cost_sure_ahead_ms(const struct lull_switch_cost *cost, double early_share);

/*
 * Returns the lead, ms, with which a raising is late in at most this
 * share of all cases, observed or extrapolated; share in (0, 1).
 */
double lull_switch_cost_sure_lead_ms(const struct lull_switch_cost *cost, double late_share);

/* ---- calibration --------------------------------------------------------------------------- */

/*
 * A few pulses of one clock step, down and up, that measure what switching costs on this GPU before
 * anything depends on it. One step slows computation by about 1 % for a tenth of a second: too
 * little to affect a job. An edge waits until the driver has returned from the one before, so that
 * a driver that blocks for long is measured correctly and without cost to the job.
 *
 * Pure; caller's storage; times are ns of one monotonic clock.
 */

enum { LULL_CALIBRATION_PULSES = 5 };

extern const int64_t lull_switch_calibration_pulse_ns;

struct lull_switch_calibration {
    uint32_t index;      /* of the GPU: pulses of different GPUs do not meet in the driver */
    uint32_t edges_left; /* downs and ups still to come */
    bool started;
    bool low;
    bool waits; /* for the driver to return from the last edge */
    int64_t edge_ns;
    int64_t next_ns;
};

void lull_switch_calibration_init(struct lull_switch_calibration *calibration, uint32_t index);

/* Skips the pulses because their result is known: they count as complete. */
void lull_switch_calibration_skip(struct lull_switch_calibration *calibration);

/* Starts the pulses unless they have been started, or skipped, before. */
void lull_switch_calibration_start(struct lull_switch_calibration *calibration, int64_t now_ns);

/* Discards the measurement: the pulses count as never started. Call stop first. */
void lull_switch_calibration_forget(struct lull_switch_calibration *calibration);

/*
 * True when an edge is due; *point_out is 1 (one step down) or 0. is_busy: the driver has yet to
 * answer a request. If it is not busy and has not answered an edge for a while, it never will.
 */
bool lull_switch_calibration_poll(struct lull_switch_calibration *calibration, int64_t now_ns,
                                  bool is_busy, uint32_t *point_out);

/* The driver has returned from a call for this GPU. */
void lull_switch_calibration_take_call(struct lull_switch_calibration *calibration, int64_t now_ns);

/* Ends the pulses early. Returns true if a pulse was low: the clock must be raised. */
bool lull_switch_calibration_stop(struct lull_switch_calibration *calibration);

bool lull_switch_calibration_runs(const struct lull_switch_calibration *calibration);

/* Returns whether the pulses are complete, including their results. */
bool lull_switch_calibration_done(const struct lull_switch_calibration *calibration);

int64_t lull_switch_calibration_wake_ns(const struct lull_switch_calibration *calibration);

#endif
