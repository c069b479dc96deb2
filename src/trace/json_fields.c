/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/json_fields.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "trace/decimal.h"

int lull_json_refuse(const struct lull_json_reader *reader, const char *what)
{
    return lull_error_set(reader->err, LULL_E_FORMAT, "%s: byte %" PRId64 ": %s", reader->name,
                          lull_json_offset(reader->json), what);
}

int lull_json_expect(const struct lull_json_reader *reader, enum lull_json_token wanted,
                     const char *what, struct lull_json_text *text_out)
{
    const int token = lull_json_next(reader->json, text_out, reader->err);

    if (token < 0)
        return token;
    return token == (int)wanted ? 0 : lull_json_refuse(reader, what);
}

/* ---- values ---- */

/* Numbers that JSON does not allow but whose meaning is clear: +1, .5 and 5. */
static int parse_plain(const struct lull_json_text *text, int shift, int64_t *value_out)
{
    const char *bytes = text->bytes;
    size_t length = text->length;
    char number[40] = "0";

    if (length > 0 && *bytes == '+') {
        bytes++;
        length--;
    }
    if (length > 1 && bytes[length - 1] == '.')
        length--;
    if (length == 0 || length + 1 >= sizeof(number))
        return -EINVAL;
    memcpy(number + 1, bytes, length);
    return lull_decimal_parse(number, length + 1, shift, value_out);
}

/* A lenient reader leaves the place as it was where the value is no number, as if it were missing.
 * */
static int store_integer(const struct lull_json_reader *reader, const struct lull_json_field *field,
                         const struct lull_json_text *text, int64_t *place)
{
    int64_t value;
    int rc = lull_decimal_parse(text->bytes, text->length, field->shift, &value);

    if (rc == -EINVAL && reader->is_lenient)
        rc = parse_plain(text, field->shift, &value);
    if (!reader->is_lenient && (rc < 0 || value < 0 || value > field->max))
        return lull_json_refuse(reader, "a number that is negative or too large here");
    if (rc >= 0)
        *place = value;
    return 0;
}

static int store_real(const struct lull_json_reader *reader, const struct lull_json_text *text,
                      double *place)
{
    char word[40];
    double value;

    if (text->length >= sizeof(word))
        return lull_json_refuse(reader, "a number of too many digits");
    memcpy(word, text->bytes, text->length);
    word[text->length] = '\0';
    if (lull_text_parse_number(word, &value) < 0 || value < 0.0)
        return lull_json_refuse(reader, "expected a number that is not negative");
    *place = value;
    return 0;
}

static int store_text(const struct lull_json_field *field, const struct lull_json_text *text,
                      char *place)
{
    const size_t most = (size_t)field->max - 1;
    const size_t length = text->length < most ? text->length : most;

    memcpy(place, text->bytes, length);
    place[length] = '\0';
    return 0;
}

/* Stores a string or scalar in the field's place. */
static int json_fields_store(const struct lull_json_reader *reader,
                             const struct lull_json_field *field, const struct lull_json_text *text,
                             void *place)
{
    switch (field->kind) {
    case LULL_JSON_IS_INTEGER:
        return store_integer(reader, field, text, place);
    case LULL_JSON_IS_REAL:
        return store_real(reader, text, place);
    case LULL_JSON_IS_TEXT:
        return store_text(field, text, place);
    default:
        return 0;
    }
}

/* ---- fields ---- */

/* First token of a value of each kind. */
static const struct {
    enum lull_json_token token;
    const char *refusal; /* of others */
} begins[] = {
    [LULL_JSON_IS_INTEGER] = {LULL_JSON_SCALAR, "expected a number"},
    [LULL_JSON_IS_REAL] = {LULL_JSON_SCALAR, "expected a number"},
    [LULL_JSON_IS_TEXT] = {LULL_JSON_STRING, "expected a text"},
    [LULL_JSON_IS_OBJECT] = {LULL_JSON_OBJECT_BEGIN, "expected an object"},
    [LULL_JSON_IS_OBJECTS] = {LULL_JSON_ARRAY_BEGIN, "expected an array"},
    [LULL_JSON_IS_TUPLES] = {LULL_JSON_ARRAY_BEGIN, "expected an array"},
};

/* A lenient reader reads an unwanted value to its end, so that the next key is found. */
static int json_fields_read(struct lull_json_reader *reader, const struct lull_json_field *field,
                            void *object)
{
    struct lull_json_text text;
    int token;

    if (field->kind == LULL_JSON_IS_OTHER)
        return field->read(reader, object);
    token = lull_json_next(reader->json, &text, reader->err);
    if (token < 0)
        return token;
    if (token != (int)begins[field->kind].token && !reader->is_lenient)
        return lull_json_refuse(reader, begins[field->kind].refusal);
    if (token == LULL_JSON_STRING || token == LULL_JSON_SCALAR)
        return json_fields_store(reader, field, &text, (char *)object + field->offset);
    if (token != (int)begins[field->kind].token)
        return lull_json_leave(reader->json, reader->err);
    if (field->kind == LULL_JSON_IS_OBJECT)
        return lull_json_read_fields(reader, field->fields, object);
    return lull_json_read_items(reader,
                                field->kind == LULL_JSON_IS_OBJECTS ? LULL_JSON_OBJECT_BEGIN
                                                                    : LULL_JSON_ARRAY_BEGIN,
                                field->read, object);
}

