/*
 * Finds the client that rings its doorbell in a loop. It queries only the kernel: a client can
 * change the counter of a doorbell, and what is read from it. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_FLOOD_H
#define LULL_DAEMON_FLOOD_H

#include <stdint.h>

/*
 * Watches count doorbells (eventfds), at most LULL_DEVICE_MAX_GPUS, in windows of 10 to 20 ms, for
 * 200 ms at most. Returns the index of the one that is rung most in the first window in which one
 * is rung in a loop. Errors: -ENOENT none is; -errno.
 */
int lull_flood_find(const int *doorbells, uint32_t count);

#endif
