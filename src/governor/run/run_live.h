/*
 * The live state of a pass: the data that `lull top` and `lull serve` show of it (wire/live.h),
 * collected here a few times a second, and their requests to it.
 *
 * Threads: the main thread; gathering holds the control's lock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_LIVE_H
#define LULL_GOVERNOR_RUN_RUN_LIVE_H

#include "governor/run/run_log.h"
#include "wire/live.h"

struct lull_run_pass;

/* The latest readings of a GPU. */
struct lull_run_live_reading {
    uint32_t asked; /* enum lull_reading_field: what has been requested at all */
    uint32_t ever;  /* ...and which fields have been read at least once */
    bool is_lost;   /* the last reading had no fields, although an earlier one had */
    struct lull_device_reading last;
};

struct lull_run_live {
    struct lull_live_writer *writer; /* NULL: nothing is published */
    struct lull_live_run *run;
    struct lull_run_live_reading readings[LULL_CONTROLLER_MAX_GPUS];
    enum lull_live_asked asked;
    bool is_stuck; /* the driver does not return from a reading of... */
    uint32_t stuck_gpu;
};

/* Begins to publish a pass that has a control. A failure is noted; the job runs without. */
void lull_run_live_open(struct lull_run_pass *pass);

/* Stops publishing the run. */
void lull_run_live_close(struct lull_run_live *live);

/* Takes what was read of a GPU of the control, of which wanted was requested. */
void lull_run_live_take(struct lull_run_live *live, uint32_t gpu, uint32_t wanted,
                        const struct lull_device_reading *reading);

/* Publishes the state as of now. */
void lull_run_live_show(struct lull_run_pass *pass, int64_t now_ns);

/* Returns whether there is a new request to the run; *asked_out has it. */
bool lull_run_live_take_request(struct lull_run_live *live, enum lull_live_asked *asked_out);

#endif
