/*
 * Chakra's protocol buffers: a metadata message, then one per node, each behind its length. The
 * parser relies only on the wire format (protobuf.dev, "Encoding"): fields in any order, repeated
 * numbers packed or not, unknown fields skipped.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/trace/chakra_build.h"

#define MAX_MICROS UINT64_C(1000000000000000) /* 30 years */

/* ---- the wire format ---------------------------------------------------------------------- */

enum wire_type { /* groups, types 3 and 4, are rejected */
                 WIRE_VARINT = 0,
                 WIRE_FIXED64 = 1,
                 WIRE_BYTES = 2,
                 WIRE_FIXED32 = 5,
};

struct wire_span {
    const uint8_t *at;
    const uint8_t *end;
};

struct wire_field {
    uint32_t number; /* > 0 */
    enum wire_type type;
    uint64_t value;         /* of all but BYTES; fixed ones as their bits are */
    struct wire_span bytes; /* of BYTES: text, a message, packed numbers */
};

static size_t chakra_messages_length_of(const struct wire_span *span)
{
    return (size_t)(span->end - span->at);
}

static bool chakra_messages_is_text(const struct wire_span *span, const char *text)
{
    const size_t length = chakra_messages_length_of(span);

    return strlen(text) == length && (length == 0 || memcmp(span->at, text, length) == 0);
}

/* Takes a number of at most ten bytes of seven bits each, the tenth of one bit. */
static bool take_varint(struct wire_span *span, uint64_t *value_out)
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

static bool chakra_messages_take_fixed(struct wire_span *span, size_t size, uint64_t *value_out)
{
    if (chakra_messages_length_of(span) < size)
        return false;
    *value_out = 0;
    for (size_t i = 0; i < size; i++)
        *value_out |= (uint64_t)span->at[i] << (8 * i);
    span->at += size;
    return true;
}

static bool take_bytes(struct wire_span *span, struct wire_span *bytes_out)
{
    uint64_t length;

    if (!take_varint(span, &length) || length > chakra_messages_length_of(span))
        return false;
    *bytes_out = (struct wire_span){span->at, span->at + length};
    span->at += length;
    return true;
}

