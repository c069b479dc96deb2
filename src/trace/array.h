/*
 * Growing arrays (base/array.h) of what a file holds: an out-of-memory error names the file.
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_ARRAY_H
#define LULL_TRACE_ARRAY_H

#include "base/array.h"
#include "base/error.h"

/* Calls lull_array_grow. -ENOMEM, with the file's name in the text; the array is then unchanged. */
static inline int lull_trace_grow(void *array_at, size_t count, size_t size, const char *file,
                                  struct lull_error *err)
{
    if (lull_array_grow(array_at, count, size) == 0)
        return 0;
    return lull_error_set(err, -ENOMEM, "%s: not enough memory for more than %zu entries", file,
                          count);
}

/* Appends a copy of an element and counts it; errors as above. */
static inline int lull_trace_append(void *array_at, size_t *count, const void *element, size_t size,
                                    const char *file, struct lull_error *err)
{
    const int rc = lull_trace_grow(array_at, *count, size, file, err);
    char *elements;

    if (rc < 0)
        return rc;
    memcpy(&elements, array_at, sizeof(elements));
    memcpy(elements + *count * size, element, size);
    ++*count;
    return 0;
}

#endif
