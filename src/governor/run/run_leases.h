/*
 * Run leases: acquires the leases of a run, keeps them, and acquires them again after lulld has
 * revoked one or has died. Until then no clock is lowered and the current test waits. Earlier
 * results stay valid.
 *
 * Threads: the main thread. It waits only for a daemon that has just sent its greeting.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_RUN_RUN_LEASES_H
#define LULL_GOVERNOR_RUN_RUN_LEASES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "governor/control/actuator.h"
#include "governor/control/control.h"

/* Zero-initialised: no actuator, and none is searched. */
struct lull_run_leases {
    const char *runtime_dir;
    struct lull_devices *devices;   /* the devices if this process drives them; else NULL */
    struct lull_actuator *actuator; /* NULL: the run is not managed now */
    struct lull_actuator *greeting; /* a connection that the daemon has not greeted yet */
    bool is_lost;                   /* leases are to be taken again... */
    bool is_paused;                 /* ...but not before the run is resumed */
    int64_t next_ns;                /* when to try that */
    int64_t wait_ns;                /* time from that to the next attempt */
};

/* Change of the leases in a tick. */
enum lull_run_leases_change {
    LULL_RUN_LEASES_KEPT, /* nothing */
    LULL_RUN_LEASES_LOST,
    LULL_RUN_LEASES_BACK,
};

/* Opens the actuator: that of this process with no_daemon, else lulld's; runtime_dir and devices
 * are borrowed until close. Errors: those of actuator.h. */
int lull_run_leases_open(struct lull_run_leases *leases, struct lull_devices *devices,
                         const char *runtime_dir, bool no_daemon, struct lull_error *err);

/* Releases all GPUs. The control must no longer use the actuator. Error: -EINPROGRESS devices must
 * stay (lull_actuator_close). */
int lull_run_leases_close(struct lull_run_leases *leases);

/* Releases all GPUs until the run is resumed. They are at the reference when this returns, unless
 * the driver is slow. Error: as lull_run_leases_close. */
int lull_run_leases_pause(struct lull_run_leases *leases, struct lull_control *control);
void lull_run_leases_resume(struct lull_run_leases *leases, int64_t now_ns);

/* Renews the leases, or retries to acquire them: soon at first, later at intervals of at most 1.5
 * s. Call it many times a second. After a change text_out has the message for the user. */
enum lull_run_leases_change lull_run_leases_tick(struct lull_run_leases *leases,
                                                 struct lull_control *control, int64_t now_ns,
                                                 struct lull_error *text_out);

#endif
