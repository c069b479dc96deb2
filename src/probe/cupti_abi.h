/*
 * The part of CUPTI that the window needs, declared here, so that the build needs nothing of CUDA.
 *
 * Signatures, codes and offsets were checked against the public headers of CUDA 13.0: kernel
 * records of versions 3 to 10 have the same members at the same places and only append (so does
 * version 13, in public bindings of later headers). A record's size is never needed: CUPTI finds
 * the next one.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_PROBE_CUPTI_ABI_H
#define LULL_PROBE_CUPTI_ABI_H

#include <stddef.h>
#include <stdint.h>

enum {
    CUPTI_SUCCESS = 0,
    CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
    CUPTI_ERROR_MULTIPLE_SUBSCRIBERS = 39,
};

enum {
    CUPTI_KIND_KERNEL = 3, /* the kinds of kernel records */
    CUPTI_KIND_CONCURRENT_KERNEL = 10,
    CUPTI_FLUSH_FORCED = 1,
    CUPTI_OLDEST_VERSION = 10, /* result of cuptiGetVersion in CUDA 9.0, with record version 4 */
};

/* The members that are read. What lies between and after them differs from version to version. */
struct cupti_kernel {
    uint32_t kind;
    uint32_t unused[3];
    uint64_t start; /* in ns of cuptiGetTimestamp; unknown if start and end are 0 */
    uint64_t end;
    uint64_t completed;
    uint32_t device;
    uint32_t context;
    uint32_t stream;
    uint32_t unused_numbers[13];
    const char *name;
};
_Static_assert(offsetof(struct cupti_kernel, start) == 16, "public layout");
_Static_assert(offsetof(struct cupti_kernel, end) == 24, "public layout");
_Static_assert(offsetof(struct cupti_kernel, stream) == 48, "public layout");
_Static_assert(offsetof(struct cupti_kernel, name) == 104, "public layout");

typedef void (*cupti_buffer_request)(uint8_t **buffer, size_t *size, size_t *max_records);
typedef void (*cupti_buffer_complete)(void *context, uint32_t stream, uint8_t *buffer, size_t size,
                                      size_t valid_size);
typedef void (*cupti_callback)(void *user_data, int domain, uint32_t id, const void *data);

#endif
