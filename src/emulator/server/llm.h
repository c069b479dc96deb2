/*
 * Dimensions of large language models, from their published configurations. The table is generated
 * from data/llm_models.json. Threads: any; nothing here changes. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_EMULATOR_SERVER_LLM_H
#define LULL_EMULATOR_SERVER_LLM_H

#include <stddef.h>
#include <stdint.h>

struct lull_llm {
    const char *name; /* e.g. "meta-llama/Llama-3.1-8B-Instruct" */
    uint32_t layers;
    uint32_t attention_layers; /* layers with attention over the context; hybrids have fewer */
    uint32_t hidden;
    uint32_t heads;
    uint32_t kv_heads;
    uint32_t head_dim;
    uint32_t ffn;            /* width of the dense feed-forward part; 0: none */
    uint32_t experts;        /* 0: dense */
    uint32_t active_experts; /* of each token */
    uint32_t expert_layers;  /* the others have a dense feed-forward part */
    uint32_t expert_ffn;
    uint32_t shared_ffn; /* of experts that every token passes */
    uint32_t vocabulary;
    uint32_t block_scaled; /* fp8 whose scales are those of blocks of weights */
    uint32_t tied;         /* the embeddings of input and output are the same weights */
    double weight_bytes;   /* per parameter: 2 bfloat16, 1 fp8, 0.53 mxfp4 */
    double dense_bytes;    /* per parameter outside the experts */
    double cache_bytes;    /* of one token in all layers; 0: they follow from the dimensions */
    double state_bytes;    /* of one sequence, read and written by each step; 0: none */
    double dense_params;   /* as lull_llm_dense_params(); 0: they follow from the dimensions */
};

extern const struct lull_llm lull_llms[];
extern const uint32_t lull_llm_count;

/* The model of that name; its owner and a '/' ahead, and "-Instruct" at the end, may be left out.
 * Case is ignored. NULL: none. */
const struct lull_llm *lull_llm_find(const char *name);

/* Parameters of the layers without experts, of all experts, of all, and of those that compute a
 * token. */
double lull_llm_dense_params(const struct lull_llm *llm);
double lull_llm_expert_params(const struct lull_llm *llm);
double lull_llm_total_params(const struct lull_llm *llm);
double lull_llm_active_params(const struct lull_llm *llm);

/* Bytes in the cache of one token, in all layers. */
double lull_llm_cache_bytes(const struct lull_llm *llm);

#endif
