/*
 * A step is a sum of kernels. Each one's time is a roofline, rounded where memory and cores are
 * about equally slow, and its energy that of its bytes and operations.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/server/step.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/minmax.h"
#include "emulator/collective.h"
#include "emulator/server/step_gpu.h"

enum {
    BFLOAT16_BYTES = 2,
    LOGIT_BYTES = 12,    /* float32, written once and read twice */
    TILE_ROWS = 64,      /* tensor cores compute at least as many rows */
    RESERVED_MIB = 2048, /* activations and captured graphs */
    PROMPT_ROWS = 128,   /* of a prompt that an SM computes together */
    SPLIT_TOKENS = 4096, /* a context of this length pays half of split_us */
    QUANTISE_BYTES = 3,  /* read as bfloat16, written as fp8 */
};

struct step_sum {
    const struct lull_step_gpu *params;
    double seconds;
    double memory_s; /* the part that waits for memory or links */
    double base_j;   /* of memory */
    double core_j;   /* at the highest clock */
};

/* What a kernel moves and computes on one GPU. */
struct step_kernel {
    double fixed_s;
    double memory_s;
    double core_s;
    double bytes;
    double core_j;
};

static void add_kernel(struct step_sum *sum, const struct step_kernel *kernel)
{
    const double memory = kernel->memory_s * kernel->memory_s * kernel->memory_s;
    const double core = kernel->core_s * kernel->core_s * kernel->core_s;
    const double rounded = cbrt(memory + core);

    sum->seconds += kernel->fixed_s + rounded;
    if (rounded > 0)
        sum->memory_s += rounded * memory / (memory + core);
    sum->base_j += kernel->bytes * sum->params->byte_pj * 1e-12;
    sum->core_j += kernel->core_j;
}

static void add_layers(struct step_sum *sum, double count, const struct step_sum *layer)
{
    sum->seconds += count * layer->seconds;
    sum->memory_s += count * layer->memory_s;
    sum->base_j += count * layer->base_j;
    sum->core_j += count * layer->core_j;
}

/* ---- matrix products ---------------------------------------------------------------------- */

struct step_matmul {
    double rows;    /* tokens */
    double columns; /* of the output */
    double depth;
    double weight_bytes; /* per weight */
};

/* The precision that the tensor cores compute in. */
static enum lull_step_precision rate_of(double weight_bytes)
{
    return weight_bytes >= 1.0 && weight_bytes < 1.5 ? LULL_STEP_FP8 : LULL_STEP_BFLOAT16;
}

static enum lull_step_precision expert_precision(const struct lull_llm *llm)
{
    if (llm->weight_bytes < 1.0)
        return LULL_STEP_MXFP4;
    if (llm->block_scaled)
        return LULL_STEP_FP8_BLOCK;
    return rate_of(llm->weight_bytes);
}

/* Products with fp8 weights take an fp8 input, which a kernel of its own makes of bfloat16. */
static void add_quantisation(struct step_sum *sum, const struct step_matmul *matmul)
{
    const struct lull_step_gpu *const params = sum->params;
    const double bytes = matmul->rows * matmul->depth * QUANTISE_BYTES;

    add_kernel(sum, &(struct step_kernel){
                        .fixed_s = params->quantise_us * 1e-6,
                        .memory_s = bytes / (params->quantise_gbs * 1e9),
                        .bytes = bytes,
                        .core_j = bytes * params->byte_core_pj * 1e-12,
                    });
}

static void add_matmul(struct step_sum *sum, const struct step_matmul *matmul)
{
    const struct lull_step_gpu *const params = sum->params;
    const enum lull_step_precision rate = rate_of(matmul->weight_bytes);
    const double weights = matmul->columns * matmul->depth;
    const double bytes = weights * matmul->weight_bytes +
                         matmul->rows * (matmul->columns + matmul->depth) * BFLOAT16_BYTES;
    const double flops = 2.0 * weights * matmul->rows;
    const double padded = 2.0 * weights * fmax(matmul->rows, TILE_ROWS);

    if (weights <= 0 || matmul->rows <= 0)
        return;
    if (rate == LULL_STEP_FP8)
        add_quantisation(sum, matmul);
    add_kernel(
        sum,
        &(struct step_kernel){
            .fixed_s = params->matmul_us * 1e-6,
            .memory_s = bytes / (params->weight_gbs * 1e9),
            .core_s = padded / (params->tflops[rate] * 1e12),
            .bytes = bytes,
            .core_j = (bytes * params->byte_core_pj + flops * params->flop_core_pj[rate]) * 1e-12,
        });
}

