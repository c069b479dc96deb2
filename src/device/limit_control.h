/*
 * The power limit of one GPU during a lease: what is asked, what was set, and how it comes back.
 * Part of the device writer (writer.h), which owns one per GPU and decides when the driver may be
 * called.
 *
 * A limit is never set above the one that the GPU had before the lease: that one is the
 * administrator's. Every write is read back. The end of a lease puts the previous limit back, again
 * and again until the device agrees; if somebody else has set another one meanwhile, theirs stays.
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
    uint32_t before_mw;  /* what the journal says it was before the first write; 0 not known yet */
    uint32_t applied_mw; /* what this lease has set; 0: nothing */
    bool is_uncertain;   /* a failed write may have had an effect */
    bool has_pending;
    struct lull_limit_request pending;
    int64_t next_ns; /* the driver is not called before this time */
    uint32_t failures;
    struct lull_limit_result result;
};

/* Begins a lease. A control of zeros is right for a GPU that was never leased. */
void lull_limit_control_begin(struct lull_limit_control *control, const struct lull_band *band);

/* Ends a lease: what was set is to be put back, from now_ns on. */
void lull_limit_control_end(struct lull_limit_control *control, int64_t now_ns);

/* Puts the limit from before the lease back, and goes on with the lease. */
void lull_limit_control_undo(struct lull_limit_control *control);

/* Takes a request; the latest one wins. Errors: LULL_E_UNSUPPORTED the lease has no band of limits.
 */
int lull_limit_control_take(struct lull_limit_control *control,
                            const struct lull_limit_request *request);

/* Returns when act() wants to be called; INT64_MAX: never. Requests wait until before_mw is known.
 */
int64_t lull_limit_control_due_ns(const struct lull_limit_control *control);

/*
 * Sets what is pending, or the previous limit, with one driver call, and reads it back. False:
 * nothing had to be written. *err is set where result.status is negative.
 */
bool lull_limit_control_act(struct lull_limit_control *control, struct lull_devices *devices,
                            uint32_t gpu, struct lull_error *err);

/* Whether the GPU has the limit from before the lease again, so that nothing is left to do. */
bool lull_limit_control_is_restored(const struct lull_limit_control *control);

#endif
