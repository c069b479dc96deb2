/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/serve/json_text.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FIRST_ROOM = 4096,
    NUMBER = 40, /* the longest number has 25 characters */
};

struct text_writer {
    char *text;
    size_t size;
    size_t room;
    bool is_short; /* of memory: the text is not whole */
};

/* Reserves space for that many bytes. Returns whether there is enough. */
static bool json_text_reserve(struct text_writer *writer, size_t size)
{
    size_t room = writer->room > 0 ? writer->room : FIRST_ROOM;
    char *text;

    if (writer->is_short)
        return false;
    if (writer->room - writer->size >= size)
        return true;
    while (room - writer->size < size)
        room *= 2;
    text = realloc(writer->text, room);
    writer->is_short = text == NULL;
    if (text == NULL)
        return false;
    writer->text = text;
    writer->room = room;
    return true;
}

static void write_bytes(struct text_writer *writer, const char *bytes, size_t size)
{
    if (!json_text_reserve(writer, size))
        return;
    memcpy(writer->text + writer->size, bytes, size);
    writer->size += size;
}

static void write_char(struct text_writer *writer, char character)
{
    write_bytes(writer, &character, 1);
}

/* ---- strings ----------------------------------------------------------------------------- */

static bool json_text_is_plain(char character)
{
    return (unsigned char)character >= ' ' && character != '"' && character != '\\';
}

static void write_escape(struct text_writer *writer, char character)
{
    char text[8];

    switch (character) {
    case '"':
        write_bytes(writer, "\\\"", 2);
        break;
    case '\\':
        write_bytes(writer, "\\\\", 2);
        break;
    case '\n':
        write_bytes(writer, "\\n", 2);
        break;
    default:
        snprintf(text, sizeof(text), "\\u%04x", (unsigned)(unsigned char)character);
        write_bytes(writer, text, strlen(text));
    }
}

static void write_string(struct text_writer *writer, const char *text, size_t length)
{
    size_t begin = 0;

    write_char(writer, '"');
    for (size_t i = 0; i < length; i++) {
        if (json_text_is_plain(text[i]))
            continue;
        write_bytes(writer, text + begin, i - begin);
        write_escape(writer, text[i]);
        begin = i + 1;
    }
    write_bytes(writer, text + begin, length - begin);
    write_char(writer, '"');
}

/* ---- values ------------------------------------------------------------------------------ */

static void write_integer(struct text_writer *writer, json_int_t value)
{
    const bool is_negative = value < 0;
    unsigned long long left = (unsigned long long)value;
    char digits[NUMBER];
    size_t at = sizeof(digits);

    if (is_negative)
        left = 0 - left;
    do {
        digits[--at] = (char)('0' + left % 10);
        left /= 10;
    } while (left > 0);
    if (is_negative)
        digits[--at] = '-';
    write_bytes(writer, digits + at, sizeof(digits) - at);
}

/* Writes a real number so that it is read as one again: with a point or an exponent. */
static void json_text_write_real(struct text_writer *writer, double value)
{
    char text[NUMBER];

    if (value == trunc(value) && fabs(value) < 1e12 && !signbit(value)) {
        write_integer(writer, (json_int_t)value);
        write_bytes(writer, ".0", 2);
        return;
    }
    snprintf(text, sizeof(text), "%.12g", value);
    write_bytes(writer, text, strlen(text));
    if (strpbrk(text, ".e") == NULL)
        write_bytes(writer, ".0", 2);
}

static void json_text_write_value(struct text_writer *writer, const json_t *value);

static void json_text_write_object(struct text_writer *writer, const json_t *object)
{
    const char *key;
    json_t *value;
    bool is_first = true;

    write_char(writer, '{');
    json_object_foreach((json_t *)object, key, value)
    {
        if (!is_first)
            write_char(writer, ',');
        is_first = false;
        write_string(writer, key, strlen(key));
        write_char(writer, ':');
        json_text_write_value(writer, value);
    }
    write_char(writer, '}');
}

static void write_array(struct text_writer *writer, const json_t *array)
{
    size_t index;
    json_t *value;

    write_char(writer, '[');
    json_array_foreach((json_t *)array, index, value)
    {
        if (index > 0)
            write_char(writer, ',');
        json_text_write_value(writer, value);
    }
    write_char(writer, ']');
}

static void json_text_write_value(struct text_writer *writer, const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_OBJECT:
        json_text_write_object(writer, value);
        break;
    case JSON_ARRAY:
        write_array(writer, value);
        break;
    case JSON_STRING:
        write_string(writer, json_string_value(value), json_string_length(value));
        break;
    case JSON_INTEGER:
        write_integer(writer, json_integer_value(value));
        break;
    case JSON_REAL:
        json_text_write_real(writer, json_real_value(value));
        break;
    case JSON_TRUE:
        write_bytes(writer, "true", 4);
        break;
    case JSON_FALSE:
        write_bytes(writer, "false", 5);
        break;
    case JSON_NULL:
        write_bytes(writer, "null", 4);
        break;
    }
}

/* Ends the text and passes ownership to the caller. NULL: out of memory. */
static char *json_text_finish(struct text_writer *writer, size_t *size_out)
{
    *size_out = writer->size;
    write_char(writer, '\0');
    if (!writer->is_short)
        return writer->text;
    free(writer->text);
    return NULL;
}

char *lull_serve_json_text(const json_t *document, size_t *size_out)
{
    struct text_writer writer = {0};

    assert(document != NULL);
    json_text_write_value(&writer, document);
    return json_text_finish(&writer, size_out);
}

char *lull_serve_json_quote(const char *text, size_t length, size_t *size_out)
{
    struct text_writer writer = {0};

    write_string(&writer, text, length);
    return json_text_finish(&writer, size_out);
}