/* Adds `count` layers' matrix products: one that is split by columns and one by rows. */
static void add_matmul_pair(struct step_sum *sum, double count, double rows, double hidden,
                            double wide, double narrow, double weight_bytes)
{
    struct step_sum layer = {.params = sum->params};

    add_matmul(&layer, &(struct step_matmul){rows, wide, hidden, weight_bytes});
    add_matmul(&layer, &(struct step_matmul){rows, hidden, narrow, weight_bytes});
    add_layers(sum, count, &layer);
}

static double attention_params(const struct lull_llm *llm)
{
    return 2.0 * llm->hidden * (llm->heads + llm->kv_heads) * llm->head_dim;
}

/* The products of all layers outside the experts. */
static void add_dense(struct step_sum *sum, const struct lull_step_setup *setup, double tokens)
{
    const struct lull_llm *const llm = setup->llm;
    const double gpus = setup->gpus;
    const double hidden = llm->hidden;
    const uint32_t dense_layers = llm->ffn > 0 ? llm->layers - llm->expert_layers : 0;
    const uint32_t other_layers = llm->layers - llm->attention_layers;
    const double bytes = llm->dense_bytes;

    add_matmul_pair(sum, llm->attention_layers, tokens, hidden,
                    (llm->heads + 2.0 * llm->kv_heads) * llm->head_dim / gpus,
                    (double)llm->heads * llm->head_dim / gpus, bytes);
    add_matmul_pair(sum, dense_layers, tokens, hidden, 2.0 * llm->ffn / gpus, llm->ffn / gpus,
                    bytes);
    if (llm->shared_ffn > 0)
        add_matmul_pair(sum, llm->expert_layers, tokens, hidden, 2.0 * llm->shared_ffn / gpus,
                        llm->shared_ffn / gpus, bytes);
    if (other_layers > 0) {
        const double known = llm->attention_layers * attention_params(llm) +
                             dense_layers * 3.0 * hidden * llm->ffn +
                             llm->expert_layers * hidden * (3.0 * llm->shared_ffn + llm->experts);
        const double width = (lull_llm_dense_params(llm) - known) / other_layers / (2.0 * hidden);

        add_matmul_pair(sum, other_layers, tokens, hidden, width / gpus, width / gpus, bytes);
    }
}

/* ---- experts ------------------------------------------------------------------------------ */

static void add_experts(struct step_sum *sum, const struct lull_step_setup *setup, double tokens)
{
    const struct lull_llm *const llm = setup->llm;
    const struct lull_step_gpu *const params = sum->params;
    const enum lull_step_precision precision = expert_precision(llm);
    const enum lull_step_precision rate = rate_of(llm->weight_bytes);

    if (llm->expert_layers == 0)
        return;

    const double spread = 1.0 + params->expert_spread * log2(setup->gpus);
    const double used = (double)llm->active_experts / llm->experts;
    const double distinct = llm->experts * (1.0 - pow(1.0 - used, tokens));
    const double weights = 3.0 * llm->hidden * llm->expert_ffn / setup->gpus;
    const double bytes = distinct * weights * llm->weight_bytes + tokens * llm->active_experts *
                                                                      4.0 * llm->hidden *
                                                                      BFLOAT16_BYTES / setup->gpus;
    const double flops = 2.0 * weights * tokens * llm->active_experts;
    const double padded = 2.0 * weights * (tokens * llm->active_experts + distinct * TILE_ROWS / 2);
    struct step_sum layer = {.params = params};

    add_kernel(
        &layer,
        &(struct step_kernel){
            .fixed_s = params->expert_us[precision] * 1e-6,
            .memory_s =
                spread * bytes / (params->weight_gbs * params->expert_ratio[precision] * 1e9),
            .core_s = spread * padded / (params->tflops[rate] * params->expert_tflops_ratio * 1e12),
            .bytes = bytes,
            .core_j = (bytes * params->byte_core_pj + flops * params->flop_core_pj[rate]) * 1e-12,
        });
    layer.core_j += layer.seconds * params->expert_core_w[precision];
    add_layers(sum, llm->expert_layers, &layer);
}

