/*
 * What the emulated driver libraries of all vendors share: the opened node, which of its GPUs a
 * library shows, who may set, and the effect of a set call on the one physics.
 *
 * Threads: any, as the vendors promise, except that a driver's GPUs are fixed only between its
 * first open and its last close. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_DRIVER_H
#define LULL_EMULATOR_DRIVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "emulator/node.h"

/* One GPU of the node, for the library that shows it. */
struct lull_driver_gpu {
    uint32_t position; /* in the library's own list */
    uint32_t index;    /* in the node */
    struct lull_node *node;
    struct lull_gpu_model model;
    uint64_t identity[2]; /* random, the same in every process and library */
};

/* Zero-initialised except for the mutex; one per process and library by the vendors' interfaces. */
struct lull_driver {
    pthread_mutex_t mutex;
    uint32_t references;
    bool was_opened;
    uint32_t gpu_count;
    struct lull_node *node;
    struct lull_driver_gpu gpus[LULL_NODE_MAX_GPUS];
};

/* Tells a library to describe the GPU at a position, under the driver's lock. */
typedef void lull_driver_describe(uint32_t position);

/*
 * Opens the node that the environment names, calling describe (may be NULL) for each GPU, or counts
 * one more user of it. False: there is no node, or none of its GPUs is of that vendor (the driver
 * is not loaded).
 */
bool lull_driver_open(struct lull_driver *driver, enum lull_gpu_vendor vendor,
                      lull_driver_describe *describe);

/* One user less; the last one closes. A surplus close does nothing. */
void lull_driver_close(struct lull_driver *driver);

bool lull_driver_is_open(struct lull_driver *driver);

/* The GPU at a position; NULL: none. */
struct lull_driver_gpu *lull_driver_gpu_at(struct lull_driver *driver, uint32_t position);

/* Whether a reading fails by an injected fault; its code, the vendor's own, goes to code_out. */
bool lull_driver_has_get_fault(const struct lull_driver_gpu *gpu, int *code_out);

/* Whether the caller may set: root, unless faults say otherwise. */
bool lull_driver_may_set(const struct lull_driver_gpu *gpu);

/* False: a fault has taken the energy counter away. */
bool lull_driver_has_energy(const struct lull_driver_gpu *gpu);

/*
 * Set calls: take the time of the node's driver, suffer its faults, act. 0, or the code of an
 * injected fault.
 */
int lull_driver_lock(const struct lull_driver_gpu *gpu, uint32_t min_step, uint32_t max_step);
int lull_driver_unlock(const struct lull_driver_gpu *gpu);
int lull_driver_set_limit(const struct lull_driver_gpu *gpu, double limit_w);

#endif
