/*
 * The turn at the driver: of the writer's threads exactly one has it, and runs the writer's loop.
 *
 * A driver call may never return. So another thread waits as a spare and takes the turn when a call
 * lasts longer than calls do; the thread inside it keeps its GPU, which is away until the call
 * returns and the GPU is returned. So no GPU is ever in the hands of two threads, and there are
 * never more threads than GPUs and two.
 *
 * Threads: as said at each function. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_DRIVER_OWNER_H
#define LULL_DEVICE_DRIVER_OWNER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct lull_driver_owner {
    pthread_mutex_t lock;   /* guards is_taken and is_over, and taking the turn away */
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    bool is_taken;
    bool is_over;
    atomic_bool is_spare_asleep;
    _Atomic int64_t call_ns; /* when the call under way began, which identifies it; 0: none is */
    uint32_t call_gpu;
    atomic_int thread; /* the one that has the turn, by its kernel's number */
    _Atomic int64_t away_ns[LULL_DEVICE_MAX_GPUS];
    atomic_int away_thread[LULL_DEVICE_MAX_GPUS];
};

void lull_driver_owner_init(struct lull_driver_owner *owner);

/* No thread may be waiting, nor have the turn or a GPU of it. */
void lull_driver_owner_fini(struct lull_driver_owner *owner);

/* Waits until the calling thread has the turn. False: no thread is wanted any more. */
bool lull_driver_owner_wait(struct lull_driver_owner *owner);

/* Ends all waiting, also in the future. Any thread. */
void lull_driver_owner_end(struct lull_driver_owner *owner);

/* Returns whether the calling thread has lost its turn in a call; then it keeps the GPU of the
 * call.
 */
bool lull_driver_owner_is_lost(void);

/* Gives that GPU back to the thread that has the turn; the calling thread is free afterwards. */
void lull_driver_owner_return(void);

/* Since when the GPU is away, on CLOCK_MONOTONIC; 0: it is not. Any thread. */
int64_t lull_driver_owner_away_ns(const struct lull_driver_owner *owner, uint32_t gpu);

/* The kernel's number of the thread that a GPU was last away with. Any thread. */
int lull_driver_owner_away_thread(const struct lull_driver_owner *owner, uint32_t gpu);

/* Called around every driver call; nothing happens on threads that do not have a turn. */
void lull_driver_owner_call_begin(uint32_t gpu);
void lull_driver_owner_call_end(void);

#endif
