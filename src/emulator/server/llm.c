/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/server/llm.h"

#include <stdbool.h>
#include <string.h>
#include <strings.h>

static bool is_named(const struct lull_llm *llm, const char *name)
{
    static const char variant[] = "-Instruct";
    const char *const slash = strchr(llm->name, '/');
    const size_t length = strlen(name);

    if (strcasecmp(llm->name, name) == 0 || slash == NULL)
        return strcasecmp(llm->name, name) == 0;
    return strncasecmp(slash + 1, name, length) == 0 &&
           (slash[1 + length] == '\0' || strcasecmp(slash + 1 + length, variant) == 0);
}

const struct lull_llm *lull_llm_find(const char *name)
{
    for (uint32_t i = 0; i < lull_llm_count; i++)
        if (is_named(&lull_llms[i], name))
            return &lull_llms[i];
    return NULL;
}

double lull_llm_dense_params(const struct lull_llm *llm)
{
    const double hidden = llm->hidden;
    const double attention = 2.0 * hidden * (llm->heads + llm->kv_heads) * llm->head_dim;
    const double shared = hidden * (3.0 * llm->shared_ffn + llm->experts);

    if (llm->dense_params > 0.0)
        return llm->dense_params;
    return llm->layers * attention + (llm->layers - llm->expert_layers) * 3.0 * hidden * llm->ffn +
           llm->expert_layers * shared;
}

double lull_llm_expert_params(const struct lull_llm *llm)
{
    return 3.0 * llm->hidden * llm->expert_ffn * llm->experts * llm->expert_layers;
}

static double llm_head_params(const struct lull_llm *llm)
{
    return (double)llm->hidden * llm->vocabulary;
}

double lull_llm_total_params(const struct lull_llm *llm)
{
    const double embeddings = llm_head_params(llm) * (llm->tied != 0 ? 1.0 : 2.0);

    return lull_llm_dense_params(llm) + embeddings + lull_llm_expert_params(llm);
}

double lull_llm_active_params(const struct lull_llm *llm)
{
    const double experts =
        llm->experts == 0 ? 0.0 : lull_llm_expert_params(llm) * llm->active_experts / llm->experts;

    return lull_llm_dense_params(llm) + llm_head_params(llm) + experts;
}

double lull_llm_cache_bytes(const struct lull_llm *llm)
{
    const double values = 2.0 * llm->attention_layers * llm->kv_heads * llm->head_dim;

    return llm->cache_bytes > 0.0 ? llm->cache_bytes : 2.0 * values;
}
