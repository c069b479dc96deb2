/*
 * For property tests: a broken property names the seed that shows it; numbers that must be near;
 * memory that must be returned.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_CORE_PROPERTY_H
#define LULL_TESTS_CORE_PROPERTY_H

#include <inttypes.h>
#include <malloc.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/stats/random.h"

#define holds(condition, seed)                                                                     \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail_msg("seed %" PRIu64 ": not so: %s", (uint64_t)(seed), #condition);                \
    } while (0)

/* In double precision: cmocka's assert_float_equal compares floats. */
#define assert_near(actual, expected, margin)                                                      \
    do {                                                                                           \
        const double actual_ = (actual), expected_ = (expected);                                   \
        if (!(fabs(actual_ - expected_) <= (margin)))                                              \
            fail_msg("%s is %.17g, not %.17g", #actual, actual_, expected_);                       \
    } while (0)

/* Bytes in use on the heap, blocks that the allocator keeps for reuse included. Sanitizers, which
 * look for lost memory themselves, say 0. */
static inline size_t heap_bytes(void)
{
    return mallinfo2().uordblks;
}

#endif
