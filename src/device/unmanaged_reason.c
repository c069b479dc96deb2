/* SPDX-License-Identifier: Apache-2.0 */
#include "device/unmanaged_reason.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"

const char *lull_reason_unlock_command(const char *vendor)
{
    if (strcmp(vendor, "amd") == 0)
        return "amd-smi reset --clocks";
    return strcmp(vendor, "intel") == 0 ? "xpu-smi config --frequencyrange" : "nvidia-smi -rgc";
}

const char *lull_reason_denied(int code)
{
    switch (code) {
    case -EPERM:
        return "the driver does not permit its clocks to be set; run lulld, or lull run "
               "--no-daemon, as root on the host (root in a container or virtual machine is not "
               "enough)";
    case LULL_E_NO_DEVICE:
        return "the driver has lost it; see dmesg for Xid, and lull gpus";
    default:
        return "its clocks cannot be set: not supported by this GPU or its driver";
    }
}

void lull_reason_locked(const char *vendor, uint32_t sm_mhz, char *text_out, size_t size)
{
    snprintf(text_out, size,
             "another program has locked its clock at %" PRIu32
             " MHz; unlock it with %s as root, or stop that program",
             sm_mhz, lull_reason_unlock_command(vendor));
}
