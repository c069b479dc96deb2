/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/json_fields.h"

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

int lull_json_read_integer(const struct lull_json_reader *reader, int shift, int64_t max,
                           int64_t *value_out)
{
    struct lull_json_text text;
    int64_t value;
    const int result = lull_json_expect(reader, LULL_JSON_SCALAR, "expected a number", &text);

    if (result < 0)
        return result;
    if (lull_decimal_parse(text.bytes, text.length, shift, &value) < 0 || value < 0 || value > max)
        return lull_json_refuse(reader, "a number that is negative or too large here");
    *value_out = value;
    return 0;
}

int lull_json_read_real(const struct lull_json_reader *reader, double *value_out)
{
    struct lull_json_text text;
    char word[40];
    double value;
    const int result = lull_json_expect(reader, LULL_JSON_SCALAR, "expected a number", &text);

    if (result < 0)
        return result;
    if (text.length >= sizeof(word))
        return lull_json_refuse(reader, "a number of too many digits");
    memcpy(word, text.bytes, text.length);
    word[text.length] = '\0';
    if (lull_text_parse_number(word, &value) < 0 || value < 0.0)
        return lull_json_refuse(reader, "expected a number that is not negative");
    *value_out = value;
    return 0;
}

static const struct lull_json_field *find_field(const struct lull_json_field *fields,
                                                const struct lull_json_text *key)
{
    for (; fields->key != NULL; fields++)
        if (strlen(fields->key) == key->length && memcmp(fields->key, key->bytes, key->length) == 0)
            return fields;
    return NULL;
}

static int read_field(struct lull_json_reader *reader, const struct lull_json_field *field,
                      void *object)
{
    if (field == NULL)
        return lull_json_skip(reader->json, reader->err);
    if (field->read != NULL)
        return field->read(reader, object);
    return lull_json_read_integer(reader, field->shift, field->max,
                                  (int64_t *)(void *)((char *)object + field->offset));
}

int lull_json_read_fields(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object)
{
    for (;;) {
        struct lull_json_text text;
        int result = lull_json_next(reader->json, &text, reader->err);

        if (result == LULL_JSON_OBJECT_END)
            return 0;
        if (result == LULL_JSON_KEY)
            result = read_field(reader, find_field(fields, &text), object);
        if (result < 0)
            return result;
    }
}

int lull_json_read_object(struct lull_json_reader *reader, const struct lull_json_field *fields,
                          void *object)
{
    struct lull_json_text text;
    const int result =
        lull_json_expect(reader, LULL_JSON_OBJECT_BEGIN, "expected an object", &text);

    return result < 0 ? result : lull_json_read_fields(reader, fields, object);
}

int lull_json_read_array(struct lull_json_reader *reader, enum lull_json_token opens,
                         lull_json_value_fn item, void *object)
{
    struct lull_json_text text;
    int result = lull_json_expect(reader, LULL_JSON_ARRAY_BEGIN, "expected an array", &text);

    while (result == 0) {
        result = lull_json_next(reader->json, &text, reader->err);
        if (result == LULL_JSON_ARRAY_END)
            return 0;
        if (result >= 0)
            result = result == (int)opens ? item(reader, object)
                                          : lull_json_refuse(reader, "not what an array here has");
    }
    return result;
}

int lull_json_read_tuple(struct lull_json_reader *reader, const struct lull_json_field *fields,
                         void *object)
{
    struct lull_json_text text;
    int result = 0;

    for (; fields->key != NULL && result == 0; fields++)
        result = read_field(reader, fields, object);
    return result < 0
               ? result
               : lull_json_expect(reader, LULL_JSON_ARRAY_END, "too many numbers here", &text);
}
