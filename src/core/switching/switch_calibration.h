/*
 * Calibration: a few pulses of one clock step, down and up, that tell what switching costs on this
 * GPU before anything depends on it. One step slows computation by about 1 % for a tenth of a
 * second: no job can feel it. An edge waits until the driver has returned from the one before, so
 * that a driver that blocks for long is measured as it is, and at no cost.
 *
 * Pure; caller's storage; times are ns of one monotonic clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_SWITCH_CALIBRATION_H
#define LULL_CORE_SWITCHING_SWITCH_CALIBRATION_H

#include <stdbool.h>
#include <stdint.h>

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

/* What it would measure is known already: it counts as having run to its end. */
void lull_switch_calibration_skip(struct lull_switch_calibration *calibration);

/* Starts the pulses unless they have been started, or skipped, before. */
void lull_switch_calibration_start(struct lull_switch_calibration *calibration, int64_t now_ns);

/* What was measured holds no longer: it counts as never started. Call stop first. */
void lull_switch_calibration_forget(struct lull_switch_calibration *calibration);

/*
 * True when an edge is due; *point_out is 1 (one step down) or 0. is_busy: the driver has yet to
 * answer a request. If it is not busy and has not answered an edge for a while, it never will.
 */
bool lull_switch_calibration_poll(struct lull_switch_calibration *calibration, int64_t now_ns,
                                  bool is_busy, uint32_t *point_out);

/* The driver has returned from a call for this GPU. */
void lull_switch_calibration_take_call(struct lull_switch_calibration *calibration, int64_t now_ns);

/* Ends it early. True if a pulse was low: the clock must be raised. */
bool lull_switch_calibration_stop(struct lull_switch_calibration *calibration);

bool lull_switch_calibration_runs(const struct lull_switch_calibration *calibration);

/* True once it has run to its end, results and all. */
bool lull_switch_calibration_done(const struct lull_switch_calibration *calibration);

int64_t lull_switch_calibration_wake_ns(const struct lull_switch_calibration *calibration);

#endif
