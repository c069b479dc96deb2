/*
 * A plan of the calls that a node's GPUs want of their one driver, which serves them one after the
 * other: by when each raising must begin so that none of them is late, and whether there is room
 * for one more lowering and the raising that follows from it.
 *
 * Raisings are served in the order of their latest begins; packed backwards from the last of them,
 * each begins as late as it can (Jackson 1955, earliest due date first). GPUs whose gaps end
 * together are so raised one after the other, each ahead of its end by no more than it has to be.
 * A lowering is only asked for where its own call does not stand in a raising's way, and where its
 * GPU is low for longer than the others lose by being raised the earlier for it.
 *
 * Pure; caller's storage. Times are ns of one clock. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_DRIVER_PLAN_H
#define LULL_CORE_SWITCHING_DRIVER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_DRIVER_PLAN_GPUS = 64 };

struct lull_driver_plan {
    uint32_t count;                             /* of GPUs, <= LULL_DRIVER_PLAN_GPUS */
    int64_t call_ns;                            /* about what the driver takes for one call, >= 0 */
    int64_t raise_by_ns[LULL_DRIVER_PLAN_GPUS]; /* latest begin of each GPU's raising if it had the
                                                 * driver to itself; INT64_MAX: it is not low */
};

/* When each raising is to begin, never after raise_by_ns; INT64_MAX: there is none. O(count^2). */
void lull_driver_plan_begins(const struct lull_driver_plan *plan,
                             int64_t begins_out[LULL_DRIVER_PLAN_GPUS]);

/* The first of such begins that comes later than after_ns; INT64_MAX: none does. */
int64_t lull_driver_plan_next_ns(const int64_t *begins_ns, uint32_t count, int64_t after_ns);

/*
 * What lowering a GPU from now_ns on, to be raised by raise_by_ns, wins for the node: the time low
 * that it gains less what others lose, ns. 0 or less: it is not worth it, or would make a raising
 * late. The GPU must not be low. O(count^2).
 */
int64_t lull_driver_plan_gain_ns(const struct lull_driver_plan *plan, uint32_t gpu, int64_t now_ns,
                                 int64_t raise_by_ns);

#endif