/* ---- attention, state and the rest of the layers ------------------------------------------ */

static double cache_shards(const struct lull_step_setup *setup)
{
    return fmin(setup->gpus, fmax(setup->llm->kv_heads, 1));
}

static void add_decode_attention(struct step_sum *sum, const struct lull_step_setup *setup,
                                 const struct lull_step_batch *batch)
{
    const struct lull_llm *const llm = setup->llm;
    const struct lull_step_gpu *const params = sum->params;

    if (batch->decoding == 0)
        return;

    const double length = batch->decode_context / batch->decoding;
    const double start_us =
        params->attention_us + params->split_us * length / (length + SPLIT_TOKENS);
    const double context = batch->decode_context + params->tile_tokens * batch->decoding;
    const double bytes = context * lull_llm_cache_bytes(llm) / cache_shards(setup);
    const double flops =
        4.0 * context * llm->attention_layers * llm->heads * llm->head_dim / setup->gpus;

    add_kernel(sum, &(struct step_kernel){
                        .fixed_s = llm->attention_layers * start_us * 1e-6,
                        .memory_s = bytes / (params->cache_gbs * 1e9),
                        .bytes = bytes,
                        .core_j = (bytes * params->cache_core_pj +
                                   flops * params->flop_core_pj[LULL_STEP_BFLOAT16]) *
                                  1e-12,
                    });
}

/* Time that attention of a layer takes beyond its rate: an SM begins with each prompt and head, and
 * the last rows of a prompt, which have the longest context, end after the others. */
static double prompt_tail_s(const struct lull_step_gpu *params, const struct lull_step_setup *setup,
                            const struct lull_step_batch *batch)
{
    const struct lull_llm *const llm = setup->llm;
    const double sms = setup->gpu->sm_count;
    const double prompts = fmax(batch->prompts, 1);
    const double tokens = batch->prefill_tokens / prompts;
    const double longest = batch->prefill_context / batch->prefill_tokens + tokens / 2.0;
    /* The heads that share keys take the place of rows where a prompt has one token. */
    const double heads = tokens > 1 ? llm->heads : fmax(llm->kv_heads, 1);
    const double begin_s = prompts * heads / setup->gpus * params->prompt_head_us * 1e-6 / sms;
    const double flops = 4.0 * PROMPT_ROWS * longest * llm->head_dim;

    return begin_s + params->prompt_tail * flops / (params->attention_tflops * 1e12 / sms);
}

static void add_prefill_attention(struct step_sum *sum, const struct lull_step_setup *setup,
                                  const struct lull_step_batch *batch)
{
    const struct lull_llm *const llm = setup->llm;
    const struct lull_step_gpu *const params = sum->params;

    if (batch->prefill_tokens == 0)
        return;

    const double width = 4.0 * llm->attention_layers * llm->heads * llm->head_dim / setup->gpus;
    const double flops = width * batch->prefill_context;
    const double padded = flops + width * batch->prefill_tokens * params->prompt_tile;
    const double tail_s = llm->attention_layers * prompt_tail_s(params, setup, batch);

    add_kernel(sum, &(struct step_kernel){
                        .fixed_s = llm->attention_layers * params->attention_us * 1e-6,
                        .core_s = padded / (params->attention_tflops * 1e12) + tail_s,
                        .core_j = flops * params->prompt_core_pj * 1e-12,
                    });
}

/* Norms, positions and activation functions read and write what flows between the products. */
static void add_rest(struct step_sum *sum, const struct lull_step_setup *setup,
                     const struct lull_step_batch *batch, double tokens)
{
    const struct lull_llm *const llm = setup->llm;
    const struct lull_step_gpu *const params = sum->params;
    const double values = 8.0 * llm->hidden + 3.0 * llm->ffn / setup->gpus;
    const double bytes = llm->layers * tokens * values * BFLOAT16_BYTES;
    const double state = batch->decoding * llm->state_bytes / setup->gpus;
    const double logits = batch->sampled * (double)llm->vocabulary * LOGIT_BYTES;

    add_kernel(
        sum,
        &(struct step_kernel){
            .fixed_s = llm->layers * params->layer_us * 1e-6,
            .memory_s =
                (bytes + logits) / (params->weight_gbs * 1e9) + state / (params->state_gbs * 1e9),
            .bytes = bytes + logits + state,
            .core_j =
                ((bytes + logits) * params->byte_core_pj + state * params->state_core_pj) * 1e-12,
        });
}

