/*
 * The table of functions of one vendor's library. device.c calls nothing else. The argument gpu is
 * always below the count returned by open.
 *
 * Threads: any, except open and close. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_VENDOR_H
#define LULL_DEVICE_VENDOR_H

#include "device/device.h"

struct lull_vendor {
    const char *name; /* its word in LULL_VENDOR */

    /*
     * Opens the library. Errors: those of lull_devices_open, and -ENOENT: there is no such library.
     * close frees the state.
     */
    int (*open)(void **state_out, uint32_t *count_out, struct lull_error *err);
    void (*close)(void *state);
    const char *(*driver_version)(const void *state);

    /* Opens a GPU that is not open yet, and describes it; info_out is zeroed before. Errors, with a
     * text of the form `REASON (LIBRARY CODE)`: it is not open, and its UUID stays ""; or it is
     * open, and what failed may succeed later. No other function is called for a GPU that is not
     * open. Only the device writer calls this for one that others may read. */
    int (*describe)(void *state, uint32_t gpu, struct lull_device_info *info_out,
                    struct lull_error *err);

    /* Reads one field into out. The caller sets out->valid. False: it cannot be read now. */
    bool (*read)(void *state, uint32_t gpu, enum lull_reading_field field,
                 struct lull_device_reading *out);

    /* Lists the processes that compute on a GPU. Leaves *processes_out unchanged if they are
     * unknown. NULL: the vendor never reports them. */
    void (*list_processes)(void *state, uint32_t gpu, struct lull_device_processes *processes_out);

    /* These set something; their errors are those of device.h. */
    int (*lock_sm)(void *state, uint32_t gpu, uint32_t min_mhz, uint32_t max_mhz,
                   struct lull_error *err);
    int (*reset_sm)(void *state, uint32_t gpu, struct lull_error *err);
    int (*reset_memory)(void *state, uint32_t gpu, struct lull_error *err); /* NULL: unsupported */
    int (*set_power_limit)(void *state, uint32_t gpu, uint32_t limit_mw, struct lull_error *err);

    /* Adds power profiles to the requests, or removes them. NULL: unsupported. */
    int (*change_profiles)(void *state, uint32_t gpu, uint32_t profiles, bool is_added,
                           struct lull_error *err);

    /* Power smoothing; NULL: unsupported. */
    int (*read_smoothing)(void *state, uint32_t gpu, struct lull_smoothing_settings *settings_out,
                          struct lull_error *err);
    int (*set_smoothing)(void *state, uint32_t gpu, enum lull_smoothing_item item, uint32_t value,
                         struct lull_error *err);

    /* These may be NULL. check: the vendor reports no news. release: it opens nothing per GPU.
     * find: it cannot find a single GPU. */

    /* Adds the events of a GPU to news. Its errors are those of lull_device_check. */
    int (*check)(void *state, uint32_t gpu, struct lull_device_update *update,
                 struct lull_error *err);

    /* Closes the handles of one GPU; find opens it again. */
    void (*release)(void *state, uint32_t gpu);

    /* Finds a GPU that open has not listed or that was released. Errors: LULL_E_NO_DEVICE. */
    int (*find)(void *state, const char *uuid, uint32_t *gpu_out, struct lull_error *err);
};

#endif
