/* SPDX-License-Identifier: Apache-2.0 */
#include "emulator/spec.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int malformed(const char *text, const char *at, const char *what, struct lull_error *err)
{
    return lull_error_set(err, -EINVAL, "\"%.60s\": character %zu: %s; e.g. 4xA100-SXM4-40GB", text,
                          (size_t)(at - text) + 1, what);
}

static int unknown_model(const char *name, size_t length, struct lull_error *err)
{
    char known[200] = "";
    size_t used = 0;

    for (uint32_t i = 0; i < lull_gpu_model_count && used < sizeof(known); i++)
        used += (size_t)snprintf(known + used, sizeof(known) - used, "%s%s", i > 0 ? ", " : "",
                                 lull_gpu_models[i].name);
    return lull_error_set(err, LULL_E_UNSUPPORTED, "\"%.*s\": unknown GPU model; known: %s",
                          (int)(length < 20 ? length : 20), name, known);
}

/* Digits followed by x are a count; a model's name may begin with neither. */
static int parse_count(const char *text, const char **at, uint32_t *count, struct lull_error *err)
{
    char *end;
    unsigned long value;

    *count = 1;
    if (!isdigit((unsigned char)**at))
        return 0;
    value = strtoul(*at, &end, 10);
    if (*end != 'x')
        return malformed(text, end, "expected x after the number of GPUs", err);
    if (value < 1 || value > LULL_NODE_MAX_GPUS)
        return malformed(text, *at, "a node has 1 to 64 GPUs", err);
    *count = (uint32_t)value;
    *at = end + 1;
    return 0;
}

static int parse_item(const char *text, const char **at, struct lull_node_spec *spec,
                      struct lull_error *err)
{
    const char *start = *at;
    uint32_t count;
    int result = parse_count(text, at, &count, err);

    if (result < 0)
        return result;
    const char *name = *at;
    const size_t length = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                       "0123456789-_.");
    const struct lull_gpu_model *model = lull_gpu_model_find(name, (uint32_t)length);

    if (length == 0)
        return malformed(text, name, "expected the name of a GPU model", err);
    if (name[length] != '\0' && name[length] != ',')
        return malformed(text, name + length, "expected a comma or the end", err);
    if (model == NULL)
        return unknown_model(name, length, err);
    if (count > LULL_NODE_MAX_GPUS - spec->gpu_count)
        return malformed(text, start, "a node has 1 to 64 GPUs", err);
    for (uint32_t i = 0; i < count; i++)
        spec->models[spec->gpu_count++] = model;
    *at = name + length;
    return 0;
}

int lull_node_spec_parse(const char *text, struct lull_node_spec *spec, struct lull_error *err)
{
    struct lull_node_spec parsed = *spec;
    const char *at = text;

    parsed.gpu_count = 0;
    for (;;) {
        int result = parse_item(text, &at, &parsed, err);

        if (result < 0)
            return result;
        if (*at == '\0')
            break;
        at++; /* the comma */
    }
    *spec = parsed;
    return 0;
}
