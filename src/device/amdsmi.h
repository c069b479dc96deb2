/*
 * AMD GPUs through AMD SMI (libamd_smi.so), opened at run time and declared here from its
 * documented ABI, so that the build needs no vendor package.
 *
 * Lull uses AMD SMI instead of ROCm SMI (librocm_smi64.so): every ROCm since 6.0 ships it, and
 * newer releases ship only it. Its interface is documented per function, and its version determines
 * the layout of structures. Clocks can be set with ROCm 6.3 or newer.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_AMDSMI_H
#define LULL_DEVICE_AMDSMI_H

#include "device/library.h"
#include "device/vendor.h"

extern const struct lull_vendor lull_amdsmi_vendor;

/* Returns the row for an amdsmi_status_t, never NULL; a code without documentation counts as
 * unknown. */
const struct lull_library_meaning *lull_amdsmi_meaning(int code);

#endif
