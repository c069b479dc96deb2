/*
 * The kernels of a suite on an NVIDIA GPU: those of data/kernels, or of a description of one's own
 * (docs/research/kernels.md). SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_CUDA_WORKLOAD_H
#define LULL_LAB_SWEEP_CUDA_WORKLOAD_H

#include "lab/sweep/workload.h"

extern const struct lull_workload_kind lull_cuda_workload;

#endif
