/*
 * A node's driver in virtual time: one call at a time, as slow as the device's model says, served
 * as lulld's writer serves (device/writer.h): raisings first, then lowerings by deadline, none that
 * is late, and none that the budget of lowerings does not allow.
 *
 * Deterministic. Threads: a driver belongs to one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_DRIVER_H
#define LULL_SIMULATOR_DRIVER_H

#include <stdbool.h>
#include <stdint.h>

#include "core/section/controller/controller.h"
#include "emulator/physics/physics.h"

/* Called when the clock reads what was asked for. */
typedef void (*lull_driven_function)(void *context, uint32_t gpu,
                                     const struct lull_switch_outcome *outcome);

struct lull_virtual_driver; /* opaque */

/* gpus[i] is borrowed and must be at each time passed in. NULL: no memory. */
struct lull_virtual_driver *lull_virtual_driver_create(struct lull_physics *const *gpus,
                                                       uint32_t gpu_count, uint64_t seed,
                                                       lull_driven_function driven, void *context);
void lull_virtual_driver_destroy(struct lull_virtual_driver *driver);

/* Takes a request; the one before of the same GPU, if it still waits, is void. */
void lull_virtual_driver_ask(struct lull_virtual_driver *driver, const struct lull_command *command,
                             int64_t now_ns);

/* Lets calls begin, return and settle up to now; the next time it has to, or INT64_MAX. */
int64_t lull_virtual_driver_advance(struct lull_virtual_driver *driver, int64_t now_ns);

/* Calls made so far. */
uint64_t lull_virtual_driver_calls(const struct lull_virtual_driver *driver);

#endif