/* ---- collectives -------------------------------------------------------------------------- */

/* Attention and the feed-forward part each end with a sum over the GPUs. */
static void add_collectives(struct step_sum *sum, const struct lull_step_setup *setup,
                            double tokens)
{
    const struct lull_llm *const llm = setup->llm;
    const bool is_hybrid = llm->state_bytes > 0; /* a layer is either of the two */
    const double count = (is_hybrid ? 1.0 : 2.0) * llm->layers;
    const double bytes = tokens * llm->hidden * BFLOAT16_BYTES;

    if (setup->gpus < 2)
        return;

    const struct lull_collective_gpu *const links = lull_collective_find(setup->gpu->name);
    const enum lull_collective operation = LULL_COLLECTIVE_ALL_REDUCE;
    const struct lull_collective_time least =
        lull_collective_in_node(links, operation, setup->gpus, 0);
    const struct lull_collective_time nccl =
        lull_collective_in_node(links, operation, setup->gpus, bytes);
    const double start_s = nccl.start_s - (1.0 - sum->params->link_start_ratio) * least.start_s;

    add_kernel(sum, &(struct step_kernel){
                        .fixed_s = count * start_s,
                        .memory_s = count * nccl.transfer_s,
                        .core_j = count * sum->params->link_core_w * (start_s + nccl.transfer_s),
                    });
}

/* ---- the step ----------------------------------------------------------------------------- */

/* Parts of a step that depend on one number: of its tokens, or of the tokens that it samples. */
enum step_part { PART_LAYERS, PART_COLLECTIVES, PART_LOGITS, STEP_PARTS };

/* The rest of the layers depends on three numbers, the first of which is that of the tokens. */
struct step_known_rest {
    uint32_t decoding;
    uint32_t sampled;
    struct step_sum sum;
};

/* Parts by number. Those without parameters are not known yet. */
struct lull_step_memo {
    const struct lull_step_setup *setup;
    struct lull_step_gpu guess;
    const struct lull_step_gpu *params;
    uint32_t room;
    struct step_sum *parts[STEP_PARTS];
    struct step_known_rest *rests;
};

static void add_sum(struct step_sum *sum, const struct step_sum *part)
{
    sum->seconds += part->seconds;
    sum->memory_s += part->memory_s;
    sum->base_j += part->base_j;
    sum->core_j += part->core_j;
}

static void compute_part(enum step_part part, const struct lull_step_setup *setup, uint32_t number,
                         struct step_sum *sum)
{
    const struct lull_llm *const llm = setup->llm;

    switch (part) {
    case PART_LAYERS:
        add_dense(sum, setup, number);
        add_experts(sum, setup, number);
        break;
    case PART_COLLECTIVES:
        add_collectives(sum, setup, number);
        break;
    case PART_LOGITS:
        add_matmul(sum, &(struct step_matmul){number, (double)llm->vocabulary / setup->gpus,
                                              llm->hidden, BFLOAT16_BYTES});
        break;
    case STEP_PARTS:
        break;
    }
}

static void add_part(struct step_sum *sum, struct lull_step_memo *memo, enum step_part part,
                     const struct lull_step_setup *setup, uint32_t number)
{
    struct step_sum once = {.params = NULL};
    struct step_sum *known =
        memo != NULL && number < memo->room ? &memo->parts[part][number] : &once;

    if (known->params == NULL) {
        known->params = sum->params;
        compute_part(part, setup, number, known);
    }
    add_sum(sum, known);
}

