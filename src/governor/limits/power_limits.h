/*
 * `lull run --power-limit`: holds a power limit while the job runs, or finds one. It takes the
 * limit from a stored profile of the program. Without a profile it measures the limits on the
 * running job (core/tuning/limit_search.h), chooses one, stores the profile and holds the limit.
 * Iterations come from the probes, energies from the GPUs' counters.
 *
 * All GPUs of the job, of one model, move together. Limits go through the device writer, never
 * above what the administrator had set, and are back at that when the job ends, however it ends.
 *
 * Threads: the main thread; tick takes the control's lock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_LIMITS_POWER_LIMITS_H
#define LULL_GOVERNOR_LIMITS_POWER_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/tuning/limit_search.h"
#include "governor/control/control.h"
#include "governor/run/run_log.h"
#include "store/limit_profiles.h"

struct lull_limits_options {
    bool is_wanted;
    double fixed_w;                         /* this limit is held; 0: one is searched for */
    struct lull_limit_search_config search; /* the job's price is filled in here */
    double step_w;
    bool clocks; /* search SM clocks under the best limit afterwards */
    bool afresh; /* profile even if a profile is stored */
};

/* Sets the slices and the selector of limit_search.h, and steps of 25 W. */
void lull_limits_options_default(struct lull_limits_options *options);

struct lull_limits;

/* Borrows options, command and devices until destroy. NULL: out of memory. */
struct lull_limits *lull_limits_create(const struct lull_limits_options *options,
                                       char *const *command, struct lull_devices *devices);
void lull_limits_destroy(struct lull_limits *limits);

/* The fields to read of that GPU of the control, enum lull_reading_field; 0: nothing. Request them
 * every 50 ms. The driver may hang in a reading, so the owner reads. */
uint32_t lull_limits_wanted(const struct lull_limits *limits, const struct lull_control *control,
                            uint32_t gpu, int64_t now_ns);

/* Takes what was read of that GPU of the control, of which wanted was requested. */
void lull_limits_take(struct lull_limits *limits, uint32_t gpu, uint32_t wanted,
                      const struct lull_sample *sample);

/* Withdraws the limit being tried, because the GPUs can no longer be read. A held limit stays.
 * note_out as for tick. */
void lull_limits_go_blind(struct lull_limits *limits, struct lull_control *control,
                          struct lull_error *note_out);

/* Performs the next step; call it every 50 ms. note_out is set if there is a message for the user;
 * otherwise its code is 0. */
void lull_limits_tick(struct lull_limits *limits, struct lull_control *control,
                      struct lull_error *note_out);

/* Requests again what was requested last: the leases were lost, and taken again. The piece under
 * way is dropped, with the job's iterations in the meantime. */
void lull_limits_resume(struct lull_limits *limits, struct lull_control *control);

/* Sets note_out if the job ended before a limit was found; otherwise its code is 0. */
void lull_limits_end(const struct lull_limits *limits, struct lull_error *note_out);

/* Result of the limits, for the report. */
struct lull_limits_summary {
    const char *state; /* "held", "profiling", ... */
    bool is_held;
    double held_w;      /* requested limit; valid with is_held */
    double read_w;      /* the highest that a GPU of the job has read back; NAN: none has yet */
    bool is_given;      /* given by the user, so that no search was needed */
    bool is_stored;     /* the profile was there before the run */
    double profiling_s; /* of the job */
    uint32_t pruned;    /* operating points that the search left out; 0 for a stored profile */
    const struct lull_limit_skip *skips; /* the pruned ones that were dominated; borrowed */
    uint32_t skip_count;
    const struct lull_limit_profile *profile; /* NULL: there is none */
};
void lull_limits_summary(const struct lull_limits *limits, struct lull_limits_summary *summary_out);

#endif
