/*
 * `lull run --swing-bound`: keeps the power swings of a job below a bound by the driver's power
 * smoothing, if its GPUs have it and the policy permits it.
 *
 * It records the job's power at the reference for some seconds and plans a floor
 * (core/energy/smoothing_plan.h). Then it tests this floor on the running job: blocks of iterations
 * with and without smoothing alternate in random order, in pairs for the guard
 * (core/stats/guard.h). Swings, energy and time of the blocks show what the floor does. A floor
 * that costs more energy than permitted, or with which the job looks slower, is lowered, and one
 * that misses the bound is raised. Smoothing stays on if the guard has proven that the job is not
 * slower than tolerated. Otherwise it is off, and a sentence says why. Meanwhile no clock is
 * lowered: the control is held.
 *
 * Threads: the main thread; tick takes the control's lock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_LIMITS_POWER_SMOOTHING_H
#define LULL_GOVERNOR_LIMITS_POWER_SMOOTHING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/smoothing_plan.h"
#include "core/energy/swing.h"
#include "core/stats/guard.h"
#include "governor/control/control.h"

struct lull_power_smoothing_options {
    double bound_ratio;     /* of the swings over the mean power; 0: swings are not bounded */
    double tolerance_ratio; /* slowdown that is allowed */
    double confidence;
};

/* The most energy that a floor may add. */
#define LULL_POWER_SMOOTHING_MAX_ADDED 0.05

struct lull_power_smoothing;

/* NULL: out of memory. */
struct lull_power_smoothing *
lull_power_smoothing_create(const struct lull_power_smoothing_options *options);
void lull_power_smoothing_destroy(struct lull_power_smoothing *smoothing);

/* Performs the next step; call it every 50 ms. note_out is set if there is a message for the user;
 * otherwise its code is 0. */
void lull_power_smoothing_tick(struct lull_power_smoothing *smoothing, struct lull_control *control,
                               struct lull_error *note_out);

/* Requests again what was requested last: the leases were lost, and taken again. */
void lull_power_smoothing_resume(struct lull_power_smoothing *smoothing,
                                 struct lull_control *control);

/* Results, for the report. */
struct lull_power_smoothing_summary {
    bool is_held;       /* smoothing is on, proven not to slow the job down */
    const char *reason; /* why it is not; NULL: it is */
    int64_t held_ns;    /* time from which it is held */
    double bound_ratio;
    struct lull_smoothing settings; /* the last ones tested; a floor of 0: none */
    uint32_t floor_w;               /* of one GPU, as its driver applies it */
    struct lull_swing before;       /* swings of blocks without smoothing */
    struct lull_swing after;        /* swings of blocks with it */
    double added_ratio;             /* energy per iteration; NAN: not known */
    double added_low_ratio;         /* its interval, at the confidence of the run */
    double added_high_ratio;
    struct lull_guard_estimate slowdown;
};
void lull_power_smoothing_summary(const struct lull_power_smoothing *smoothing,
                                  struct lull_power_smoothing_summary *summary_out);

/* Returns whether the measured swings are within the bound. */
bool lull_power_smoothing_is_bounded(const struct lull_power_smoothing_summary *summary);

#endif
