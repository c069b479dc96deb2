/*
 * liblull's own readings of the GPUs of its process, for energy windows. Each GPU has an energy
 * account.
 *
 * NVML is loaded at the first reading and never unloaded; declared from its documented ABI, so that
 * the build needs no vendor SDK. An NVML call may never return, so reading is separate from
 * processing: no thread holds a lock that another thread may need while it reads.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_WINDOW_GPUS_H
#define LULL_PROBE_WINDOW_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/energy/account.h"

struct gpu; /* nvmlDevice_st */

enum { LULL_WINDOW_MAX_GPUS = 32 };

/* GPUs are numbered in the order in which this process met them, 0..MAX_GPUS-1. */
struct lull_window_gpus {
    uint32_t count;
    uint8_t numbers[LULL_WINDOW_MAX_GPUS];
};

/* A counter as it was read. */
struct lull_window_counter {
    struct gpu *gpu;               /* NVML's handle */
    struct lull_power_range range; /* of the GPU; not set for one that has a number already */
    bool is_valid;
    int64_t time_ns;
    double energy_j;
};

struct lull_window_reading {
    uint32_t count; /* of the GPUs that this process uses now */
    struct lull_window_counter counters[LULL_WINDOW_MAX_GPUS];
};

/* Reads the counters; may block for as long as the driver likes. One thread at a time, the same one
 * that calls lull_window_gpus_take. */
void lull_window_gpus_read(struct lull_window_reading *reading_out);

/* Enters a reading into the accounts. The caller keeps others from this and the functions below. */
void lull_window_gpus_take(const struct lull_window_reading *reading);

/* Gives the GPUs that this process used at the last reading. */
void lull_window_gpus_own(struct lull_window_gpus *gpus_out);

/* The energy account of a GPU; a GPU without a counter has an empty one. */
const struct lull_energy_account *lull_window_gpus_account(uint32_t number);

#endif
