/*
 * The wire format of protocol buffers (protobuf.dev, "Encoding"), field by field, from memory that
 * nobody vouches for. Functions return whether there is what they take; nothing is read beyond a
 * span's end. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_PROTOBUF_H
#define LULL_TRACE_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum lull_protobuf_type { /* groups, types 3 and 4, are refused */
                          LULL_PROTOBUF_VARINT = 0,
                          LULL_PROTOBUF_FIXED64 = 1,
                          LULL_PROTOBUF_BYTES = 2,
                          LULL_PROTOBUF_FIXED32 = 5,
};

struct lull_protobuf_span {
    const uint8_t *at;
    const uint8_t *end;
};

struct lull_protobuf_field {
    uint32_t number; /* > 0 */
    enum lull_protobuf_type type;
    uint64_t value;                  /* but of BYTES; fixed ones as their bits are */
    struct lull_protobuf_span bytes; /* of BYTES: text, a message, packed numbers */
};

/* The next field of a span that has more. */
bool lull_protobuf_take_field(struct lull_protobuf_span *span, struct lull_protobuf_field *field);

/* The next of packed numbers. */
bool lull_protobuf_take_varint(struct lull_protobuf_span *span, uint64_t *value_out);

bool lull_protobuf_is_text(const struct lull_protobuf_span *span, const char *text);
size_t lull_protobuf_length(const struct lull_protobuf_span *span);

#endif
