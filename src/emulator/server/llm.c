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
