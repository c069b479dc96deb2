/*
 * Power smoothing of one GPU during a lease: the request, the settings before and by Lull, and
 * their restoration. Part of the device writer (writer.h), which owns one per GPU and decides when
 * the driver may be called. Lull changes the last preset, activates it, and switches smoothing on,
 * in this order and one call at a time; it undoes them with the switch first. Smoothing that
 * another program has switched on, or for which an administrator has fixed a value, stays
 * unchanged. A setting that is neither the one before nor Lull's was changed by another program
 * meanwhile, and all of them are then left as they are. Another floor follows after the old one was
 * undone.
 *
 * Threads: the writer's one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_SMOOTHING_CONTROL_H
#define LULL_DEVICE_SMOOTHING_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"
#include "device/device.h"

struct lull_smoothing_control {
    bool is_allowed; /* this lease may request smoothing */
    struct lull_smoothing wanted;
    bool is_own; /* Lull may have changed the settings, as in the journal: */
    uint32_t before[LULL_SMOOTHING_ITEMS];
    uint32_t written[LULL_SMOOTHING_ITEMS];
    bool has_pending;
    uint64_t sequence; /* number of the latest request */
    int item;          /* to be changed by act(); -1: nothing */
    uint32_t value;
    int64_t next_ns; /* the driver is not called before this time */
    uint32_t failures;
    /* Outcome of the latest request, as in struct lull_limit_result. */
    uint64_t done_sequence;
    int32_t status;
    uint32_t floor_w;
};

/* Starts a lease. A zeroed control is valid for a GPU that was never leased. */
void lull_smoothing_control_begin(struct lull_smoothing_control *control, bool is_allowed);

/* Restores what was there before Lull: at the end of a lease, or while it continues. */
void lull_smoothing_control_undo(struct lull_smoothing_control *control, int64_t now_ns);

/* Takes over settings that an earlier process has changed and not restored. */
void lull_smoothing_control_inherit(struct lull_smoothing_control *control,
                                    const uint32_t before[LULL_SMOOTHING_ITEMS],
                                    const uint32_t written[LULL_SMOOTHING_ITEMS]);

/* Takes a request; the latest one wins. Errors: -EACCES the lease may not request smoothing. */
int lull_smoothing_control_take(struct lull_smoothing_control *control,
                                const struct lull_limit_request *request);

/* Returns the time at which to call look() and act(); INT64_MAX: never. */
int64_t lull_smoothing_control_due_ns(const struct lull_smoothing_control *control);

/*
 * Reads the settings and chooses the next change. before and written belong in the journal before
 * act() if is_own is set. Errors, after which act() must not be called: -EBUSY another program uses
 * smoothing; LULL_E_NOT_APPLIED the last change had no effect; the driver's.
 */
int lull_smoothing_control_look(struct lull_smoothing_control *control,
                                struct lull_devices *devices, uint32_t gpu, struct lull_error *err);

/* Makes at most one driver call; look() verifies it. Returns the driver's error. */
int lull_smoothing_control_act(struct lull_smoothing_control *control, struct lull_devices *devices,
                               uint32_t gpu, struct lull_error *err);

/* Notes a failure. The request is given up; a restoration is repeated after a growing pause. */
void lull_smoothing_control_fail(struct lull_smoothing_control *control, int status);

/* Returns whether nothing that Lull has changed is left to be restored. */
static inline bool lull_smoothing_control_is_restored(const struct lull_smoothing_control *control)
{
    return !control->is_own || control->wanted.floor_percent != 0;
}

#endif
