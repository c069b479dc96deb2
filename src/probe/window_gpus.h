/*
 * liblull's own readings of its process' GPUs, for energy windows: an energy account per GPU.
 *
 * NVML is loaded at the first reading and never unloaded; declared from its documented ABI, so that
 * the build needs no vendor SDK. It is read once a second at most: counters that are polled often
 * fall short.
 *
 * Threads: the caller serialises. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_WINDOW_GPUS_H
#define LULL_PROBE_WINDOW_GPUS_H

#include <stdint.h>

#include "core/energy/account.h"

enum { LULL_WINDOW_MAX_GPUS = 32 };

/* GPUs are numbered in the order in which this process came upon them, 0..MAX_GPUS-1. */
struct lull_window_gpus {
    uint32_t count;
    uint8_t numbers[LULL_WINDOW_MAX_GPUS];
};

/* Reads the counters, if the last time was a second ago. Returns 1 if it has: accounts grew. */
int lull_window_gpus_read(void);

/* The GPUs that this process was on at the last reading. */
void lull_window_gpus_own(struct lull_window_gpus *gpus_out);

/* The account of one; a GPU without a counter has an empty one. */
const struct lull_energy_account *lull_window_gpus_account(uint32_t number);

#endif