static void add_known_rest(struct step_sum *sum, struct lull_step_memo *memo,
                           const struct lull_step_setup *setup, const struct lull_step_batch *batch)
{
    const uint32_t tokens = batch->decoding + batch->prefill_tokens;
    struct step_known_rest once = {.sampled = 0};
    struct step_known_rest *known =
        memo != NULL && tokens < memo->room ? &memo->rests[tokens] : &once;

    if (known->sum.params == NULL || known->decoding != batch->decoding ||
        known->sampled != batch->sampled) {
        *known = (struct step_known_rest){batch->decoding, batch->sampled, {.params = sum->params}};
        assert(known->sum.params != NULL);
        add_rest(&known->sum, setup, batch, tokens);
    }
    add_sum(sum, &known->sum);
}

static void write_cost(const struct step_sum *sum, const struct lull_gpu_model *gpu, double host_us,
                       struct lull_step_cost *cost_out)
{
    const double voltage = lull_gpu_curve_at(&gpu->voltage, gpu->sm_max_mhz);
    const double waiting_w = lull_gpu_curve_at(&gpu->active_idle_w, gpu->sm_max_mhz);
    const double core_w =
        waiting_w - gpu->idle_w + sum->params->busy_w + sum->core_j / sum->seconds;

    cost_out->host_s = host_us * 1e-6;
    cost_out->gpu_s = sum->seconds;
    cost_out->profile = (struct lull_gpu_profile){
        .name = "step",
        .base_w = gpu->idle_w + sum->base_j / sum->seconds,
        .slope_w = core_w / (voltage * voltage),
        .memory_ratio = fmin(sum->memory_s / sum->seconds, 1.0),
    };
}

static void compute_cost(const struct lull_step_gpu *params, struct lull_step_memo *memo,
                         const struct lull_step_setup *setup, const struct lull_step_batch *batch,
                         struct lull_step_cost *cost_out)
{
    const uint32_t tokens = batch->decoding + batch->prefill_tokens;
    struct step_sum sum = {.params = params};
    double host_us = params->host_us + params->host_sequence_us * batch->decoding;

    if (batch->prefill_tokens > 0)
        host_us += params->host_prefill_us;
    add_part(&sum, memo, PART_LAYERS, setup, tokens);
    add_decode_attention(&sum, setup, batch);
    add_prefill_attention(&sum, setup, batch);
    add_known_rest(&sum, memo, setup, batch);
    add_part(&sum, memo, PART_COLLECTIVES, setup, tokens);
    add_part(&sum, memo, PART_LOGITS, setup, batch->sampled);
    write_cost(&sum, setup->gpu, host_us, cost_out);
}

void lull_step_cost_with(const struct lull_step_gpu *params, const struct lull_step_setup *setup,
                         const struct lull_step_batch *batch, struct lull_step_cost *cost_out)
{
    compute_cost(params, NULL, setup, batch, cost_out);
}

void lull_step_matmul_cost(const struct lull_step_gpu *params, const struct lull_gpu_model *gpu,
                           double rows, double columns, double depth, double weight_bytes,
                           struct lull_step_cost *cost_out)
{
    struct step_sum sum = {.params = params};

    add_matmul(&sum, &(struct step_matmul){rows, columns, depth, weight_bytes});
    write_cost(&sum, gpu, 0, cost_out);
}

void lull_step_attention_cost(const struct lull_step_gpu *params,
                              const struct lull_step_setup *setup,
                              const struct lull_step_batch *batch, struct lull_step_cost *cost_out)
{
    struct step_sum sum = {.params = params};

    add_decode_attention(&sum, setup, batch);
    add_prefill_attention(&sum, setup, batch);
    write_cost(&sum, setup->gpu, 0, cost_out);
}

static const struct lull_step_gpu *find_params(const char *name)
{
    for (uint32_t i = 0; i < lull_step_gpu_count; i++)
        if (strcmp(lull_step_gpus[i].name, name) == 0)
            return &lull_step_gpus[i];
    return NULL;
}

/* A GPU without measurements: the GPU whose curves it borrows, or else an A100, with its own rates
 * of memory and cores. */
static struct lull_step_gpu guess_params(const struct lull_gpu_model *gpu)
{
    const struct lull_step_gpu *const borrowed = find_params(gpu->borrowed);
    const struct lull_step_gpu *const from =
        borrowed != NULL ? borrowed : find_params("A100-SXM4-80GB");
    const struct lull_gpu_model *const lender =
        lull_gpu_model_find(from->name, (uint32_t)strlen(from->name));
    const double memory = gpu->bandwidth_gbs / lender->bandwidth_gbs;
    const double cores =
        gpu->core_count * gpu->sm_max_mhz / (lender->core_count * lender->sm_max_mhz);
    struct lull_step_gpu params = *from;

