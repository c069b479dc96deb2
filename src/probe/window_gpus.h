/*
 * liblull's own readings of the GPUs of its process, for energy windows. Each GPU has an energy
 * account.
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

/* GPUs are numbered in the order in which this process met them, 0..MAX_GPUS-1. */
struct lull_window_gpus {
    uint32_t count;
    uint8_t numbers[LULL_WINDOW_MAX_GPUS];
};

/* Reads the counters, unless it did so less than a second ago. 1: it has, and the accounts grew. */
int lull_window_gpus_read(void);

/* Gives the GPUs that this process used at the last reading. */
void lull_window_gpus_own(struct lull_window_gpus *gpus_out);

/* The energy account of a GPU; a GPU without a counter has an empty one. */
const struct lull_energy_account *lull_window_gpus_account(uint32_t number);

#endif
