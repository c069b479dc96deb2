/*
 * Arrays that grow by one element at a time. Their room follows from their count alone: 64 elements
 * at first, then the next power of two. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_ARRAY_H
#define LULL_TRACE_ARRAY_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

/*
 * Makes room for one more element in an array that was grown by this function alone. array is the
 * address of the caller's pointer (null for an empty array), count the elements in use, size the
 * bytes of one. -ENOMEM, with the file's name in the text: the array is as it was.
 */
static inline int lull_array_grow(void *array, size_t count, size_t size, const char *file,
                                  struct lull_error *err)
{
    enum { FIRST = 64 };
    void *grown;

    if (count > 0 && (count < FIRST || (count & (count - 1)) != 0))
        return 0;
    memcpy(&grown, array, sizeof(grown));
    grown = reallocarray(grown, count == 0 ? FIRST : 2 * count, size);
    if (grown == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory for more than %zu entries",
                              file, count);
    memcpy(array, &grown, sizeof(grown));
    return 0;
}

/* Appends a copy of an element to such an array and counts it; errors as above. */
static inline int lull_array_append(void *array, size_t *count, const void *element, size_t size,
                                    const char *file, struct lull_error *err)
{
    const int rc = lull_array_grow(array, *count, size, file, err);
    char *elements;

    if (rc < 0)
        return rc;
    memcpy(&elements, array, sizeof(elements));
    memcpy(elements + *count * size, element, size);
    ++*count;
    return 0;
}

#endif
