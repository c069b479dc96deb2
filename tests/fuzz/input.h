/*
 * Splits an input into values for targets that execute a
 * sequence of actions. After the end of the input all values
 * are 0. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_INPUT_H
#define LULL_TESTS_FUZZ_INPUT_H

#include <stdbool.h>
#include <string.h>

#include "fuzz.h"

struct input {
    const uint8_t *data;
    size_t left;
};

static inline bool input_is_over(const struct input *input)
{
    return input->left == 0;
}

/* Copies what is left, at most size bytes; returns how many. */
static inline size_t input_take(struct input *input, void *out, size_t size)
{
    const size_t count = size < input->left ? size : input->left;

    memset(out, 0, size);
    if (count > 0)
        memcpy(out, input->data, count);
    input->data += count;
    input->left -= count;
    return count;
}

static inline uint8_t input_byte(struct input *input)
{
    uint8_t value;

    input_take(input, &value, sizeof(value));
    return value;
}

static inline uint32_t input_u32(struct input *input)
{
    uint32_t value;

    input_take(input, &value, sizeof(value));
    return value;
}

static inline uint64_t input_u64(struct input *input)
{
    uint64_t value;

    input_take(input, &value, sizeof(value));
    return value;
}

#endif
