/*
 * The smaller and the larger of two whole numbers, as fmin() and fmax() are for fractions; for
 * times there are lull_earlier_ns() and lull_later_ns() (base/clock.h). Pure; any thread.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_MINMAX_H
#define LULL_BASE_MINMAX_H

#include <stddef.h>
#include <stdint.h>

static inline uint32_t lull_min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

static inline uint32_t lull_max_u32(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static inline size_t lull_min_size(size_t a, size_t b)
{
    return a < b ? a : b;
}

static inline size_t lull_max_size(size_t a, size_t b)
{
    return a > b ? a : b;
}

/* The next capacity of a list that is full at `room` elements: twice as many, or `first` for an
 * empty list. */
static inline size_t lull_grow_room(size_t room, size_t first)
{
    return room == 0 ? first : 2 * room;
}

#endif
