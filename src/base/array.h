/*
 * Arrays that double as they grow.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_ARRAY_H
#define LULL_BASE_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { LULL_ARRAY_FIRST_ROOM = 64 };

/*
 * Makes room for one element of this size behind `count` others. array_at is the address of the
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
    /* The caller's pointer has a type of its own, as which alone it may be read and written. */
    memcpy(&array, array_at, sizeof(array));
    array = realloc(array, wanted * size);
    if (array == NULL)
        return -ENOMEM;
    memcpy(array_at, &array, sizeof(array));
    *room = wanted;
    return 0;
}

#endif
