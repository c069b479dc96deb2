/* Returns which GPUs a job may see. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_GOVERNOR_RUN_VISIBLE_GPUS_H
#define LULL_GOVERNOR_RUN_VISIBLE_GPUS_H

#include <stdbool.h>
#include <stdint.h>

#include "device/device.h"

struct lull_visible_gpus {
    uint32_t count;
    uint32_t gpus[LULL_DEVICE_MAX_GPUS]; /* indices of devices, in the job's order */
    bool is_certain;   /* it is the only GPU of the driver: a program that sets the variables itself
                        * can use no other */
    bool is_by_number; /* the job's numbers may mean any of these, which are all that are left */
    bool has_slice;    /* a MIG slice is named, which ends the list */
};

/*
 * Finds the GPUs that a job started from here may see. For NVIDIA CUDA_VISIBLE_DEVICES names them,
 * by number, UUID or its start, and a slice (MIG-) ends the list; for AMD ROCR_VISIBLE_DEVICES, and
 * within it HIP_VISIBLE_DEVICES or else CUDA_VISIBLE_DEVICES; for Intel ZE_AFFINITY_MASK, whole
 * cards. Without these variables the job sees all. If the GPUs are of several models, their numbers
 * are the driver library's only with CUDA_DEVICE_ORDER=PCI_BUS_ID; otherwise a number narrows
 * nothing. Threads: no thread may change the environment meanwhile.
 */
void lull_visible_gpus(const struct lull_devices *devices, struct lull_visible_gpus *visible_out);

/*
 * Chooses visible GPUs by a list of their numbers and ranges, such as "0,2-3"; NULL: all of them.
 * Writes indices of devices, at most LULL_DEVICE_MAX_GPUS. Errors: -EINVAL the list is wrong;
 * LULL_E_NO_DEVICE no GPU is visible. Threads: as above.
 */
int lull_visible_gpus_choose(const struct lull_devices *devices, const char *list,
                             uint32_t gpus_out[LULL_DEVICE_MAX_GPUS], uint32_t *count_out,
                             struct lull_error *err);

/* Returns the name of the first variable that is set and narrows the list; "no variable": none is,
 * and the job sees all. Threads: as above. */
const char *lull_visible_gpus_variable(const struct lull_devices *devices);

#endif
