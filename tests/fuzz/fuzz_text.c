/*
 * Texts that users type: numbers, ratios, emulated nodes, faults. They
 * are refused with a message, or accepted within the documented ranges. SPDX-License-Identifier:
 * Apache-2.0
 */
#include "fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/spec.h"

static void parse_numbers(const char *text)
{
    int64_t integer;
    double value;

    if (lull_text_parse_int(text, -5, 1000, &integer) == 0)
        require(integer >= -5 && integer <= 1000);
    if (lull_text_parse_number(text, &value) == 0)
        require(isfinite(value));
    if (lull_text_parse_ratio(text, &value) == 0)
        require(value >= 0.0 && value <= 1.0);
}

static void parse_node(const char *text)
{
    struct lull_node_spec spec;
    struct lull_error err = {0};

    memset(&spec, 0, sizeof(spec));
    if (lull_node_spec_parse(text, &spec, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    require(spec.gpu_count >= 1 && spec.gpu_count <= LULL_NODE_MAX_GPUS);
    for (uint32_t i = 0; i < spec.gpu_count; i++)
        require(spec.models[i] != NULL);
}

static void parse_faults(const char *text)
{
    struct lull_fault_entry entry;
    struct lull_error err = {0};

    while (*text != '\0') {
        const char *before = text;

        if (lull_fault_parse_next(&text, &entry, &err) < 0) {
            require(err.text[0] != '\0');
            return;
        }
        require(text > before && entry.kind < LULL_FAULT_KINDS && entry.gpu >= -1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    if (text == NULL)
        return 0;
    memcpy(text, data, size);
    text[size] = '\0';
    parse_numbers(text);
    parse_node(text);
    parse_faults(text);
    free(text);
    return 0;
}
