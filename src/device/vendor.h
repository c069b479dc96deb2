/*
 * The table of functions that one vendor's library stands behind; device.c calls nothing else.
 * A member gpu is always below the count that open has returned.
 *
 * Threads: any, except open and close. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_VENDOR_H
#define LULL_DEVICE_VENDOR_H

#include "device/device.h"

struct lull_vendor {
    const char *name; /* as LULL_VENDOR has it */

    /*
     * Opens the library; errors as lull_devices_open, and -ENOENT: there is no such library. The
     * state is freed by close.
     */
    int (*open)(void **state_out, uint32_t *count_out, struct lull_error *err);
    void (*close)(void *state);
    const char *(*driver_version)(const void *state);
    void (*describe)(void *state, uint32_t gpu, struct lull_device_info *info_out);
    void (*read)(void *state, uint32_t gpu, uint32_t wanted, struct lull_device_reading *out);

    /* These set something; errors as in device.h. */
    int (*lock_sm)(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                   struct lull_error *err);
    int (*reset_sm)(void *state, uint32_t gpu, struct lull_error *err);
    int (*lock_memory)(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                       struct lull_error *err);
    int (*reset_memory)(void *state, uint32_t gpu, struct lull_error *err);
    int (*set_power_limit)(void *state, uint32_t gpu, uint32_t limit_mw, struct lull_error *err);
};

#endif
