/*
 * The GPUs of this node, shared by device*.c alone: device_attach.c opens and closes the driver,
 * device.c calls it. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_DEVICE_STATE_H
#define LULL_DEVICE_DEVICE_STATE_H

#include <stdatomic.h>

#include "device/device.h"
#include "device/vendor.h"

/* The driver's number of a GPU that it does not have at present. */
#define LULL_DEVICE_ABSENT UINT32_MAX

struct lull_devices {
    const struct lull_vendor *vendor; /* NULL: none has been found yet */
    void *state;                      /* NULL: the library is closed */
    /* A call counts itself in before it looks whether the driver is open, and a release closes it
     * before it looks at the count: so no call is ever inside a library that is being closed. */
    atomic_bool is_open;
    atomic_uint inside;
    atomic_uint count;
    uint32_t listed;                              /* number of GPUs that the driver lists */
    _Atomic uint32_t slots[LULL_DEVICE_MAX_GPUS]; /* the driver's numbers of the GPUs */
    char driver_version[96];
    struct lull_device_info infos[LULL_DEVICE_MAX_GPUS];
    /* The facts of GPUs that the driver did not describe at first and describes since; else NULL.
     * They replace those of before, which others may still be reading. */
    _Atomic(struct lull_device_info *) late_infos[LULL_DEVICE_MAX_GPUS];
};

/* Describes a GPU by its number, whether the driver opens it or not; returns its status. */
int lull_device_describe(struct lull_devices *devices, uint32_t slot,
                         struct lull_device_info *info_out, struct lull_error *err);

#endif
