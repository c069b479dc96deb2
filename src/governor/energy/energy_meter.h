/*
 * The energy that the GPUs of a job draw, by their own counters.
 * Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_ENERGY_ENERGY_METER_H
#define LULL_GOVERNOR_ENERGY_ENERGY_METER_H

#include <stdint.h>

#include "base/error.h"
#include "device/device.h"

struct lull_energy_meter {
    struct lull_devices *devices;
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t gpu_count;
    uint64_t begin_mj[LULL_DEVICE_MAX_GPUS];
    const char *name;   /* of the GPUs; of the first if they differ */
    double max_power_w; /* highest power limit of one */
};

/*
 * Opens it for the GPUs that a job started from here sees. Errors: those of lull_devices_open;
 * LULL_E_NO_DEVICE the job sees none; LULL_E_UNSUPPORTED one has no energy counter, or no power
 * limit.
 */
int lull_energy_meter_open(struct lull_energy_meter *meter, struct lull_error *err);
void lull_energy_meter_close(struct lull_energy_meter *meter);

/* Counts from here. Errors: -EIO a counter cannot be read. */
int lull_energy_meter_begin(struct lull_energy_meter *meter, struct lull_error *err);

/* Energy of all GPUs since begin, J; NAN where a counter cannot be read or has begun anew. */
double lull_energy_meter_read(struct lull_energy_meter *meter);

#endif
