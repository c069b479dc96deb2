/*
 * Chakra's protocol buffers: a metadata message, then one per node, each behind its length. Only
 * what the wire format says is relied on (protobuf.dev, "Encoding"): fields in any order, repeated
 * numbers packed or not, unknown fields passed over.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/chakra_build.h"
#include "trace/protobuf.h"

#define MOST_MICROS UINT64_C(1000000000000000) /* 30 years */

struct chakra_messages_reading {
    struct lull_chakra_input *input;
    struct lull_chakra_building *building;
    uint8_t *message;
    size_t room;
    int64_t at; /* byte where the message begins */
};

static int refuse(const struct chakra_messages_reading *reading, int64_t byte, const char *what)
{
    return lull_error_set(reading->building->err, LULL_E_FORMAT, "%s: byte %" PRId64 ": %s",
                          reading->building->name, byte, what);
}

/* ---- attributes --------------------------------------------------------------------------- */

enum { ATTRIBUTE_NAME = 1, SINT32 = 15, SINT64 = 17, SFIXED32 = 23, STRING = 29 };

struct attribute {
    struct lull_protobuf_span name;
    struct lull_protobuf_field value; /* number 0: none */
};

static bool take_attribute(struct lull_protobuf_span span, struct attribute *attribute)
{
    *attribute = (struct attribute){0};
    while (span.at < span.end) {
        struct lull_protobuf_field field = {0};

        if (!lull_protobuf_take_field(&span, &field))
            return false;
        if (field.number == ATTRIBUTE_NAME && field.type == LULL_PROTOBUF_BYTES)
            attribute->name = field.bytes;
        else if (field.number > 2)
            attribute->value = field;
    }
    return true;
}

/* A whole number of any of the schema's types; false: another value. */
static bool get_integer(const struct lull_protobuf_field *field, int64_t *value_out)
{
    if (field->type == LULL_PROTOBUF_BYTES || field->number == 3 || field->number == 5)
        return false;
    if (field->number == SINT32 || field->number == SINT64)
        *value_out = (int64_t)(field->value >> 1) ^ -(int64_t)(field->value & 1);
    else if (field->number == SFIXED32)
        *value_out = (int32_t)field->value;
    else
        *value_out = (int64_t)field->value;
    return true;
}

/* What the number of an attribute goes to; NULL: none that matters. */
static int64_t *find_place(struct lull_chakra_node *node, const struct lull_protobuf_span *name)
{
    const struct {
        const char *name;
        int64_t *place;
    } places[] = {{"comm_size", &node->size_bytes},     {"num_ops", &node->operations},
                  {"tensor_size", &node->tensor_bytes}, {"comm_src", &node->source},
                  {"comm_dst", &node->target},          {"comm_tag", &node->tag}};

    for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
        if (lull_protobuf_is_text(name, places[i].name))
            return places[i].place;
    return NULL;
}

static int read_attribute(const struct chakra_messages_reading *reading,
                          const struct lull_protobuf_span *bytes, struct lull_chakra_node *node)
{
    struct attribute attribute;
    int64_t value = 0;
    int64_t *place;

    if (!take_attribute(*bytes, &attribute))
        return refuse(reading, reading->at, "an attribute of a node that cannot be read");
    if (lull_protobuf_is_text(&attribute.name, "pg_name") && attribute.value.number == STRING &&
        attribute.value.type == LULL_PROTOBUF_BYTES)
        return lull_chakra_add_name(reading->building, (const char *)attribute.value.bytes.at,
                                    lull_protobuf_length(&attribute.value.bytes), &node->group);
    if (!get_integer(&attribute.value, &value))
        return 0;
    if (lull_protobuf_is_text(&attribute.name, "is_cpu_op"))
        node->is_host = value != 0;
    if (lull_protobuf_is_text(&attribute.name, "comm_type") && value >= 0 &&
        value < LULL_CHAKRA_COLLECTIVES)
        node->collective = (enum lull_chakra_collective)value;
    place = find_place(node, &attribute.name);
    if (place != NULL && value < 0)
        return refuse(reading, reading->at, "a size, rank or tag of a node is below 0");
    if (place != NULL)
        *place = value;
    return 0;
}

/* ---- nodes -------------------------------------------------------------------------------- */

enum { ID = 1, NAME, KIND, CONTROL, DATA, BEGIN, DURATION, ATTRIBUTE = 10 };

static int read_dependencies(const struct chakra_messages_reading *reading,
                             const struct lull_protobuf_field *field)
{
    const bool is_control = field->number == CONTROL;
    struct lull_protobuf_span rest = field->bytes;
    int rc = 0;

    if (field->type == LULL_PROTOBUF_VARINT)
        return lull_chakra_want(reading->building, field->value, is_control);
    while (rc == 0 && rest.at < rest.end) {
        uint64_t id;

        if (!lull_protobuf_take_varint(&rest, &id))
            return refuse(reading, reading->at, "dependencies of a node that cannot be read");
        rc = lull_chakra_want(reading->building, id, is_control);
    }
    return rc;
}

