/*
 * Arrays that double as they grow, and arrays that are allocated one by one and freed together.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_ARRAY_H
#define LULL_BASE_ARRAY_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- growing ---- */

enum { LULL_ARRAY_FIRST_ROOM = 64 };

/*
 * Makes room for one element of this size after `count` others. array_at is the address of the
 * pointer to the array, which may be null while *room is 0. -ENOMEM: nothing has changed.
 */
static inline int lull_array_reserve(void *array_at, size_t *room, size_t count, size_t size)
{
    size_t wanted = LULL_ARRAY_FIRST_ROOM;
    void *array;

    if (count < *room)
        return 0;
    if (*room > 0)
        wanted = 2 * *room;
    /* The caller's pointer may be read and written only as its own type. */
    memcpy(&array, array_at, sizeof(array));
    array = realloc(array, wanted * size);
    if (array == NULL)
        return -ENOMEM;
    memcpy(array_at, &array, sizeof(array));
    *room = wanted;
    return 0;
}

/*
 * The same for an array that only this function grows, so that its room follows from its count: 64
 * elements at first, then the next power of two. -ENOMEM: nothing has changed.
 */
static inline int lull_array_grow(void *array_at, size_t count, size_t size)
{
    size_t room = count;

    if (count > 0 && (count < LULL_ARRAY_FIRST_ROOM || (count & (count - 1)) != 0))
        return 0;
    return lull_array_reserve(array_at, &room, count, size);
}

/* ---- freed together ---- */

struct lull_memory_block {
    struct lull_memory_block *before;
    max_align_t bytes[];
};

/* The arrays of one owner. Begin with {0}; free with lull_memory_free. */
struct lull_memory {
    struct lull_memory_block *last;
    bool has_failed; /* an array could not be allocated */
};

/* Allocates an array of zeros, which lives until lull_memory_free. Null if memory runs out;
 * has_failed records that, so the caller checks once after all its arrays. */
static inline void *lull_memory_take(struct lull_memory *memory, size_t count, size_t size)
{
    struct lull_memory_block *block = NULL;

    if (count <= (SIZE_MAX / 2) / size)
        block = calloc(1, sizeof(*block) + count * size);
    if (block == NULL) {
        memory->has_failed = true;
        return NULL;
    }
    block->before = memory->last;
    memory->last = block;
    return block->bytes;
}

/* Frees all arrays. The owner may allocate new ones afterwards. */
static inline void lull_memory_free(struct lull_memory *memory)
{
    while (memory->last != NULL) {
        struct lull_memory_block *const block = memory->last;

        memory->last = block->before;
        free(block);
    }
    memory->has_failed = false;
}

#endif
