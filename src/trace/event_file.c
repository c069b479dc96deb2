/*
 * A message within a message is made first, because its length stands before it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "trace/event_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/minmax.h"

/* Kinds of fields in a protocol buffer. */
enum { VARINT = 0, FIXED64 = 1, BYTES = 2 };

/* Fields of the messages, by the messages' names. */
enum { EVENT_WALL_TIME = 1, EVENT_STEP = 2, EVENT_FILE_VERSION = 3, EVENT_SUMMARY = 5 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_TENSOR = 8, VALUE_METADATA = 9 };
enum { TENSOR_TYPE = 1, TENSOR_SHAPE = 2, TENSOR_FLOATS = 5, TENSOR_IS_FLOAT = 1 };
enum {
    METADATA_PLUGIN = 1,
    METADATA_NAME = 2,
    METADATA_DESCRIPTION = 3,
    METADATA_CLASS = 4,
    PLUGIN_NAME = 1,
    CLASS_SCALAR = 1,
};

struct message {
    uint8_t *bytes;
    size_t size;
    size_t room;
    bool has_failed; /* there was no memory */
};

static void event_file_put(struct message *message, const void *bytes, size_t size)
{
    for (size_t i = 0; i < size && !message->has_failed; i++) {
        if (lull_array_reserve(&message->bytes, &message->room, message->size, 1) < 0)
            message->has_failed = true;
        else
            message->bytes[message->size++] = ((const uint8_t *)bytes)[i];
    }
}

static void put_varint(struct message *message, uint64_t value)
{
    do {
        const uint8_t byte = (uint8_t)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));

        event_file_put(message, &byte, 1);
        value >>= 7;
    } while (value != 0);
}

static void put_little_endian(struct message *message, uint64_t value, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        const uint8_t byte = (uint8_t)(value >> (8 * i));

        event_file_put(message, &byte, 1);
    }
}

static void put_key(struct message *message, uint32_t field, uint32_t kind)
{
    put_varint(message, field << 3 | kind);
}

static void put_number(struct message *message, uint32_t field, uint64_t value)
{
    put_key(message, field, VARINT);
    put_varint(message, value);
}

static void put_bytes(struct message *message, uint32_t field, const void *bytes, size_t size)
{
    put_key(message, field, BYTES);
    put_varint(message, size);
    event_file_put(message, bytes, size);
}

static void event_file_put_text(struct message *message, uint32_t field, const char *text,
                                size_t most)
{
    put_bytes(message, field, text, lull_min_size(strlen(text), most));
}

/* Puts a message into another, and frees it. */
static void put_message(struct message *message, uint32_t field, struct message *inner)
{
    put_bytes(message, field, inner->bytes, inner->size);
    message->has_failed = message->has_failed || inner->has_failed;
    free(inner->bytes);
}

/* ---- records ----------------------------------------------------------------------------- */

uint32_t lull_event_crc32c(const void *bytes, size_t size)
{
    static const uint32_t polynomial = 0x82f63b78; /* reflected */
    uint32_t crc = UINT32_MAX;

    for (size_t i = 0; i < size; i++) {
        crc ^= ((const uint8_t *)bytes)[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ ((crc & 1) != 0 ? polynomial : 0);
    }
    return ~crc;
}

static uint32_t event_file_mask(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/* Writes an event as a record, and frees it. */
static int event_file_write_record(FILE *out, struct message *event)
{
    struct message record = {0};
    int result = -ENOMEM;

    put_little_endian(&record, event->size, 8);
    put_little_endian(&record, event_file_mask(lull_event_crc32c(record.bytes, record.size)), 4);
    event_file_put(&record, event->bytes, event->size);
    put_little_endian(&record, event_file_mask(lull_event_crc32c(event->bytes, event->size)), 4);
    if (!record.has_failed && !event->has_failed) {
        fwrite(record.bytes, 1, record.size, out);
        result = 0;
    }
    free(record.bytes);
    free(event->bytes);
    return result;
}

static void event_file_begin(struct message *event, double unix_s)
{
    uint64_t bits;

    memcpy(&bits, &unix_s, sizeof(bits));
    put_key(event, EVENT_WALL_TIME, FIXED64);
    put_little_endian(event, bits, 8);
}

int lull_event_file_begin(FILE *out, double unix_s)
{
    static const char version[] = "brain.Event:2";
    struct message event = {0};

    event_file_begin(&event, unix_s);
    event_file_put_text(&event, EVENT_FILE_VERSION, version, sizeof(version));
    return event_file_write_record(out, &event);
}

/* ---- scalars ----------------------------------------------------------------------------- */

static void put_tensor(struct message *value, float number)
{
    struct message tensor = {0};
    uint32_t bits;
    uint8_t bytes[4];

    memcpy(&bits, &number, sizeof(bits));
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (uint8_t)(bits >> (8 * i));
    put_number(&tensor, TENSOR_TYPE, TENSOR_IS_FLOAT);
    put_bytes(&tensor, TENSOR_SHAPE, bytes, 0);
    put_bytes(&tensor, TENSOR_FLOATS, bytes, sizeof(bytes));
    put_message(value, VALUE_TENSOR, &tensor);
}

static void put_metadata(struct message *value, const struct lull_event_scalar *scalar)
{
    static const char plugin_name[] = "scalars";
    struct message metadata = {0};
    struct message plugin = {0};

    event_file_put_text(&plugin, PLUGIN_NAME, plugin_name, sizeof(plugin_name));
    put_message(&metadata, METADATA_PLUGIN, &plugin);
    event_file_put_text(&metadata, METADATA_NAME, scalar->tag, LULL_EVENT_TAG_BYTES);
    event_file_put_text(&metadata, METADATA_DESCRIPTION, scalar->description,
                        LULL_EVENT_DESCRIPTION_BYTES);
    put_number(&metadata, METADATA_CLASS, CLASS_SCALAR);
    put_message(value, VALUE_METADATA, &metadata);
}

int lull_event_file_add(FILE *out, double unix_s, int64_t step,
                        const struct lull_event_scalar *scalars, size_t count)
{
    struct message event = {0};
    struct message summary = {0};

    for (size_t i = 0; i < count; i++) {
        struct message value = {0};

        event_file_put_text(&value, VALUE_TAG, scalars[i].tag, LULL_EVENT_TAG_BYTES);
        put_tensor(&value, scalars[i].value);
        if (scalars[i].description != NULL)
            put_metadata(&value, &scalars[i]);
        put_message(&summary, SUMMARY_VALUE, &value);
    }
    event_file_begin(&event, unix_s);
    put_number(&event, EVENT_STEP, (uint64_t)step);
    put_message(&event, EVENT_SUMMARY, &summary);
    return event_file_write_record(out, &event);
}
