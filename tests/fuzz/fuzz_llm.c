/*
 * The config.json of a language model: refused with a message, or dimensions that fit each other.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "../text_file.h"
#include "fuzz.h"

#include "simulator/serving/llm_file.h"

static void check_read(const struct lull_llm *llm)
{
    require(llm->layers > 0 && llm->hidden > 0 && llm->vocabulary > 0);
    require(llm->attention_layers > 0 && llm->attention_layers <= llm->layers);
    require(llm->kv_heads > 0 && llm->kv_heads <= llm->heads && llm->head_dim > 0);
    require(llm->active_experts <= llm->experts && llm->expert_layers <= llm->layers);
    require(lull_llm_total_params(llm) > 0.0 && isfinite(lull_llm_total_params(llm)));
    require(lull_llm_active_params(llm) <= lull_llm_total_params(llm));
    require(lull_llm_cache_bytes(llm) > 0.0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_llm llm = {0};
    struct lull_error err = {0};

    if (lull_llm_file_read(text_file(data, size), &llm, &err) < 0)
        require(err.text[0] != '\0' && llm.name == NULL);
    else
        check_read(&llm);
    return 0;
}
