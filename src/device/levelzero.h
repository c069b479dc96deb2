/*
 * Intel GPUs through Level Zero's Sysman (libze_loader.so.1, 1.5 or newer), opened at run time and
 * declared here from its documented ABI, so that the build needs no vendor package. Integrated GPUs
 * are ignored. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_LEVELZERO_H
#define LULL_DEVICE_LEVELZERO_H

#include "device/library.h"
#include "device/vendor.h"

extern const struct lull_vendor lull_levelzero_vendor;

/* Returns the row for a ze_result_t, never NULL; a code without documentation counts as unknown.
 * Threads: any. */
const struct lull_library_meaning *lull_levelzero_meaning(int code);

#endif
