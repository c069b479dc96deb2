/*
 * The config.json of a language model gives the dimensions that the table has for it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../text_file.h"
#include "simulator/serving/llm_file.h"

#define QWEN_8B                                                                                    \
    "\"hidden_size\": 4096, \"intermediate_size\": 12288, \"num_attention_heads\": 32, "           \
    "\"num_hidden_layers\": 36, \"num_key_value_heads\": 8, \"head_dim\": 128, "                   \
    "\"vocab_size\": 151936, \"sliding_window\": null, \"use_sliding_window\": false, "            \
    "\"tie_word_embeddings\": false, \"torch_dtype\": \"bfloat16\""

/* Published dimensions, as the publishers' files name them. */
static const struct {
    const char *model;
    const char *text;
} files[] = {
    {"Qwen3-8B", "{" QWEN_8B "}"},
    {"Qwen3-1.7B",
     "{\"hidden_size\": 2048, \"intermediate_size\": 6144, \"num_attention_heads\": 16, "
     "\"num_hidden_layers\": 28, \"num_key_value_heads\": 8, \"head_dim\": 128, "
     "\"vocab_size\": 151936, \"tie_word_embeddings\": true}"},
    {"Qwen3-30B-A3B-Thinking-2507",
     "{\"thinker_config\": {\"text_config\": {\"hidden_size\": 2048, \"intermediate_size\": 6144, "
     "\"num_attention_heads\": 32, \"num_hidden_layers\": 48, \"num_key_value_heads\": 4, "
     "\"head_dim\": 128, \"vocab_size\": 151936, \"num_experts\": 128, "
     "\"num_experts_per_tok\": 8, \"moe_intermediate_size\": 768, \"decoder_sparse_step\": 1, "
     "\"mlp_only_layers\": []}}}"},
    {"Mixtral-8x7B-Instruct-v0.1",
     "{\"hidden_size\": 4096, \"intermediate_size\": 14336, \"num_attention_heads\": 32, "
     "\"num_hidden_layers\": 32, \"num_key_value_heads\": 8, \"vocab_size\": 32000, "
     "\"num_local_experts\": 8, \"num_experts_per_tok\": 2}"},
    {"DeepSeek-V3.1",
     "{\"hidden_size\": 7168, \"intermediate_size\": 18432, \"num_attention_heads\": 128, "
     "\"num_hidden_layers\": 61, \"num_key_value_heads\": 128, \"kv_lora_rank\": 512, "
     "\"qk_rope_head_dim\": 64, \"v_head_dim\": 128, \"vocab_size\": 129280, "
     "\"n_routed_experts\": 256, \"n_shared_experts\": 1, \"num_experts_per_tok\": 8, "
     "\"moe_intermediate_size\": 2048, \"first_k_dense_replace\": 3, \"moe_layer_freq\": 1, "
     "\"quantization_config\": {\"quant_method\": \"fp8\", \"weight_block_size\": [128, 128]}}"},
    {"Llama-4-Maverick-17B-128E-Instruct-FP8",
     "{\"text_config\": {\"model_type\": \"llama4_text\", \"hidden_size\": 5120, "
     "\"intermediate_size\": 8192, \"intermediate_size_mlp\": 16384, \"num_attention_heads\": 40, "
     "\"num_hidden_layers\": 48, \"num_key_value_heads\": 8, \"head_dim\": 128, "
     "\"vocab_size\": 202048, \"num_local_experts\": 128, \"num_experts_per_tok\": 1, "
     "\"interleave_moe_layer_step\": 2, \"attention_chunk_size\": 8192}, "
     "\"quantization_config\": {\"quant_method\": \"compressed-tensors\", \"config_groups\": "
     "{\"group_0\": {\"weights\": {\"num_bits\": 8, \"type\": \"float\"}}}, "
     "\"ignore\": [\"re:.*lm_head\", \"re:.*self_attn\"]}}"},
};

static void test_published_files(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
        const struct lull_llm *const known = lull_llm_find(files[i].model);
        const char *const path = text_file((const uint8_t *)files[i].text, strlen(files[i].text));
        struct lull_error err = {0};
        struct lull_llm read;

        if (lull_llm_file_read(path, &read, &err) < 0)
            fail_msg("%s: %s", files[i].model, err.text);
        assert_string_equal(read.name, path);
        read.name = known->name;
        assert_memory_equal(&read.layers, &known->layers,
                            offsetof(struct lull_llm, weight_bytes) -
                                offsetof(struct lull_llm, layers));
        assert_true(read.weight_bytes == known->weight_bytes);
        assert_true(read.dense_bytes == known->dense_bytes);
        assert_true(lull_llm_cache_bytes(&read) == lull_llm_cache_bytes(known));
        assert_true(lull_llm_total_params(&read) == lull_llm_total_params(known));
    }
}

/* Layers with a short window do not read the whole context. */
static void test_windows(void **state)
{
    static const struct {
        const char *text;
        uint32_t layers;
    } cases[] = {
        {"\"sliding_window\": 128, \"layer_types\": [\"sliding_attention\", \"full_attention\", "
         "\"sliding_attention\"]",
         34},
        {"\"sliding_window\": 1024, \"sliding_window_pattern\": 6", 6},
        {"\"sliding_window\": 4096", 36},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[1024];
        struct lull_llm read;

        snprintf(text, sizeof(text),
                 "{\"hidden_size\": 4096, \"intermediate_size\": 12288, "
                 "\"num_attention_heads\": 32, \"num_hidden_layers\": 36, \"vocab_size\": 9, %s}",
                 cases[i].text);
        assert_int_equal(
            lull_llm_file_read(text_file((const uint8_t *)text, strlen(text)), &read, NULL), 0);
        assert_int_equal(read.attention_layers, cases[i].layers);
    }
}

static void test_refused_files(void **state)
{
    static const struct {
        const char *text;
        int code;
        const char *said;
    } cases[] = {
        {"no JSON", LULL_E_FORMAT, "line 1: no JSON"},
        {"[1]", LULL_E_FORMAT, "hidden_size is missing"},
        {"{\"hidden_size\": 12}", LULL_E_FORMAT, "num_hidden_layers is missing"},
        {"{" QWEN_8B ", \"num_experts\": -2}", LULL_E_FORMAT, "num_experts must be a number"},
        {"{" QWEN_8B ", \"num_experts\": 8, \"num_experts_per_tok\": 9}", LULL_E_FORMAT,
         "numbers of experts"},
        {"{" QWEN_8B ", \"quantization_config\": {\"quant_method\": \"awq\"}}", LULL_E_UNSUPPORTED,
         "quantized weights (awq)"},
        {"{" QWEN_8B ", \"mamba_num_heads\": 128}", LULL_E_UNSUPPORTED, "layers with a state"},
        {"{" QWEN_8B ", \"hidden_size\": 2}", LULL_E_FORMAT, "no JSON"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *const path = text_file((const uint8_t *)cases[i].text, strlen(cases[i].text));
        struct lull_error err = {0};
        struct lull_llm read;

        assert_int_equal(lull_llm_file_read(path, &read, &err), cases[i].code);
        if (strstr(err.text, cases[i].said) == NULL)
            fail_msg("\"%s\" lacks \"%s\"", err.text, cases[i].said);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_published_files),
        cmocka_unit_test(test_windows),
        cmocka_unit_test(test_refused_files),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
