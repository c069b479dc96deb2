/*
 * The driver of a node in virtual time. It makes one call at a time, which lasts as long as the
 * device's model says, and serves requests as lulld's writer does (device/writer.h): raisings
 * first, then lowerings by deadline, but none that is late or that the budget of lowerings does not
 * allow. It sees what that writer sees: a clock is read every so often after a call, but while no
 * call is under way, and until the next call for its GPU.
 *
 * Deterministic. Threads: a driver belongs to one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_DRIVER_H
#define LULL_SIMULATOR_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/controller/controller.h"
#include "emulator/physics/physics.h"

/* Called when the clock has been read at its requested value,
 * or was overtaken by the next call. */
typedef void (*lull_driven_function)(void *context, uint32_t gpu,
                                     const struct lull_switch_outcome *outcome);

struct lull_virtual_driver; /* opaque */

/* Borrows each gpus[i], which the caller must have advanced to every time that it passes in.
 * look_ns: how often a clock is read (base/switch_look.h); 0: the requester is notified when the
 * clock has followed. NULL: out of memory. */
struct lull_virtual_driver *lull_virtual_driver_create(struct lull_physics *const *gpus,
                                                       uint32_t gpu_count, int64_t look_ns,
                                                       uint64_t seed, lull_driven_function driven,
                                                       void *context);
void lull_virtual_driver_destroy(struct lull_virtual_driver *driver);

/* Takes a request. It replaces one of the same GPU that still waits. */
void lull_virtual_driver_ask(struct lull_virtual_driver *driver, const struct lull_command *command,
                             int64_t now_ns);

/* Begins, ends and settles calls up to now. Returns the time of the next call of this function, or
 * INT64_MAX. */
int64_t lull_virtual_driver_advance(struct lull_virtual_driver *driver, int64_t now_ns);

/* The number of calls made so far. */
uint64_t lull_virtual_driver_calls(const struct lull_virtual_driver *driver);

#endif
