/* SPDX-License-Identifier: BSD-3-Clause */
#include "cluster/slurm/submit_settings.h"

#include <stddef.h>
#include <string.h>

enum { LINE_BYTES = 256, WORD_BYTES = 32 };

static const struct {
    const char *key, *yes, *no;
    size_t offset;
} rows[] = {
    {"default", "on", "off", offsetof(struct lull_submit_settings, is_default)},
    {"deadline", "required", "optional", offsetof(struct lull_submit_settings, requires_deadline)},
    {"schedule", "on", "off", offsetof(struct lull_submit_settings, is_scheduled)},
    {"gpu-freq", "refused", "allowed", offsetof(struct lull_submit_settings, refuses_frequency)},
};

static bool submit_settings_take(struct lull_submit_settings *settings, const char *key,
                                 const char *value)
{
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const bool is_yes = strcmp(value, rows[i].yes) == 0;

        if (strcmp(key, rows[i].key) != 0 || (!is_yes && strcmp(value, rows[i].no) != 0))
            continue;
        *(bool *)((char *)settings + rows[i].offset) = is_yes;
        return true;
    }
    return false;
}

unsigned lull_submit_settings_read(FILE *file, struct lull_submit_settings *settings)
{
    char line[LINE_BYTES];
    unsigned wrong = 0;

    for (unsigned number = 1; fgets(line, sizeof(line), file) != NULL; number++) {
        char key[WORD_BYTES], value[WORD_BYTES], rest;

        line[strcspn(line, "#\n")] = '\0';
        if (line[strspn(line, " \t")] == '\0')
            continue;
        if ((sscanf(line, " %31[^= \t] = %31s %c", key, value, &rest) != 2 ||
             !submit_settings_take(settings, key, value)) &&
            wrong == 0)
            wrong = number;
    }
    return wrong;
}
