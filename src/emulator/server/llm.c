/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/server/llm.h"

#include <string.h>
#include <strings.h>

static int is_named(const struct lull_llm *llm, const char *name)
{
    const char *const slash = strchr(llm->name, '/');

    return strcasecmp(llm->name, name) == 0 || (slash != NULL && strcasecmp(slash + 1, name) == 0);
}

const struct lull_llm *lull_llm_find(const char *name)
{
    for (uint32_t i = 0; i < lull_llm_count; i++)
        if (is_named(&lull_llms[i], name))
            return &lull_llms[i];
    return NULL;
}
