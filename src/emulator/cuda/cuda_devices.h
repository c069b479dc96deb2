/*
 * The GPUs of the emulated node that CUDA shows to this process, and their order: those of NVIDIA,
 * as CUDA_DEVICE_ORDER and CUDA_VISIBLE_DEVICES select them.
 * Threads: any; the environment must not change meanwhile. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_CUDA_DEVICES_H
#define LULL_EMULATOR_CUDA_DEVICES_H

#include <stdint.h>

#include "emulator/node.h"

struct lull_cuda_devices {
    uint32_t count;
    uint32_t gpus[LULL_NODE_MAX_GPUS]; /* the index in the node of each device */
};

void lull_cuda_devices_find(struct lull_node *node, struct lull_cuda_devices *out);

#endif
