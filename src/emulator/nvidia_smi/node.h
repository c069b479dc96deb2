/*
 * The GPUs of the node and those that -i selects. Threads: one.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_NVIDIA_SMI_NODE_H
#define LULL_EMULATOR_NVIDIA_SMI_NODE_H

#include "emulator/nvidia_smi/commands.h"

/* Reads the GPUs after smi_nvml_start(). Returns NVML's code. */
int smi_node_read(struct lull_smi_node *node_out);

/* Fills in the selected GPUs of a run. Returns the exit status after writing why. */
int smi_node_select(struct lull_smi_run *run);

#endif
