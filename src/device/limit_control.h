/*
 * The power limit of one GPU during a lease: the request, the limit set, and its restoration. Part
 * of the device writer (writer.h), which owns one per GPU and decides when the driver may be
 * called.
 *
 * A limit is never set above the one that the GPU had before the lease: that one is the
 * administrator's. Before every write the present limit is read: if it is neither that one nor what
 * this lease has set, the administrator has set another one meanwhile, which counts from then on.
 * Only one that comes between this reading and the write is overlooked, for drivers cannot compare
 * and set. Every write is read back. The end of a lease restores the administrator's limit, again
 * and again until the device agrees.
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
    uint32_t min_mw;    /* the lease's band */
    uint32_t max_mw;    /* 0: no limit may be set */
    uint32_t cap_mw;    /* no limit of this lease is above it, and none is left above it; 0: none */
    uint32_t before_mw; /* the administrator's, as in the journal; 0 not known yet */
    uint32_t applied_mw; /* what this lease has set; 0: nothing */
    uint32_t tried_mw;   /* what was written last, with whatever result; 0: nothing */
    bool is_uncertain;   /* a failed write may have had an effect */
    uint32_t present_mw; /* as look() has read it; 0 unknown */
    uint32_t wanted_mw;  /* what this lease wants; 0: the administrator's */
    uint32_t target_mw;  /* what act() is to write; 0: nothing */
    bool has_pending;
    struct lull_limit_request pending;
    int64_t next_ns; /* the driver is not called before this time */
    uint32_t failures;
    struct lull_limit_result result;
};

/* Begins a lease. A control of zeros is right for a GPU that was never leased. */
void lull_limit_control_begin(struct lull_limit_control *control, const struct lull_band *band);

/* Ends a lease: what was set is to be restored, from now_ns on. */
void lull_limit_control_end(struct lull_limit_control *control, int64_t now_ns);

/* Caps the limit of a lease, whether the lease may set one or not; 0: it is not capped. */
void lull_limit_control_cap(struct lull_limit_control *control, uint32_t cap_mw);

/* Takes over what an earlier process has set and could not restored: either of written_mw (0:
 * none), in place of before_mw. Nothing happens where before_mw is 0 or this control has set a
 * limit. */
void lull_limit_control_inherit(struct lull_limit_control *control, uint32_t before_mw,
                                const uint32_t written_mw[2]);

/* Restores the limit from before the lease, and continues with the lease. */
void lull_limit_control_undo(struct lull_limit_control *control);

/* Takes a request; the latest one wins. Errors: LULL_E_UNSUPPORTED the lease has no band of limits.
 */
int lull_limit_control_take(struct lull_limit_control *control,
                            const struct lull_limit_request *request);

/* Returns when act() wants to be called; INT64_MAX: never. Requests wait until before_mw is known.
 */
int64_t lull_limit_control_due_ns(const struct lull_limit_control *control);

/*
 * Reads the present limit and decides what to write: target_mw, which is to be in the journal
 * before act(). True: another program has set the limit since, and it has become before_mw, which
 * is to be in the journal as well.
 */
bool lull_limit_control_look(struct lull_limit_control *control, struct lull_devices *devices,
                             uint32_t gpu);

/*
 * Writes what look() has decided, with at most one driver call, and reads it back. *err is set
 * where result.status is negative. refusal: 0, or the error why nothing may be written.
 */
void lull_limit_control_act(struct lull_limit_control *control, struct lull_devices *devices,
                            uint32_t gpu, int refusal, struct lull_error *err);

/* Returns whether the GPU has the limit from before the lease again, so that nothing is left to do.
 */
bool lull_limit_control_is_restored(const struct lull_limit_control *control);

#endif
