/*
 * NVIDIA GPUs through libnvidia-ml.so.1, opened at run time and declared here from its documented
 * ABI, so that the build needs no vendor package. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_NVML_H
#define LULL_DEVICE_NVML_H

#include "device/vendor.h"

extern const struct lull_vendor lull_nvml_vendor;

#endif
