/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/serving/llm_file.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <jansson.h>

#include "base/file.h"
#include "base/printable.h"

enum { MOST_BYTES = 1 << 22, MOST_WIDTH = 1 << 22, MOST_LAYERS = 4096 };

/* Requests of chats are shorter, so that a layer with this window reads the whole context. */
static const double whole_window_tokens = 4096;

static const double float4_bytes = 0.53; /* 4 bits, and 8 bits of scale for 32 weights */

/* A file in reading. The first fault is reported. */
struct llm_file {
    const json_t *part; /* the object with the dimensions of the language part */
    struct lull_error *err;
    int result;
};

static void llm_file_refuse(struct llm_file *file, int code, const char *what)
{
    if (file->result == 0)
        file->result = lull_error_set(file->err, code, "%s", what);
}

/* Returns the first of the names (up to NULL) that has a number; NULL: none. */
static const json_t *llm_file_find(const struct llm_file *file, const char *const *names)
{
    for (size_t i = 0; names[i] != NULL; i++) {
        const json_t *const value = json_object_get(file->part, names[i]);

        if (json_is_integer(value))
            return value;
    }
    return NULL;
}

/* Returns the number of the first name that has one, `otherwise` if none has. */
static uint32_t llm_file_read_count(struct llm_file *file, const char *const *names,
                                    json_int_t most, uint32_t otherwise)
{
    const json_t *const value = llm_file_find(file, names);
    const json_int_t number = value != NULL ? json_integer_value(value) : (json_int_t)otherwise;
    char what[120];

    if (number >= 0 && number <= most)
        return (uint32_t)number;
    snprintf(what, sizeof(what), "%s must be a number from 0 to %lld", names[0], (long long)most);
    llm_file_refuse(file, LULL_E_FORMAT, what);
    return otherwise;
}

#define NAMES(...)                                                                                 \
    (const char *const[])                                                                          \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

/* Like llm_file_read_count(), but the number must be there and above 0. */
static uint32_t llm_file_demand(struct llm_file *file, const char *name, json_int_t most)
{
    const uint32_t number = llm_file_read_count(file, NAMES(name), most, 0);
    char what[120];

    if (number == 0) {
        snprintf(what, sizeof(what), "%s is missing; give the config.json of a language model",
                 name);
        llm_file_refuse(file, LULL_E_FORMAT, what);
    }
    return number;
}

/* ---- attention ---------------------------------------------------------------------------- */

/* Returns how many texts of a list are equal to one of the names. */
static uint32_t llm_file_count_words(const json_t *list, const char *const *names)
{
    uint32_t count = 0;
    size_t index;
    json_t *word;

    json_array_foreach(list, index, word) for (size_t i = 0; names[i] != NULL; i++) count +=
        json_is_string(word) && strcmp(json_string_value(word), names[i]) == 0;
    return count;
}

/* Returns how many layers attend to a window alone. */
static uint32_t llm_file_count_windows(struct llm_file *file, uint32_t layers)
{
    const json_t *const kinds = json_object_get(file->part, "layer_types");
    const uint32_t window =
        llm_file_read_count(file, NAMES("sliding_window", "attention_chunk_size"), INT32_MAX, 0);
    const uint32_t pattern =
        llm_file_read_count(file, NAMES("sliding_window_pattern"), MOST_LAYERS, 0);

    if (window == 0 || window >= whole_window_tokens ||
        json_is_false(json_object_get(file->part, "use_sliding_window")))
        return 0;
    if (json_is_array(kinds))
        return llm_file_count_words(kinds, NAMES("sliding_attention", "chunked_attention"));
    return pattern > 0 ? layers - layers / pattern : layers;
}

static void llm_file_read_attention(struct llm_file *file, struct lull_llm *llm)
{
    const uint32_t latent = llm_file_read_count(file, NAMES("kv_lora_rank"), MOST_WIDTH, 0);
    uint32_t windows;

    llm->heads = llm_file_demand(file, "num_attention_heads", MOST_WIDTH);
    llm->kv_heads = llm_file_read_count(file, NAMES("num_key_value_heads"), MOST_WIDTH, llm->heads);
    llm->head_dim = llm_file_read_count(file, NAMES("head_dim"), MOST_WIDTH,
                                        llm->heads > 0 ? llm->hidden / llm->heads : 0);
    if (latent > 0) {
        const uint32_t shared = llm_file_demand(file, "qk_rope_head_dim", MOST_WIDTH);

        llm->kv_heads = 1;
        llm->head_dim = llm_file_demand(file, "v_head_dim", MOST_WIDTH);
        llm->cache_bytes = 2.0 * llm->layers * ((double)latent + shared);
    }
    windows = llm_file_count_windows(file, llm->layers);
    if (llm->kv_heads == 0 || llm->kv_heads > llm->heads || llm->head_dim == 0)
        llm_file_refuse(file, LULL_E_FORMAT, "its heads of attention do not fit each other");
    if (windows >= llm->layers)
        llm_file_refuse(file, LULL_E_UNSUPPORTED,
                        "no layer attends to the whole context, and such models were not measured");
    llm->attention_layers = llm->layers - windows;
}