static const struct lull_json_field *find_field(const struct lull_json_field *fields,
                                                const struct lull_json_text *key)
{
    for (; fields->key != NULL; fields++)
        if (key->length > 0 && fields->key[0] == key->bytes[0] &&
            strlen(fields->key) == key->length && memcmp(fields->key, key->bytes, key->length) == 0)
            return fields;
    return NULL;
}

static int refuse_key(const struct lull_json_reader *reader, const struct lull_json_text *key)
{
    const int shown = key->length < 40 ? (int)key->length : 40;

    return lull_error_set(reader->err, LULL_E_FORMAT,
                          "%s: byte %lld: there is no key \"%.*s\" here", reader->name,
                          (long long)lull_json_offset(reader->json), shown, key->bytes);
}

int lull_json_read_fields(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object)
{
    for (;;) {
        const struct lull_json_field *field;
        struct lull_json_text key;
        int rc = lull_json_next(reader->json, &key, reader->err);

        if (rc < 0)
            return rc;
        if (rc != LULL_JSON_KEY) /* the object's end */
            return 0;
        field = find_field(fields, &key);
        if (field != NULL)
            rc = json_fields_read(reader, field, object);
        else if (reader->is_strict)
            rc = refuse_key(reader, &key);
        else
            rc = lull_json_skip(reader->json, reader->err);
        if (rc < 0)
            return rc;
    }
}

int lull_json_read_items(struct lull_json_reader *reader, enum lull_json_token opens,
                         lull_json_value_fn item, void *object)
{
    for (;;) {
        struct lull_json_text text;
        int rc = lull_json_next(reader->json, &text, reader->err);

        if (rc == LULL_JSON_ARRAY_END)
            return 0;
        if (rc == (int)opens)
            rc = item(reader, object);
        else if (rc >= 0 && !reader->is_lenient)
            rc = lull_json_refuse(reader, opens == LULL_JSON_OBJECT_BEGIN
                                              ? "expected an object in this array"
                                              : "expected an array in this array");
        else if (rc == LULL_JSON_ARRAY_BEGIN || rc == LULL_JSON_OBJECT_BEGIN)
            rc = lull_json_leave(reader->json, reader->err);
        if (rc < 0)
            return rc;
    }
}

/* Skips text that is not an event and began at this offset. */
static int json_fields_exclude(struct lull_json_reader *reader, uint32_t depth, int64_t from)
{
    static const char *const keys[] = {"ph", "cat", "name", "pid", "tid",
                                       "ts", "dur", "args", NULL};
    static const char *const strangers[] = {"schemaVersion", "traceEvents", "deviceProperties",
                                            "distributedInfo", NULL};

    if (reader->loss.events++ == 0 && reader->err != NULL)
        reader->loss.first = *reader->err;
    return lull_json_resume(reader->json, depth, from, keys, strangers, &reader->loss.strangers,
                            reader->err);
}

int lull_json_read_events(struct lull_json_reader *reader, lull_json_value_fn item, void *object)
{
    const uint32_t depth = lull_json_depth(reader->json);

    for (;;) {
        struct lull_json_text text;
        int rc = lull_json_next(reader->json, &text, reader->err);
        const int64_t from = lull_json_offset(reader->json);

        if (rc == LULL_JSON_ARRAY_END)
            return 0;
        if (rc == LULL_JSON_OBJECT_BEGIN)
            rc = item(reader, object);
        else if (rc == LULL_JSON_ARRAY_BEGIN)
            rc = lull_json_leave(reader->json, reader->err);
        else if (rc < 0)
            reader->loss.has_no_end = lull_json_fault(reader->json) == LULL_JSON_OPEN;
        if (rc < 0 && lull_json_fault(reader->json) == LULL_JSON_MALFORMED)
            rc = json_fields_exclude(reader, depth, from);
        if (rc < 0)
            return rc;
    }
}

int lull_json_read_tuple(struct lull_json_reader *reader, const struct lull_json_field *fields,
                         void *object)
{
    struct lull_json_text text;

    for (; fields->key != NULL; fields++) {
        const int rc = json_fields_read(reader, fields, object);

        if (rc < 0)
            return rc;
    }
    return lull_json_expect(reader, LULL_JSON_ARRAY_END, "too many numbers here", &text);
}

/* ---- documents ---- */

static ssize_t json_fields_fill(void *context, char *buffer, size_t size, struct lull_error *err)
{
    return lull_source_read(context, buffer, size, err);
}

int lull_json_read_document(struct lull_source *source, const char *name,
                            const struct lull_json_field *fields, void *object, void *context,
                            struct lull_error *err)
{
    struct lull_json_reader reader = {.name = name, .err = err, .context = context};
    struct lull_json_text text;
    int rc;

    reader.json = lull_json_create(name, json_fields_fill, source);
    if (reader.json == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", name);
    rc = lull_json_expect(&reader, LULL_JSON_OBJECT_BEGIN, "expected an object", &text);
    if (rc >= 0)
        rc = lull_json_read_fields(&reader, fields, object);
    if (rc >= 0)
        rc = lull_json_expect(&reader, LULL_JSON_END, "expected nothing after the object", &text);
    lull_json_destroy(reader.json);
    return rc;
}
