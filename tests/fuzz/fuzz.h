/*
 * A fuzz target: the input is arbitrary bytes. It aborts, or a sanitizer reports, if a guarantee is
 * violated. With libFuzzer (clang) the targets are fuzzers of their own; replay.c runs them
 * everywhere else. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_H
#define LULL_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A promise: not an assert(), which a build may leave out. */
static inline void require(int condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