/* ---- feed-forward parts ------------------------------------------------------------------- */

/* Returns how many layers have experts. */
static uint32_t llm_file_count_expert_layers(struct llm_file *file, uint32_t layers)
{
    const json_t *const dense = json_object_get(file->part, "mlp_only_layers");
    const json_t *const sparse = json_object_get(file->part, "moe_layers");
    const uint32_t first =
        llm_file_read_count(file, NAMES("first_k_dense_replace"), MOST_LAYERS, 0);
    const uint32_t step = llm_file_read_count(
        file, NAMES("interleave_moe_layer_step", "decoder_sparse_step", "moe_layer_freq"),
        MOST_LAYERS, 1);
    const uint64_t without = first + json_array_size(dense);

    if (json_array_size(sparse) > 0)
        return (uint32_t)json_array_size(sparse);
    if (step == 0 || without > layers)
        return 0;
    return (layers - (uint32_t)without) / step;
}

static void llm_file_read_experts(struct llm_file *file, struct lull_llm *llm)
{
    const uint32_t width = llm->ffn;
    const uint32_t shared = llm_file_read_count(file, NAMES("n_shared_experts"), MOST_WIDTH, 0);
    const json_t *const kind = json_object_get(file->part, "model_type");

    llm->active_experts = llm_file_read_count(
        file, NAMES("num_experts_per_tok", "experts_per_token", "moe_topk"), MOST_WIDTH, 0);
    llm->expert_layers = llm_file_count_expert_layers(file, llm->layers);
    llm->expert_ffn = llm_file_read_count(file, NAMES("moe_intermediate_size"), MOST_WIDTH, width);
    llm->shared_ffn = llm_file_read_count(file, NAMES("shared_expert_intermediate_size"),
                                          MOST_WIDTH, shared * llm->expert_ffn);
    if (json_is_string(kind) && strncmp(json_string_value(kind), "llama4", 6) == 0)
        llm->shared_ffn = width; /* it has one such expert in each layer with experts */
    llm->ffn = llm_file_read_count(file, NAMES("intermediate_size_mlp"), MOST_WIDTH, width);
    if (llm->expert_layers == llm->layers)
        llm->ffn = 0;
    if (llm->active_experts == 0 || llm->active_experts > llm->experts || llm->expert_layers == 0 ||
        llm->expert_layers > llm->layers)
        llm_file_refuse(file, LULL_E_FORMAT, "its numbers of experts do not fit each other");
}

/* ---- weights ------------------------------------------------------------------------------ */

/* Returns whether the quantization leaves attention as it was. */
static bool llm_file_keeps_attention(const json_t *scheme)
{
    const json_t *list = json_object_get(scheme, "ignore");
    size_t index;
    json_t *word;

    if (!json_is_array(list))
        list = json_object_get(scheme, "modules_to_not_convert");
    json_array_foreach(list, index,
                       word) if (json_is_string(word) &&
                                 strstr(json_string_value(word), "self_attn") != NULL) return true;
    return false;
}

/* Returns whether a scheme of compressed-tensors has floating-point weights of 8 bits. */
static bool llm_file_has_float8(const json_t *scheme)
{
    const json_t *const groups = json_object_get(scheme, "config_groups");
    const json_t *const weights = json_object_get(json_object_get(groups, "group_0"), "weights");
    const json_t *const type = json_object_get(weights, "type");

    return json_integer_value(json_object_get(weights, "num_bits")) == 8 && json_is_string(type) &&
           strcmp(json_string_value(type), "float") == 0;
}

