/* Tells which GPUs a job may see. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_GOVERNOR_RUN_VISIBLE_GPUS_H
#define LULL_GOVERNOR_RUN_VISIBLE_GPUS_H

#include <stdint.h>

#include "device/device.h"

/*
 * Writes the GPUs that a job started from here sees, in its order, at most capacity indices of
 * devices; returns how many. For NVIDIA CUDA_VISIBLE_DEVICES names them, by index, UUID or its
 * begin, and a slice (MIG-) ends the list; for AMD ROCR_VISIBLE_DEVICES, and within it
 * HIP_VISIBLE_DEVICES or else CUDA_VISIBLE_DEVICES; for Intel ZE_AFFINITY_MASK, whole cards.
 * Without these variables the job sees all. Threads: nobody may change the environment meanwhile.
 */
uint32_t lull_visible_gpus(const struct lull_devices *devices, uint32_t *gpus_out,
                           uint32_t capacity);

/* Returns the name of the first variable that is set and narrows the list; "no variable": none is,
 * and the job sees all. Threads: as above. */
const char *lull_visible_gpus_variable(const struct lull_devices *devices);

#endif
