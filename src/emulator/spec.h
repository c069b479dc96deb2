/*
 * What an emulated node consists of, and its textual form: `4xA100-SXM4-40GB`, `2xH100,2xA40`.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SPEC_H
#define LULL_EMULATOR_SPEC_H

#include <stdint.h>

#include "base/error.h"
#include "emulator/gpu_model.h"

enum { LULL_NODE_MAX_GPUS = 64 };

struct lull_node_spec {
    uint32_t gpu_count;
    const struct lull_gpu_model *models[LULL_NODE_MAX_GPUS];
    uint64_t seed;     /* 0: nominal units without noise */
    double time_scale; /* virtual seconds per real second, > 0 */
    double warm_w;     /* power whose steady temperature the GPUs start at; 0: idle */
};

/*
 * Parses [COUNTx]MODEL[,...] into models and gpu_count; seed and time scale are left alone.
 * Errors: -EINVAL, the text says at which character; LULL_E_UNSUPPORTED unknown model, the text
 * lists the known ones.
 */
int lull_node_spec_parse(const char *text, struct lull_node_spec *spec, struct lull_error *err);

#endif
