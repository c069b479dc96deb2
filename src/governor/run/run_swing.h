/*
 * Run swing: power swings of a job's GPUs at the reference and managed, from the readings of a run
 * (core/energy/swing.h).
 *
 * Iterations are at the reference if no GPU of the job was lowered by more than one step of its
 * clocks (the calibration's pulses are one step). Iterations are managed if they come after the
 * settling and a GPU was lowered or a power limit was held. Pieces of both have equal lengths.
 * Power is read ten times a second, and sensors refresh no faster. So swings above 5 Hz affect the
 * peak to peak, and appear in the band at another frequency.
 *
 * Threads: one; the controls are stopped. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_SWING_H
#define LULL_GOVERNOR_RUN_RUN_SWING_H

#include "core/energy/swing.h"
#include "core/energy/swing_limit.h"
#include "governor/control/control.h"

struct lull_run_swing {
    struct lull_swing reference;
    struct lull_swing managed;
    double piece_s;     /* length of a piece */
    double lowest_hz;   /* the band that pieces of that length, and readings, can show */
    double highest_hz;  /* likewise */
    const char *reason; /* why they cannot be compared; NULL: they can */
    bool is_wider; /* wider than at the reference by more than is allowed, beyond the statistical
                      error */
};

/*
 * Computes both sides, of the managed run from since_ns on. unmanaged: the control of a run of the
 * same command without management, all of which is at the reference; NULL: there is none, and the
 * parts of the managed run at the reference count instead. allowed_ratio: how much wider managed
 * swings may be, >= 0.
 */
void lull_run_swing_compute(const struct lull_control *managed,
                            const struct lull_control *unmanaged, double allowed_ratio,
                            int64_t since_ns, struct lull_run_swing *swing_out);

/* Time between the values that are made of power readings. */
#define LULL_RUN_SWING_STEP_S 0.1

/* Adds a GPU's power to count values from begin_ns on, a step apart; NAN where it was not read. */
void lull_run_swing_powers(const struct lull_run_log *log, int64_t begin_ns, uint32_t count,
                           double *powers_w);

enum { LULL_RUN_SWING_TEXT = 512 };

/*
 * Writes a sentence about what is given up, or was for a time, because the swings were too wide
 * while the job ran, and about the evidence. NULL: nothing was given up. text has
 * LULL_RUN_SWING_TEXT bytes.
 */
const char *lull_run_swing_given_up(const struct lull_swing_limit *limit, char *text);

#endif
