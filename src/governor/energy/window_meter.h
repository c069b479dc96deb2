/*
 * Energy windows of a program that is not run by `lull run`: the energy of each of its GPUs, of the
 * processors and of the memory between two calls, with its uncertainty.
 *
 * The accounts are those of a run (core/energy/account.h). While a window is open, power is read
 * ten times a second and counters once a second; a counter is also read at the end of a window of
 * at least a second. Counters that are polled more often read too low (docs/user/energy.md).
 *
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_WINDOW_METER_H
#define LULL_GOVERNOR_ENERGY_WINDOW_METER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "core/energy/account.h"
#include "device/device.h"
#include "device/rapl.h"

/* The intervals at which lull_window_meter_read is to be called: while a window is open, and
 * otherwise.
 */
enum { LULL_WINDOW_METER_OPEN_MS = 100, LULL_WINDOW_METER_IDLE_MS = 1000 };

/* Windows that may be open at once. */
enum { LULL_WINDOW_METER_MAX_OPEN = 1024 };

struct lull_window_meter; /* opaque */

/* Energy of one device in a window. */
struct lull_window_meter_figure {
    bool is_known;
    struct lull_energy_figure energy; /* valid if is_known */
    char reason[160];                 /* why the energy is not known; "" if it is */
};

/*
 * Opens the GPUs that a program started from here sees, and RAPL where it can be read. Errors:
 * those of lull_devices_open; LULL_E_NO_DEVICE the program sees none; -ENOMEM.
 */
int lull_window_meter_open(struct lull_window_meter **meter_out, struct lull_error *err);
void lull_window_meter_close(struct lull_window_meter *meter);

/* Return how many GPUs there are; the number in lull_devices, and the facts, of the one that the
 * program numbers as gpu, 0..count-1. The facts are borrowed. */
uint32_t lull_window_meter_gpu_count(const struct lull_window_meter *meter);
uint32_t lull_window_meter_gpu_index(const struct lull_window_meter *meter, uint32_t gpu);
const struct lull_device_info *lull_window_meter_gpu_info(const struct lull_window_meter *meter,
                                                          uint32_t gpu);

/* Returns why processors and memory are not measured; NULL: they are. */
const char *lull_window_meter_node_reason(const struct lull_window_meter *meter);

/* Returns whether a window is open, so that readings are due. */
bool lull_window_meter_is_open(const struct lull_window_meter *meter);

/* Takes the readings that are due. */
void lull_window_meter_read(struct lull_window_meter *meter);

/* Opens a window at this moment and returns its number, from 0 up. Errors: -ENOSPC too many are
 * open; -ENOMEM. */
int64_t lull_window_meter_begin(struct lull_window_meter *meter);

/* Closes a window at this moment. Fills figures_out: gpu_count figures, then one for each kind of
 * enum lull_rapl_kind. *seconds_out is its length. Errors: -ENOENT no such window is open. */
int lull_window_meter_end(struct lull_window_meter *meter, int64_t number, double *seconds_out,
                          struct lull_window_meter_figure *figures_out);

/* Forgets a window. Errors: -ENOENT no such window is open. */
int lull_window_meter_cancel(struct lull_window_meter *meter, int64_t number);

#endif
