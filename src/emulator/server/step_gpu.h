/*
 * How fast and with how much energy a GPU does the parts of a step. The table is generated from
 * data/llm_models.json, which states the source of each group; tools/fit-step fits it.
 *
 * Times and rates are those at the highest clock without a power limit. Threads: any; nothing here
 * changes. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_STEP_GPU_H
#define LULL_EMULATOR_SERVER_STEP_GPU_H

#include "emulator/server/step.h"

enum lull_step_precision {
    LULL_STEP_BFLOAT16,
    LULL_STEP_FP8,
    LULL_STEP_FP8_BLOCK, /* of experts, as MXFP4; computed as fp8 */
    LULL_STEP_MXFP4,     /* computed as bfloat16 */
    LULL_STEP_PRECISIONS,
    LULL_STEP_RATES = LULL_STEP_FP8_BLOCK, /* precisions with a rate of their own */
};

/* The fit reads and writes it as an array: the name, then numbers of type double alone. */
struct lull_step_gpu {
    const char *name;

    /* Matrix products. */
    double tflops[LULL_STEP_RATES]; /* of large ones */
    double matmul_us;               /* start and end of one */
    double weight_gbs;              /* rate of reading weights */
    double quantise_us;  /* a kernel makes fp8 of the input before an fp8 product: start and end */
    double quantise_gbs; /* its rate of reading and writing */

    /* Attention. */
    double attention_tflops; /* of prompts */
    double attention_us;     /* start and end, a layer */
    double cache_gbs;        /* rate of reading keys and values */
    double tile_tokens;      /* a sequence costs as much as if its context were this much longer */
    double split_us;         /* long contexts are split, and a second kernel adds the parts */
    double prompt_tile;      /* as tile_tokens, of each token of a prompt */
    double prompt_head_us;   /* of an SM, for each prompt and head */
    double prompt_tail; /* the last rows of a prompt end so much of their time after the rest */

    /* Experts. */
    double expert_us[LULL_STEP_PRECISIONS];    /* routing, start and end, a layer */
    double expert_ratio[LULL_STEP_PRECISIONS]; /* rate of reading their weights, per weight_gbs */
    double expert_spread; /* time is longer by this ratio for each doubling of the GPUs */
    double expert_tflops_ratio;

    /* The rest of a layer: norms, positions, activation functions. */
    double layer_us;
    double state_gbs; /* rate of reading and writing the state of sequences */

    /* Collectives. */
    double link_start_ratio; /* of small sums, per NCCL's: the engine has kernels of its own */

    /* Host. */
    double host_us;
    double host_sequence_us;
    double host_prefill_us; /* of a step with prompts */

    /* Energy at the highest clock; core: the part that goes as dynamic power of the SMs. */
    double busy_w;  /* core: of SMs that run kernels, above waiting */
    double byte_pj; /* of memory */
    double byte_core_pj;
    double cache_core_pj; /* of attention, per byte of cache, in place of byte_core_pj */
    double flop_core_pj[LULL_STEP_RATES];
    double prompt_core_pj;                      /* per operation of attention to a prompt */
    double state_core_pj;                       /* as byte_core_pj, of the state of sequences */
    double expert_core_w[LULL_STEP_PRECISIONS]; /* during the experts' kernels */
    double link_core_w;                         /* during collectives */
};

extern const struct lull_step_gpu lull_step_gpus[];
extern const uint32_t lull_step_gpu_count;

/* As lull_step_cost(), with these parameters. */
void lull_step_cost_with(const struct lull_step_gpu *params, const struct lull_step_setup *setup,
                         const struct lull_step_batch *batch, struct lull_step_cost *cost_out);

/* One product of `rows` tokens with a matrix of columns x depth weights. */
void lull_step_matmul_cost(const struct lull_step_gpu *params, const struct lull_gpu_model *gpu,
                           double rows, double columns, double depth, double weight_bytes,
                           struct lull_step_cost *cost_out);

/* The attention of a step alone. */
void lull_step_attention_cost(const struct lull_step_gpu *params,
                              const struct lull_step_setup *setup,
                              const struct lull_step_batch *batch, struct lull_step_cost *cost_out);

#endif