static void llm_file_read_weights(struct llm_file *file, const json_t *root, struct lull_llm *llm)
{
    const json_t *scheme = json_object_get(root, "quantization_config");
    const char *method;
    char shown[40];
    char what[200];

    if (scheme == NULL)
        scheme = json_object_get(file->part, "quantization_config");
    method = json_string_value(json_object_get(scheme, "quant_method"));
    llm->weight_bytes = llm->dense_bytes = 2.0;
    if (!json_is_object(scheme))
        return;
    if (method != NULL && strcmp(method, "mxfp4") == 0) {
        llm->weight_bytes = float4_bytes;
    } else if (method != NULL &&
               (strcmp(method, "fp8") == 0 || strcmp(method, "fbgemm_fp8") == 0 ||
                (strcmp(method, "compressed-tensors") == 0 && llm_file_has_float8(scheme)))) {
        llm->weight_bytes = 1.0;
        llm->dense_bytes = llm_file_keeps_attention(scheme) ? 2.0 : 1.0;
        llm->block_scaled = json_is_array(json_object_get(scheme, "weight_block_size"));
    } else {
        lull_printable_write(method != NULL ? method : "of an unknown method", shown,
                             sizeof(shown));
        snprintf(what, sizeof(what),
                 "times of quantized weights (%s) are not known; give a model with 16-bit, fp8 or "
                 "mxfp4 weights",
                 shown);
        llm_file_refuse(file, LULL_E_UNSUPPORTED, what);
    }
}

/* ---- the whole file ----------------------------------------------------------------------- */

/* Returns the object with the language part's dimensions; NULL: there is none. */
static const json_t *llm_file_find_part(const json_t *root)
{
    static const char *const parts[] = {"text_config", "llm_config", "language_config"};
    const json_t *const thinker = json_object_get(root, "thinker_config");
    const json_t *part = json_object_get(root, "hidden_size") != NULL ? root : NULL;

    for (size_t i = 0; part == NULL && i < sizeof(parts) / sizeof(parts[0]); i++)
        part = json_object_get(root, parts[i]);
    return part == NULL && thinker != NULL ? json_object_get(thinker, "text_config") : part;
}

/* Returns whether some layers have a state in place of attention. */
static bool llm_file_has_state(const struct llm_file *file)
{
    static const char *const keys[] = {"hybrid_override_pattern", "layers_block_type",
                                       "linear_num_value_heads",  "mamba_d_state",
                                       "mamba_num_heads",         "state_size"};
    const json_t *const kinds = json_object_get(file->part, "layer_types");

    for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
        if (json_object_get(file->part, keys[i]) != NULL)
            return true;
    return llm_file_count_words(kinds, NAMES("linear_attention", "mamba", "recurrent")) > 0;
}

static void llm_file_read_dimensions(struct llm_file *file, const json_t *root,
                                     struct lull_llm *llm)
{
    llm->layers = llm_file_demand(file, "num_hidden_layers", MOST_LAYERS);
    llm->hidden = llm_file_demand(file, "hidden_size", MOST_WIDTH);
    llm->vocabulary = llm_file_demand(file, "vocab_size", INT32_MAX);
    llm->ffn = llm_file_demand(file, "intermediate_size", MOST_WIDTH);
    llm->experts = llm_file_read_count(
        file, NAMES("num_experts", "n_routed_experts", "num_local_experts", "moe_num_experts"),
        MOST_WIDTH, 0);
    llm->tied = json_is_true(json_object_get(file->part, "tie_word_embeddings"));
    if (llm_file_has_state(file))
        llm_file_refuse(file, LULL_E_UNSUPPORTED,
                        "it has layers with a state in place of attention, whose sizes differ "
                        "between models; such a model can only be added to data/llm_models.json");
    llm_file_read_attention(file, llm);
    if (llm->experts <= 1)
        llm->experts = 0;
    else
        llm_file_read_experts(file, llm);
    llm_file_read_weights(file, root, llm);
}

static int llm_file_parse(const char *path, const char *text, size_t size, struct lull_llm *llm_out,
                          struct lull_error *err)
{
    struct lull_llm llm = {.name = path};
    struct llm_file file = {.err = err};
    json_error_t error;
    json_t *const root = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);

    file.part = llm_file_find_part(root);
    if (root == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "line %d: no JSON", error.line);
    if (!json_is_object(file.part))
        llm_file_refuse(&file, LULL_E_FORMAT,
                        "hidden_size is missing; give the config.json of a language model");
    else
        llm_file_read_dimensions(&file, root, &llm);
    json_decref(root);
    if (file.result == 0)
        *llm_out = llm;
    return file.result;
}

int lull_llm_file_read(const char *path, struct lull_llm *llm_out, struct lull_error *err)
{
    char inside[4096];
    struct stat status;
    const char *file = path;
    char *text;
    size_t size;
    int result;

    if (stat(path, &status) == 0 && S_ISDIR(status.st_mode)) {
        if (snprintf(inside, sizeof(inside), "%s/config.json", path) >= (int)sizeof(inside))
            return lull_error_set(err, LULL_E_FORMAT, "%.200s: the path is too long", path);
        file = inside;
    }
    result = lull_file_read(file, MOST_BYTES, &text, &size, err);
    if (result < 0)
        return result;
    result = llm_file_parse(path, text, size, llm_out, err);
    free(text);
    return result;
}
