/*
 * Driver ownership: exactly one of the writer's threads owns the driver and runs the writer's loop.
 * A driver call may never return. So a spare thread waits, and takes over when a call lasts
 * unusually long. The thread inside the call keeps its GPU, which is away until the call returns
 * and the thread gives the GPU back. So two threads never use one GPU, and there are at most two
 * threads more than GPUs.
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
    pthread_mutex_t lock;   /* guards is_taken and is_over, and the transfer of ownership */
    pthread_cond_t changed; /* on CLOCK_MONOTONIC */
    bool is_taken;
    bool is_over;
    atomic_bool is_spare_asleep;
    _Atomic int64_t call_ns; /* start of the call in progress, which identifies it; 0: none */
    uint32_t call_gpu;
    atomic_int thread; /* the owner's kernel thread id */
    _Atomic int64_t away_ns[LULL_DEVICE_MAX_GPUS];
    atomic_int away_thread[LULL_DEVICE_MAX_GPUS];
};

void lull_driver_owner_init(struct lull_driver_owner *owner);

/* No thread may be waiting, own the driver, or keep a GPU. */
void lull_driver_owner_fini(struct lull_driver_owner *owner);

/* Waits until the calling thread owns the driver. False: the threads are to end. */
bool lull_driver_owner_wait(struct lull_driver_owner *owner);

/* Ends all waiting, also in the future. Any thread. */
void lull_driver_owner_end(struct lull_driver_owner *owner);

/* Returns whether the calling thread has lost ownership during a call. It then keeps the GPU of the
 * call.
 */
bool lull_driver_owner_is_lost(void);

/* Gives that GPU back to the owning thread. The calling thread is free afterwards. */
void lull_driver_owner_return(void);

/* The time, on CLOCK_MONOTONIC, since which the GPU is away; 0: it is not. Any thread. */
int64_t lull_driver_owner_away_ns(const struct lull_driver_owner *owner, uint32_t gpu);

/* The kernel thread id of the thread that last kept the GPU. Any thread. */
int lull_driver_owner_away_thread(const struct lull_driver_owner *owner, uint32_t gpu);

/* Call these around every driver call. They do nothing on threads that do not own the driver. */
void lull_driver_owner_call_begin(uint32_t gpu);
void lull_driver_owner_call_end(void);

#endif
