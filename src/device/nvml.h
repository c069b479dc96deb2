/*
 * NVIDIA GPUs through libnvidia-ml.so.1, opened at run time and declared here from its documented
 * ABI, so that the build needs no vendor package. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_NVML_H
#define LULL_DEVICE_NVML_H

#include "device/vendor.h"

extern const struct lull_vendor lull_nvml_vendor;

/* What an nvmlReturn_t means for Lull (documented codes 0..30 and 999). */
enum lull_nvml_class {
    LULL_NVML_OK,
    LULL_NVML_DRIVER_GONE,    /* library or kernel module went away or does not match */
    LULL_NVML_DEVICE_GONE,    /* lost, or needs a reset */
    LULL_NVML_CAPABILITY_OFF, /* this GPU or driver cannot; do not repeat */
    LULL_NVML_NOT_ALLOWED,
    LULL_NVML_OWN_ERROR, /* Lull asked wrongly */
    LULL_NVML_PASSING,   /* it may work at the next try */
    LULL_NVML_ALARM,     /* hardware needs a person */
};

struct lull_nvml_meaning {
    int nvml_code;
    enum lull_nvml_class class;
    int error; /* 0, -errno or LULL_E_*: what device.h's functions return */
    const char *text;
};

/* The row of a code; an undocumented one counts as 999, unknown. Never NULL. Threads: any. */
const struct lull_nvml_meaning *lull_nvml_meaning(int nvml_code);

#endif