static int read_number(const struct chakra_messages_reading *reading,
                       const struct lull_protobuf_field *field, struct lull_chakra_node *node)
{
    if (field->number == ID)
        node->id = field->value;
    if (field->number == KIND) {
        if (field->value > LULL_CHAKRA_COLLECTIVE)
            return refuse(reading, reading->at, "a node of an unknown type");
        node->kind = (enum lull_chakra_kind)field->value;
    }
    if (field->number == DURATION) {
        if (field->value > MOST_MICROS)
            return refuse(reading, reading->at, "a node of over 30 years");
        node->duration_ns = (int64_t)field->value * 1000;
    }
    return 0;
}

static int read_field(const struct chakra_messages_reading *reading,
                      const struct lull_protobuf_field *field, struct lull_chakra_node *node)
{
    if ((field->number == CONTROL || field->number == DATA) &&
        (field->type == LULL_PROTOBUF_VARINT || field->type == LULL_PROTOBUF_BYTES))
        return read_dependencies(reading, field);
    if (field->type == LULL_PROTOBUF_VARINT)
        return read_number(reading, field, node);
    if (field->type == LULL_PROTOBUF_BYTES && field->number == NAME)
        return lull_chakra_add_name(reading->building, (const char *)field->bytes.at,
                                    lull_protobuf_length(&field->bytes), &node->name);
    if (field->type == LULL_PROTOBUF_BYTES && field->number == ATTRIBUTE)
        return read_attribute(reading, &field->bytes, node);
    return 0;
}

static int read_node(const struct chakra_messages_reading *reading,
                     struct lull_protobuf_span message)
{
    struct lull_chakra_node node;
    int rc = 0;

    lull_chakra_node_init(&node);
    while (rc == 0 && message.at < message.end) {
        struct lull_protobuf_field field = {0};

        if (!lull_protobuf_take_field(&message, &field))
            return refuse(reading, reading->at, "a node that is no protocol buffer");
        rc = read_field(reading, &field, &node);
    }
    return rc == 0 ? lull_chakra_add(reading->building, &node) : rc;
}

/* Nothing in it is wanted, but it must be one. */
static int check_metadata(const struct chakra_messages_reading *reading,
                          struct lull_protobuf_span message)
{
    struct lull_protobuf_field field = {0};

    while (message.at < message.end)
        if (!lull_protobuf_take_field(&message, &field) || field.number > 2 ||
            field.type != LULL_PROTOBUF_BYTES)
            return refuse(reading, reading->at, "no metadata: this is no Chakra trace");
    return 0;
}

/* ---- the stream --------------------------------------------------------------------------- */

/* 1; 0: the stream ends here. */
static int read_length(struct chakra_messages_reading *reading, uint32_t *length_out)
{
    uint64_t length = 0;

    reading->at = reading->input->offset;
    for (unsigned shift = 0; shift < 35; shift += 7) {
        char byte = 0;
        const ssize_t got =
            lull_chakra_input_read(reading->input, &byte, 1, reading->building->err);

        if (got < 0)
            return (int)got;
        if (got == 0)
            return shift == 0 ? 0 : refuse(reading, reading->at, "ends within a length");
        length |= (uint64_t)((uint8_t)byte & 127) << shift;
        if (((uint8_t)byte & 128) != 0)
            continue;
        if (length > LULL_CHAKRA_MAX_MESSAGE)
            break;
        *length_out = (uint32_t)length;
        return 1;
    }
    return refuse(reading, reading->at, "a message of over 64 MiB: this is no Chakra trace");
}

/* Room grows as bytes come: a length that promises more than there is costs nothing. */
static int read_message(struct chakra_messages_reading *reading, uint32_t length)
{
    size_t have = 0;

    while (have < length) {
        const size_t most = have + (1 << 16);
        const size_t room = most < length ? most : length;
        ssize_t got;

        if (room > reading->room) {
            uint8_t *const message = realloc(reading->message, 2 * room);

            if (message == NULL)
                return lull_error_set(reading->building->err, -ENOMEM,
                                      "%s: no memory for a message", reading->building->name);
            reading->message = message;
            reading->room = 2 * room;
        }
        got = lull_chakra_input_read(reading->input, (char *)reading->message + have, room - have,
                                     reading->building->err);
        if (got < 0)
            return (int)got;
        if (got == 0)
            return refuse(reading, reading->at,
                          "the trace ends within the message that begins here");
        have += (size_t)got;
    }
    return 0;
}

int lull_chakra_read_messages(struct lull_chakra_input *input,
                              struct lull_chakra_building *building)
{
    struct chakra_messages_reading reading = {
        .input = input, .building = building, .message = malloc(1), .room = 1};
    bool is_first = true;
    uint32_t length = 0;
    int rc;

    if (reading.message == NULL)
        return lull_error_set(building->err, -ENOMEM, "%s: no memory for a message", input->name);
    while ((rc = read_length(&reading, &length)) > 0) {
        rc = read_message(&reading, length);
        if (rc == 0) {
            const struct lull_protobuf_span message = {reading.message, reading.message + length};

            rc = is_first ? check_metadata(&reading, message) : read_node(&reading, message);
        }
        if (rc < 0)
            break;
        is_first = false;
    }
    free(reading.message);
    return rc;
}
