/*
 * Reasons why the clocks of a GPU are not Lull's to set, in words for users. The findings of a run
 * and `lull doctor` share them. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DEVICE_UNMANAGED_REASON_H
#define LULL_DEVICE_UNMANAGED_REASON_H

#include <stddef.h>
#include <stdint.h>

/* The driver numbers processes as the host does, and this process lives in another PID namespace.
 */
#define LULL_REASON_PID_SPACE                                                                      \
    "the driver does not list the processes of this PID namespace. In a container, share the "     \
    "host's PID namespace (docker run --pid=host), or give the container the job's GPU alone "     \
    "(docker run --gpus device=N)"

/* Returns the command that resets the clocks of a vendor's GPUs, in the words of LULL_VENDOR. */
const char *lull_reason_unlock_command(const char *vendor);

/* Returns why the driver denies every change of a GPU's clock, from the code of such a change, and
 * what to do: -EPERM, LULL_E_NO_DEVICE, or any other, which is that of a GPU that cannot do it. */
const char *lull_reason_denied(int code);

/* Writes that another program has locked the clock of a GPU at sm_mhz, and what to do. */
void lull_reason_locked(const char *vendor, uint32_t sm_mhz, char *text_out, size_t size);

#endif
