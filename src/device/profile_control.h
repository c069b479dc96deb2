/*
 * Power profiles of one GPU during a lease: the request, those that Lull has added, and their
 * removal. Part of the device writer (writer.h), which owns one per GPU and decides when the driver
 * may be called. A profile that another program has requested is never added or removed. Every
 * change is read back. The end of a lease removes what it has added, with retries until the device
 * agrees.
 *
 * Threads: the writer's one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_PROFILE_CONTROL_H
#define LULL_DEVICE_PROFILE_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"
#include "device/device.h"

struct lull_profile_control {
    uint32_t allowed; /* enum lull_power_profile; those that this lease may request */
    uint32_t wanted;  /* requested by this lease */
    uint32_t own;     /* those that Lull may have added, as in the journal */
    bool has_pending;
    uint64_t sequence;  /* number of the latest request */
    uint32_t to_add;    /* to be done by act() */
    uint32_t to_remove; /* before that */
    int64_t next_ns;    /* the driver is not called before this time */
    uint32_t failures;
    /* Outcome of the latest request, as in struct lull_limit_result. */
    uint64_t done_sequence;
    int32_t status;
    uint32_t enforced;
};

/* Starts a lease that may request these profiles. A zeroed control is valid for a GPU that was
 * never leased. */
void lull_profile_control_begin(struct lull_profile_control *control, uint32_t allowed);

/* Removes what was added: at the end of a lease, or while it continues. */
void lull_profile_control_undo(struct lull_profile_control *control, int64_t now_ns);

/* Takes over profiles that an earlier process has added and not removed. */
void lull_profile_control_inherit(struct lull_profile_control *control, uint32_t own);

/* Takes a request; the latest one wins. Errors: -EACCES the lease may not request all of these
 * profiles. */
int lull_profile_control_take(struct lull_profile_control *control,
                              const struct lull_limit_request *request);

/* Returns the time at which to call look() and act(); INT64_MAX: never. */
int64_t lull_profile_control_due_ns(const struct lull_profile_control *control);

/*
 * Reads which profiles are requested and sets to_add and to_remove. What act() will add belongs to
 * own and must be in the journal before. Errors, after which act() must not be called: -EAGAIN they
 * cannot be read.
 */
int lull_profile_control_look(struct lull_profile_control *control, struct lull_devices *devices,
                              uint32_t gpu, struct lull_error *err);

/* Makes at most one driver call and reads the result back. Sets *err if status is negative. */
void lull_profile_control_act(struct lull_profile_control *control, struct lull_devices *devices,
                              uint32_t gpu, struct lull_error *err);

/* Notes that the profiles could not even be tried: the next attempt follows after a growing pause.
 */
void lull_profile_control_fail(struct lull_profile_control *control, int status);

/* Returns whether nothing that Lull has added is left to be removed. */
bool lull_profile_control_is_restored(const struct lull_profile_control *control);

#endif
