/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/lines.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/source.h"

struct lull_lines {
    const char *name;
    struct lull_source *source;
    char *buffer; /* from begin to end: read, not handed out yet; one byte more for a NUL */
    size_t capacity;
    size_t begin;
    size_t end;
    size_t number;
    bool is_over; /* nothing follows end */
};

int lull_lines_open(const char *path, struct lull_lines **lines_out, struct lull_error *err)
{
    enum { FIRST_BYTES = 1 << 16 };
    struct lull_lines *lines = calloc(1, sizeof(*lines));
    int rc;

    if (lines == NULL)
        goto no_memory;
    lines->name = path;
    lines->capacity = FIRST_BYTES;
    lines->buffer = malloc(FIRST_BYTES);
    if (lines->buffer == NULL)
        goto no_memory;
    rc = lull_source_open(path, &lines->source, err);
    if (rc < 0) {
        lull_lines_close(lines);
        return rc;
    }
    *lines_out = lines;
    return 0;

no_memory:
    lull_lines_close(lines);
    return lull_error_set(err, -ENOMEM, "%s: there is no memory to read it", path);
}

void lull_lines_close(struct lull_lines *lines)
{
    if (lines == NULL)
        return;
    lull_source_close(lines->source);
    free(lines->buffer);
    free(lines);
}

size_t lull_lines_number(const struct lull_lines *lines)
{
    return lines->number;
}

const char *lull_lines_name(const struct lull_lines *lines)
{
    return lines->name;
}

int lull_lines_refuse(const struct lull_lines *lines, struct lull_error *err, const char *format,
                      ...)
{
    char what[200];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(what, sizeof(what), format, arguments);
    va_end(arguments);
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s", lines->name, lines->number, what);
}

/* Makes room after end for more text and the NUL. */
static int make_room(struct lull_lines *lines, struct lull_error *err)
{
    size_t capacity = lines->capacity;
    char *buffer;

    memmove(lines->buffer, lines->buffer + lines->begin, lines->end - lines->begin);
    lines->end -= lines->begin;
    lines->begin = 0;
    if (lines->end < capacity / 2)
        return 0;
    if (lines->end > LULL_LINE_MAX)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu is longer than %d bytes",
                              lines->name, lines->number + 1, LULL_LINE_MAX);
    capacity *= 2;
    buffer = realloc(lines->buffer, capacity);
    if (buffer == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory for line %zu", lines->name,
                              lines->number + 1);
    lines->buffer = buffer;
    lines->capacity = capacity;
    return 0;
}

/* Reads as much as the buffer has room for, whatever that cuts: hand_out looks for the line's end.
 * */
static int read_more(struct lull_lines *lines, struct lull_error *err)
{
    const int rc = make_room(lines, err);
    ssize_t got;

    if (rc < 0)
        return rc;
    got = lull_source_read(lines->source, lines->buffer + lines->end,
                           lines->capacity - lines->end - 1, err);
    if (got < 0)
        return (int)got;
    lines->is_over = got == 0;
    lines->end += (size_t)got;
    return 0;
}

static void skip_byte_order_mark(struct lull_lines *lines, char **text, size_t *length)
{
    if (lines->number == 1 && *length >= 3 && memcmp(*text, "\xef\xbb\xbf", 3) == 0) {
        *text += 3;
        *length -= 3;
    }
}

/* Takes the line that ends at newline out of the buffer. */
static int hand_out(struct lull_lines *lines, char *newline, char **text_out,
                    struct lull_error *err)
{
    char *text = lines->buffer + lines->begin;
    size_t length = (size_t)(newline - text);

    lines->begin += length + (lines->begin + length < lines->end);
    lines->number++;
    skip_byte_order_mark(lines, &text, &length);
    if (length > 0 && text[length - 1] == '\r')
        length--;
    text[length] = '\0';
    if (strlen(text) != length)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %zu, byte %zu: there is a NUL byte; is this a text file?",
                              lines->name, lines->number, strlen(text) + 1);
    *text_out = text;
    return 1;
}

/* A line may cross any number of reads, so the search goes on where the last read ended. */
int lull_lines_next(struct lull_lines *lines, char **text_out, struct lull_error *err)
{
    size_t searched = 0;

    for (;;) {
        char *const from = lines->buffer + lines->begin + searched;
        const size_t length = lines->end - lines->begin - searched;
        char *const newline = memchr(from, '\n', length);
        int rc;

        if (newline != NULL)
            return hand_out(lines, newline, text_out, err);
        if (lines->is_over && lines->begin == lines->end)
            return 0;
        if (lines->is_over)
            return hand_out(lines, lines->buffer + lines->end, text_out, err);
        searched += length;
        rc = read_more(lines, err);
        if (rc < 0)
            return rc;
    }
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t';
}

char *lull_lines_cell(char **rest)
{
    char *cell = *rest;
    char *end = cell + strcspn(cell, ",");

    *rest = *end == ',' ? end + 1 : NULL;
    while (is_space(*cell))
        cell++;
    while (end > cell && is_space(end[-1]))
        end--;
    *end = '\0';
    return cell;
}
