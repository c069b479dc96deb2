/*
 * Finds the client that rings its doorbell in a loop. It asks the kernel alone: a client can change
 * the counter of a doorbell, and what is read from it. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_FLOOD_H
#define LULL_DAEMON_FLOOD_H

#include <stdint.h>

/*
 * Watches count doorbells (eventfds), at most LULL_DEVICE_MAX_GPUS, for 10 to 20 ms and returns the
 * index of the one that is rung most. Errors: -ENOENT none is rung in a loop; -errno.
 */
int lull_flood_find(const int *doorbells, uint32_t count);

#endif