static bool take_field(struct wire_span *span, struct wire_field *field)
{
    uint64_t tag;

    if (!take_varint(span, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX)
        return false;
    field->number = (uint32_t)(tag >> 3);
    field->type = (enum wire_type)(tag & 7);
    switch (field->type) {
    case WIRE_VARINT:
        return take_varint(span, &field->value);
    case WIRE_FIXED64:
        return chakra_messages_take_fixed(span, 8, &field->value);
    case WIRE_FIXED32:
        return chakra_messages_take_fixed(span, 4, &field->value);
    case WIRE_BYTES:
        return take_bytes(span, &field->bytes);
    default:
        return false;
    }
}

/* ---- the trace ---------------------------------------------------------------------------- */

struct message_reading {
    struct lull_source *source;
    struct lull_chakra_building *building;
    uint8_t *message;
    size_t room;
    int64_t at; /* byte where the message begins */
};

/* LULL_E_FORMAT, with the byte where the current message begins. */
static int chakra_messages_refuse(const struct message_reading *reading, const char *what)
{
    return lull_error_set(reading->building->err, LULL_E_FORMAT, "%s: byte %" PRId64 ": %s",
                          reading->building->name, reading->at, what);
}

static int chakra_messages_no_memory(const struct lull_chakra_building *building)
{
    return lull_error_set(building->err, -ENOMEM, "%s: not enough memory for a node",
                          building->name);
}

/* ---- attributes --------------------------------------------------------------------------- */

enum { ATTRIBUTE_NAME = 1, SINT32 = 15, SINT64 = 17, SFIXED32 = 23, STRING = 29 };

struct attribute {
    struct wire_span name;
    struct wire_field value; /* number 0: there is none */
};

static bool take_attribute(struct wire_span span, struct attribute *attribute)
{
    *attribute = (struct attribute){0};
    while (span.at < span.end) {
        struct wire_field field = {0};

        if (!take_field(&span, &field))
            return false;
        if (field.number == ATTRIBUTE_NAME && field.type == WIRE_BYTES)
            attribute->name = field.bytes;
        else if (field.number > 2)
            attribute->value = field;
    }
    return true;
}

/* Takes a whole number of any of the schema's types; false: it is another value. */
static bool get_integer(const struct wire_field *field, int64_t *value_out)
{
    if (field->type == WIRE_BYTES || field->number == 3 || field->number == 5)
        return false;
    if (field->number == SINT32 || field->number == SINT64)
        *value_out = (int64_t)(field->value >> 1) ^ -(int64_t)(field->value & 1);
    else if (field->number == SFIXED32)
        *value_out = (int32_t)field->value;
    else
        *value_out = (int64_t)field->value;
    return true;
}

/* Finds the place of an attribute that is a number; null: it does not matter. */
static int64_t *chakra_messages_find_place(struct lull_chakra_node *node,
                                           const struct wire_span *name)
{
    const struct {
        const char *name;
        int64_t *place;
    } places[] = {{"comm_size", &node->size_bytes},     {"num_ops", &node->operations},
                  {"tensor_size", &node->tensor_bytes}, {"comm_src", &node->source},
                  {"comm_dst", &node->target},          {"comm_tag", &node->tag}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (chakra_messages_is_text(name, places[i].name))
            return places[i].place;
    return NULL;
}

/* Attributes that no caller requests are skipped, whatever their type. */
static int read_attribute(const struct message_reading *reading, const struct wire_span *bytes,
                          struct lull_chakra_node *node)
{
    struct attribute attribute;
    int64_t value = 0;
    int64_t *place;

    if (!take_attribute(*bytes, &attribute))
        return chakra_messages_refuse(reading, "an attribute of a node cannot be read");
    if (chakra_messages_is_text(&attribute.name, "pg_name") && attribute.value.number == STRING &&
        attribute.value.type == WIRE_BYTES)
        return lull_chakra_add_name(reading->building, (const char *)attribute.value.bytes.at,
                                    chakra_messages_length_of(&attribute.value.bytes),
                                    &node->group);
    if (!get_integer(&attribute.value, &value))
        return 0;
    if (chakra_messages_is_text(&attribute.name, "is_cpu_op"))
        node->is_host = value != 0;
    if (chakra_messages_is_text(&attribute.name, "comm_type") && value >= 0 &&
        value < LULL_CHAKRA_COLLECTIVES)
        node->collective = (enum lull_chakra_collective)value;
    place = chakra_messages_find_place(node, &attribute.name);
    if (place != NULL && value < 0)
        return chakra_messages_refuse(reading, "a size, rank or tag of a node is below 0");
    if (place != NULL)
        *place = value;
    return 0;
}

/* ---- nodes -------------------------------------------------------------------------------- */

enum { ID = 1, NAME, KIND, CONTROL, DATA, BEGIN, DURATION, ATTRIBUTE = 10 };

/* Writers pack repeated numbers or send them one by one; the wire format allows both. */
static int read_dependencies(const struct message_reading *reading, const struct wire_field *field)
{
    const bool is_control = field->number == CONTROL;
    struct wire_span rest = field->bytes;

    if (field->type == WIRE_VARINT)
        return lull_chakra_want(reading->building, field->value, is_control);
    while (rest.at < rest.end) {
        uint64_t id;
        int rc;

        if (!take_varint(&rest, &id))
            return chakra_messages_refuse(reading, "the dependencies of a node cannot be read");
        rc = lull_chakra_want(reading->building, id, is_control);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A number beyond its range is rejected here, so that no sum of durations overflows later. */
static int chakra_messages_read_number(const struct message_reading *reading,
                                       const struct wire_field *field,
                                       struct lull_chakra_node *node)
{
    if (field->number == ID)
        node->id = field->value;
    if (field->number == KIND) {
        if (field->value > LULL_CHAKRA_COLLECTIVE)
            return chakra_messages_refuse(reading, "a node has an unknown type");
        node->kind = (enum lull_chakra_kind)field->value;
    }
    if (field->number == DURATION) {
        if (field->value > MAX_MICROS)
            return chakra_messages_refuse(reading, "a node takes over 30 years");
        node->duration_ns = (int64_t)field->value * 1000;
    }
    return 0;
}

static int chakra_messages_read_field(const struct message_reading *reading,
                                      const struct wire_field *field, struct lull_chakra_node *node)
{
    if ((field->number == CONTROL || field->number == DATA) &&
        (field->type == WIRE_VARINT || field->type == WIRE_BYTES))
        return read_dependencies(reading, field);
    if (field->type == WIRE_VARINT)
        return chakra_messages_read_number(reading, field, node);
    if (field->type == WIRE_BYTES && field->number == NAME)
        return lull_chakra_add_name(reading->building, (const char *)field->bytes.at,
                                    chakra_messages_length_of(&field->bytes), &node->name);
    if (field->type == WIRE_BYTES && field->number == ATTRIBUTE)
        return read_attribute(reading, &field->bytes, node);
    return 0;
}

static int chakra_messages_read_node(const struct message_reading *reading,
                                     struct wire_span message)
{
    struct lull_chakra_node node;

    lull_chakra_node_init(&node);
    while (message.at < message.end) {
        struct wire_field field = {0};
        int rc;

        if (!take_field(&message, &field))
            return chakra_messages_refuse(reading, "a node is not a protocol buffer");
        rc = chakra_messages_read_field(reading, &field, &node);
        if (rc < 0)
            return rc;
    }
    return lull_chakra_add(reading->building, &node);
}

/* The metadata are not used, but a trace must begin with them. */
static int check_metadata(const struct message_reading *reading, struct wire_span message)
{
    struct wire_field field = {0};

    while (message.at < message.end)
        if (!take_field(&message, &field) || field.number > 2 || field.type != WIRE_BYTES)
            return chakra_messages_refuse(reading, "no metadata: not a Chakra trace");
    return 0;
}

/* ---- the stream --------------------------------------------------------------------------- */

/* Reads the length of the next message. Returns 1, or 0 where the trace ends. */
static int read_length(struct message_reading *reading, uint32_t *length_out)
{
    uint64_t length = 0;

    reading->at = lull_source_offset(reading->source);
    for (unsigned shift = 0; shift < 35; shift += 7) {
        char byte = 0;
        const ssize_t got = lull_source_read(reading->source, &byte, 1, reading->building->err);

        if (got < 0)
            return (int)got;
        if (got == 0 && shift == 0)
            return 0;
        if (got == 0)
            return chakra_messages_refuse(reading,
                                          "the trace ends within the length that begins here");
        length |= (uint64_t)((uint8_t)byte & 127) << shift;
        if (((uint8_t)byte & 128) != 0)
            continue;
        if (length > LULL_CHAKRA_MAX_MESSAGE)
            break;
        *length_out = (uint32_t)length;
        return 1;
    }
    return chakra_messages_refuse(reading, "a message is larger than 64 MiB: not a Chakra trace");
}

/* Reads a message. The buffer grows with the bytes read, so that a false length needs no memory. */
static int read_message(struct message_reading *reading, uint32_t length)
{
    size_t have = 0;

    while (have < length) {
        const size_t most = have + (1 << 16);
        const size_t room = most < length ? most : length;
        ssize_t got;

        if (room > reading->room) {
            uint8_t *const message = realloc(reading->message, 2 * room);

            if (message == NULL)
                return chakra_messages_no_memory(reading->building);
            reading->message = message;
            reading->room = 2 * room;
        }
        got = lull_source_read(reading->source, (char *)reading->message + have, room - have,
                               reading->building->err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return chakra_messages_refuse(reading,
                                          "the trace ends within the message that begins here");
        have += (size_t)got;
    }
    return 0;
}

int lull_chakra_read_messages(struct lull_source *source, struct lull_chakra_building *building)
{
    struct message_reading reading = {
        .source = source, .building = building, .message = malloc(1), .room = 1};
    bool is_first = true;
    uint32_t length = 0;
    int rc;

    if (reading.message == NULL)
        return chakra_messages_no_memory(building);
    while ((rc = read_length(&reading, &length)) > 0) {
        struct wire_span message;

        rc = read_message(&reading, length);
        if (rc < 0)
            break;
        message = (struct wire_span){reading.message, reading.message + length};
        if (is_first)
            rc = check_metadata(&reading, message);
        else
            rc = chakra_messages_read_node(&reading, message);
        if (rc < 0)
            break;
        is_first = false;
    }
    free(reading.message);
    return rc;
}
