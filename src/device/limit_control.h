/*
 * The power limit of one GPU during a lease: the request, the limit set, and its restoration. Part
 * of the device writer (writer.h), which owns one per GPU and decides when the driver may be
 * called. The limit from before the lease is the administrator's, and no limit is ever set above
 * it. Before every write the present limit is read. If it is neither the administrator's nor this
 * lease's, the administrator has set a new one meanwhile, which replaces the old one. Only a change
 * between this reading and the write is missed, since drivers cannot compare and set. Every write
 * is read back. The end of a lease restores the administrator's limit, with retries until the
 * device agrees.
 *
 * Threads: the writer's one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_LIMIT_CONTROL_H
#define LULL_DEVICE_LIMIT_CONTROL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/switch.h"
#include "device/device.h"

struct lull_limit_control {
    bool is_leased;
    uint32_t min_mw;     /* the lease's band */
    uint32_t max_mw;     /* 0: no limit may be set */
    uint32_t cap_mw;     /* cap: no limit of this lease is or stays above it; 0: none */
    uint32_t before_mw;  /* the administrator's limit, as in the journal; 0: not known yet */
    uint32_t applied_mw; /* set by this lease; 0: nothing */
    uint32_t tried_mw;   /* last written, whatever the result; 0: nothing */
    bool is_uncertain;   /* a failed write may have had an effect */
    uint32_t present_mw; /* as read by look(); 0: unknown */
    uint32_t wanted_mw;  /* requested by this lease; 0: the administrator's */
    uint32_t target_mw;  /* to be written by act(); 0: nothing */
    bool has_pending;
    struct lull_limit_request pending;
    int64_t next_ns; /* the driver is not called before this time */
    uint32_t failures;
    struct lull_limit_result result;
};

/* Starts a lease. A zeroed control is valid for a GPU that was never leased. */
void lull_limit_control_begin(struct lull_limit_control *control, const struct lull_band *band);

/* Ends a lease: from now_ns on the limit is to be restored. */
void lull_limit_control_end(struct lull_limit_control *control, int64_t now_ns);

/* Caps the limit of a lease, even if the lease may not set one; 0: no cap. */
void lull_limit_control_cap(struct lull_limit_control *control, uint32_t cap_mw);

/* Takes over a limit that an earlier process has set and not restored: either of written_mw (0:
 * none), in place of before_mw. Does nothing if before_mw is 0 or this control has set a limit. */
void lull_limit_control_inherit(struct lull_limit_control *control, uint32_t before_mw,
                                const uint32_t written_mw[2]);

/* Restores the limit from before the lease. The lease continues. */
void lull_limit_control_undo(struct lull_limit_control *control);

/* Takes a request; the latest one wins. Errors: LULL_E_UNSUPPORTED the lease has no range of
 * limits.
 */
int lull_limit_control_take(struct lull_limit_control *control,
                            const struct lull_limit_request *request);

/* Returns the time at which to call act(); INT64_MAX: never. Requests wait until before_mw is
 * known.
 */
int64_t lull_limit_control_due_ns(const struct lull_limit_control *control);

/*
 * Reads the present limit and sets target_mw, the limit to write, which must be in the journal
 * before act(). Returns true if another program has changed the limit. That limit is now before_mw,
 * which must be in the journal too.
 */
bool lull_limit_control_look(struct lull_limit_control *control, struct lull_devices *devices,
                             uint32_t gpu);

/* Tries a limit that has failed again at once, and after short pauses again. */
void lull_limit_control_retry(struct lull_limit_control *control);

/* Notes that the limit could not even be tried: the next attempt follows after a growing pause. */
void lull_limit_control_postpone(struct lull_limit_control *control);

/*
 * Writes target_mw, with at most one driver call, and reads it back. Sets *err if result.status is
 * negative. refusal: 0, or the error that forbids writing.
 */
void lull_limit_control_act(struct lull_limit_control *control, struct lull_devices *devices,
                            uint32_t gpu, int refusal, struct lull_error *err);

/* Returns whether the GPU has the limit from before the lease again, so nothing is left to do.
 */
bool lull_limit_control_is_restored(const struct lull_limit_control *control);

#endif