    params.weight_gbs *= memory;
    params.cache_gbs *= memory;
    params.state_gbs *= memory;
    params.attention_tflops *= cores;
    for (int i = 0; i < LULL_STEP_RATES; i++)
        params.tflops[i] *= cores;
    return params;
}

/* The parameters of a GPU; of one without measurements they are in *guess. */
static const struct lull_step_gpu *params_of(const struct lull_gpu_model *gpu,
                                             struct lull_step_gpu *guess)
{
    const struct lull_step_gpu *const params = find_params(gpu->name);

    if (params != NULL)
        return params;
    *guess = guess_params(gpu);
    return guess;
}

void lull_step_cost(const struct lull_step_setup *setup, const struct lull_step_batch *batch,
                    struct lull_step_cost *cost_out)
{
    struct lull_step_gpu guess;

    lull_step_cost_with(params_of(setup->gpu, &guess), setup, batch, cost_out);
}

/* ---- the memory of costs ------------------------------------------------------------------ */

struct lull_step_memo *lull_step_memo_create(const struct lull_step_setup *setup,
                                             uint32_t max_tokens)
{
    struct lull_step_memo *memo = calloc(1, sizeof(*memo));
    bool is_complete = memo != NULL;

    if (!is_complete)
        return NULL;
    memo->setup = setup;
    memo->params = params_of(setup->gpu, &memo->guess);
    memo->room = max_tokens + 1;
    for (int part = 0; part < STEP_PARTS; part++) {
        memo->parts[part] = calloc(memo->room, sizeof(memo->parts[part][0]));
        is_complete = is_complete && memo->parts[part] != NULL;
    }
    memo->rests = calloc(memo->room, sizeof(memo->rests[0]));
    if (is_complete && memo->rests != NULL)
        return memo;
    lull_step_memo_destroy(memo);
    return NULL;
}

void lull_step_memo_destroy(struct lull_step_memo *memo)
{
    if (memo == NULL)
        return;
    for (int part = 0; part < STEP_PARTS; part++)
        free(memo->parts[part]);
    free(memo->rests);
    free(memo);
}

void lull_step_memo_cost(struct lull_step_memo *memo, const struct lull_step_batch *batch,
                         struct lull_step_cost *cost_out)
{
    compute_cost(memo->params, memo, memo->setup, batch, cost_out);
}

/* ---- between servers ---------------------------------------------------------------------- */

/* Rate at which a GPU sends to another one of its node. */
static double link_gbs(const struct lull_gpu_model *gpu)
{
    return lull_collective_find(gpu->name)->lines[LULL_COLLECTIVE_ALL_TO_ALL][0][1].bus_gbs;
}

double lull_step_handover_gbs(const struct lull_step_setup *from, const struct lull_step_setup *to)
{
    return fmin(link_gbs(from->gpu), link_gbs(to->gpu)) * lull_min_u32(from->gpus, to->gpus);
}

double lull_step_handover_s(const struct lull_llm *llm, uint32_t prompt_tokens, double gbs)
{
    return (lull_llm_cache_bytes(llm) * prompt_tokens + llm->state_bytes) / (gbs * 1e9);
}

double lull_step_cache_tokens(const struct lull_step_setup *setup)
{
    const struct lull_llm *const llm = setup->llm;
    const double used_ratio = 0.9;
    const double mib = 1024.0 * 1024.0;
    const double dense = lull_llm_dense_params(llm);
    const double experts = lull_llm_expert_params(llm);
    const double embeddings = lull_llm_total_params(llm) - dense - experts;
    const double weights =
        dense * llm->dense_bytes + experts * llm->weight_bytes + embeddings * BFLOAT16_BYTES;
    const double memory = (used_ratio * setup->gpu->memory_mib - RESERVED_MIB) * mib;
    const double room = memory - weights / setup->gpus;

    return fmax(room, 0.0) * cache_shards(setup) / lull_llm_cache_bytes(llm);
}
