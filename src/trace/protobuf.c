/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/protobuf.h"

#include <string.h>

/* At most ten bytes of seven bits each, the tenth of one. */
bool lull_protobuf_take_varint(struct lull_protobuf_span *span, uint64_t *value_out)
{
    uint64_t value = 0;

    for (unsigned shift = 0; shift < 64 && span->at < span->end; shift += 7) {
        const uint64_t byte = *span->at++;

        if (shift == 63 && byte > 1)
            return false;
        value |= (byte & 127) << shift;
        if (byte < 128) {
            *value_out = value;
            return true;
        }
    }
    return false;
}

static bool take_fixed(struct lull_protobuf_span *span, size_t size, uint64_t *value_out)
{
    if (lull_protobuf_length(span) < size)
        return false;
    *value_out = 0;
    for (size_t i = 0; i < size; i++)
        *value_out |= (uint64_t)span->at[i] << (8 * i);
    span->at += size;
    return true;
}

static bool take_bytes(struct lull_protobuf_span *span, struct lull_protobuf_span *bytes_out)
{
    uint64_t length;

    if (!lull_protobuf_take_varint(span, &length) || length > lull_protobuf_length(span))
        return false;
    *bytes_out = (struct lull_protobuf_span){span->at, span->at + length};
    span->at += length;
    return true;
}

bool lull_protobuf_take_field(struct lull_protobuf_span *span, struct lull_protobuf_field *field)
{
    uint64_t tag;

    if (!lull_protobuf_take_varint(span, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return false;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum lull_protobuf_type)(tag & 7);
    switch (field->type) {
    case LULL_PROTOBUF_VARINT:
        return lull_protobuf_take_varint(span, &field->value);
    case LULL_PROTOBUF_FIXED64:
        return take_fixed(span, 8, &field->value);
    case LULL_PROTOBUF_FIXED32:
        return take_fixed(span, 4, &field->value);
    case LULL_PROTOBUF_BYTES:
        return take_bytes(span, &field->bytes);
    default:
        return false;
    }
}

bool lull_protobuf_is_text(const struct lull_protobuf_span *span, const char *text)
{
    const size_t length = lull_protobuf_length(span);

    return strlen(text) == length && (length == 0 || memcmp(span->at, text, length) == 0);
}

size_t lull_protobuf_length(const struct lull_protobuf_span *span)
{
    return (size_t)(span->end - span->at);
}
