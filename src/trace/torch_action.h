/*
 * One cell of a torch schedule. Private to trace. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_TORCH_ACTION_H
#define LULL_TRACE_TORCH_ACTION_H

#include <stdbool.h>
#include <stdint.h>

enum lull_torch_type {
    LULL_TORCH_F,
    LULL_TORCH_B,
    LULL_TORCH_I,
    LULL_TORCH_W,
    LULL_TORCH_OVERLAP,
    LULL_TORCH_SEND_F,
    LULL_TORCH_RECV_F,
    LULL_TORCH_SEND_B,
    LULL_TORCH_RECV_B,
    LULL_TORCH_WAIT_SEND_F,
    LULL_TORCH_WAIT_SEND_B,
    LULL_TORCH_UNSHARD,
    LULL_TORCH_RESHARD,
    LULL_TORCH_REDUCE_GRAD,
    LULL_TORCH_WAIT_REDUCE_GRAD,
    LULL_TORCH_TYPES
};

struct lull_torch_action {
    enum lull_torch_type type;
    uint32_t stage;
    uint32_t microbatch;
    uint32_t partner_stage; /* an overlap's backward */
    uint32_t partner_microbatch;
};

/* Computes; all others communicate, or wait for that. */
static inline bool lull_torch_computes(enum lull_torch_type type)
{
    return type <= LULL_TORCH_OVERLAP;
}

/* Reads "2F0", "3SEND_F1", "1UNSHARD", "(0F5;7B2)OVERLAP_F_B". -EINVAL: no action; -ERANGE a stage
 * or micro-batch beyond core/pipeline's limits. Writes into text. */
int lull_torch_action_parse(char *text, struct lull_torch_action *action_out);

/* The type's word: "F", "SEND_F"... */
const char *lull_torch_type_name(enum lull_torch_type type);

#endif
