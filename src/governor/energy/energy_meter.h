/*
 * Properties of energy and power readings for the energy accounts; and a meter of the energy of the
 * GPUs of a job, from their own counters.
 *
 * Threads: a meter belongs to one; the sources are pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_ENERGY_METER_H
#define LULL_GOVERNOR_ENERGY_ENERGY_METER_H

#include <stdint.h>

#include "base/error.h"
#include "core/energy/account.h"
#include "device/device.h"

/*
 * Largest gain error of a board's sensor. It is linear, the same in all
 * readings of one board, and differs between boards of one model (arXiv
 * 2312.02741). Reports state it next to the figures; the intervals do not
 * include it.
 */
#define LULL_ENERGY_GAIN_RATIO 0.05

/*
 * Describes a GPU's refresh period and averaging window by its architecture, as measured on more
 * than 70 GPUs (arXiv 2312.02741, SC'24). Counters of all of them are refreshed every 100 ms or
 * sooner. For an unknown GPU it returns the slowest of them.
 */
struct lull_energy_source lull_energy_source_of_gpu(const struct lull_device_info *info);

/* Describes the sum of this many RAPL zones, which are refreshed every millisecond. */
struct lull_energy_source lull_energy_source_of_node(uint32_t zones);

struct lull_energy_meter {
    struct lull_devices *devices;
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t gpu_count;
    struct lull_energy_account *accounts; /* one per GPU */
    double begin_j[LULL_DEVICE_MAX_GPUS];
    double estimated_s; /* at the last read: time in which polled power replaced a counter */
    const char *name;   /* the name of the first GPU */
    double max_power_w; /* the highest power limit that any of them takes */
};

/*
 * Opens a meter for the GPUs that are visible to a job started from here. Errors: those of
 * lull_devices_open; LULL_E_NO_DEVICE none is visible; LULL_E_UNSUPPORTED one has no energy
 * counter, or no power limit.
 */
int lull_energy_meter_open(struct lull_energy_meter *meter, struct lull_error *err);
void lull_energy_meter_close(struct lull_energy_meter *meter);

/* Starts counting. Errors: -EIO a counter cannot be read. */
int lull_energy_meter_begin(struct lull_energy_meter *meter, struct lull_error *err);

/*
 * Returns the energy of all GPUs since begin, J. If a counter hangs while power is drawn, or has
 * gone back, the power read at each call replaces it (core/energy/account.h) for estimated_s; more
 * frequent calls improve the accuracy. NAN: neither a counter nor power can be read, or they
 * contradict each other.
 */
double lull_energy_meter_read(struct lull_energy_meter *meter);

#endif
