/*
 * Time and power of one step of an inference engine on the emulated node: matrix products,
 * attention of prefill and decode, collectives of tensor parallelism, and the host's share.
 * docs/research/measurements/serving.md compares it with measured servers.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_STEP_H
#define LULL_EMULATOR_SERVER_STEP_H

#include <stdint.h>

#include "emulator/gpu_model.h"
#include "emulator/server/llm.h"

/* The hardware and the model that it serves. */
struct lull_step_setup {
    const struct lull_gpu_model *gpu;
    const struct lull_llm *llm;
    uint32_t gpus; /* tensor parallel: 1, 2, 4, 8 */
};

/* What one step computes. */
struct lull_step_batch {
    uint32_t decoding;       /* sequences that get one more token */
    double decode_context;   /* tokens of context, summed over these sequences */
    uint32_t prefill_tokens; /* tokens of prompts */
    uint32_t prompts;        /* to which these tokens belong; 0 counts as 1 */
    double prefill_context;  /* context of these tokens, summed over them: attention's work */
    uint32_t sampled;        /* sequences that get a token at the end of the step */
};

/* What it costs on each GPU. */
struct lull_step_cost {
    double host_s; /* the GPU waits for the host before its kernels, at any clock */
    double gpu_s;  /* kernels and collectives at the highest clock */
    struct lull_gpu_profile profile; /* of the kernels and collectives together: power and memory
                                        ratio as gpu_model.h defines them */
};

void lull_step_cost(const struct lull_step_setup *setup, const struct lull_step_batch *batch,
                    struct lull_step_cost *cost_out);

/* A memory for costs of steps of one setup, which holds the parts that depend on a number of tokens
 * alone. Threads: one. */
struct lull_step_memo;

/* Numbers of tokens up to max_tokens are remembered. The setup must outlive it. NULL: no memory. */
struct lull_step_memo *lull_step_memo_create(const struct lull_step_setup *setup,
                                             uint32_t max_tokens);
void lull_step_memo_destroy(struct lull_step_memo *memo); /* NULL is allowed */

/* Computes the same cost as lull_step_cost(), bit for bit, in a fraction of the time. */
void lull_step_memo_cost(struct lull_step_memo *memo, const struct lull_step_batch *batch,
                         struct lull_step_cost *cost_out);

/* The number of tokens whose keys and values fit beside the weights, with 90 % of memory in use; 0:
 * the weights do not fit. */
double lull_step_cache_tokens(const struct lull_step_setup *setup);

/* The rate at which keys and values go from the GPUs of one server to those of another one on the
 * same node, GB/s: that of NCCL between two GPUs, of the slower model, for each pair of GPUs. */
double lull_step_handover_gbs(const struct lull_step_setup *from, const struct lull_step_setup *to);

/* How long keys, values and state of a computed prompt take at a rate, s. */
double lull_step_handover_s(const struct lull_llm *llm, uint32_t prompt_tokens, double gbs);

#endif
