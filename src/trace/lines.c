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
    size_t text; /* begin in the buffer of the text that was handed out last */
    size_t number;
    bool is_over; /* nothing follows end */
};

int lull_lines_wrap(struct lull_source *source, const char *path, struct lull_lines **lines_out,
                    struct lull_error *err)
{
    enum { FIRST_BYTES = 1 << 16 };
    struct lull_lines *lines = calloc(1, sizeof(*lines));
    char *buffer = malloc(FIRST_BYTES);

    if (lines == NULL || buffer == NULL) {
        free(lines);
        free(buffer);
        lull_source_close(source);
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    }
    lines->name = path;
    lines->source = source;
    lines->buffer = buffer;
    lines->capacity = FIRST_BYTES;
    *lines_out = lines;
    return 0;
}

int lull_lines_open(const char *path, struct lull_lines **lines_out, struct lull_error *err)
{
    struct lull_source *source = NULL;
    const int rc = lull_source_open(path, &source, err);

    return rc < 0 ? rc : lull_lines_wrap(source, path, lines_out, err);
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
static int lines_make_room(struct lull_lines *lines, struct lull_error *err)
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
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for line %zu", lines->name,
                              lines->number + 1);
    lines->buffer = buffer;
    lines->capacity = capacity;
    return 0;
}

/* Fills the buffer, even if that cuts a line: hand_out searches for the line's end.
 * */
static int lines_read_more(struct lull_lines *lines, struct lull_error *err)
{
    const int rc = lines_make_room(lines, err);
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

static void lines_skip_byte_order_mark(struct lull_lines *lines, char **text, size_t *length)
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
    lines_skip_byte_order_mark(lines, &text, &length);
    lines->text = (size_t)(text - lines->buffer);
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

/* Finds the first line end that lies searched bytes or more behind begin, and hands out the text up
 * to it. A line may cross any number of reads, so the search continues where the last read ended.
 */
static int next_from(struct lull_lines *lines, size_t searched, char **text_out,
                     struct lull_error *err)
{
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
        rc = lines_read_more(lines, err);
        if (rc < 0)
            return rc;
    }
}

int lull_lines_next(struct lull_lines *lines, char **text_out, struct lull_error *err)
{
    return next_from(lines, 0, text_out, err);
}

/* Puts the line end back that the NUL behind the text has replaced, if there was one. */
static void restore_end(struct lull_lines *lines)
{
    const size_t length = strlen(lines->buffer + lines->text);
    const size_t end_bytes = lines->begin - lines->text - length;

    if (end_bytes > 0)
        lines->buffer[lines->text + length] = end_bytes == 2 ? '\r' : '\n';
}

void lull_lines_back(struct lull_lines *lines)
{
    restore_end(lines);
    lines->begin = lines->text;
    lines->number--;
}

/* The text and what follows it lie side by side in the buffer, so that only the line end, of which
 * a NUL has replaced the first byte, has to be restored. */
int lull_lines_extend(struct lull_lines *lines, char **text_out, struct lull_error *err)
{
    const size_t length = strlen(lines->buffer + lines->text);
    const size_t searched = lines->begin - lines->text;
    int rc;

    restore_end(lines);
    lines->begin = lines->text;
    while (lines->begin + searched == lines->end && !lines->is_over) {
        rc = lines_read_more(lines, err);
        if (rc < 0)
            return rc;
    }
    lines->text = lines->begin;
    if (lines->begin + searched < lines->end)
        return next_from(lines, searched, text_out, err);
    lines->begin += searched;
    *text_out = lines->buffer + lines->text;
    (*text_out)[length] = '\0';
    return 0;
}

/* ---- cells -------------------------------------------------------------------------------- */

static bool is_blank(char c)
{
    return c == ' ' || c == '\t';
}

/* Blanks around a cell are not part of it, unless they separate. */
static bool is_padding(char c, char separator)
{
    return is_blank(c) && c != separator;
}

static const char *skip_padding(const char *text, char separator)
{
    while (is_padding(*text, separator) || (separator == ' ' && is_blank(*text)))
        text++;
    return text;
}

static bool lines_is_separator(char c, char separator)
{
    return c == separator || (separator == ' ' && is_blank(c));
}

/* Returns the quote that closes the cell at text, which begins behind the opening one; the end of
 * the text where there is none. */
static const char *find_closing(const char *text)
{
    for (;;) {
        text += strcspn(text, "\"");
        if (text[0] == '\0' || text[1] != '"')
            return text;
        text += 2;
    }
}

bool lull_lines_is_open(const char *text, char separator)
{
    if (strchr(text, '"') == NULL)
        return false;
    for (;;) {
        text = skip_padding(text, separator);
        if (*text == '"') {
            text = find_closing(text + 1);
            if (*text == '\0')
                return true;
        }
        while (*text != '\0' && !lines_is_separator(*text, separator))
            text++;
        if (*text == '\0')
            return false;
        text++;
    }
}

/* Takes the quotes from the cell whose opening one stands at cell; text behind the closing one, up
 * to the separator, belongs to it. Returns where the cell ends, and where the separator stands. */
static char *lines_take_quoted(char *cell, char separator, char **stop_out)
{
    const char *const closing = find_closing(cell + 1);
    char *out = cell;
    char *in = cell + 1;

    for (; in < closing; in++) {
        *out++ = *in;
        in += *in == '"';
    }
    in += *in == '"';
    while (*in != '\0' && !lines_is_separator(*in, separator))
        *out++ = *in++;
    *stop_out = in;
    return out;
}

char *lull_lines_cell_of(char **rest, char separator)
{
    char *const cell = *rest + (skip_padding(*rest, separator) - *rest);
    char *stop = cell;
    char *end;

    if (*cell == '"') {
        end = lines_take_quoted(cell, separator, &stop);
    } else {
        while (*stop != '\0' && !lines_is_separator(*stop, separator))
            stop++;
        end = stop;
    }
    *rest = *stop == '\0' ? NULL : stop + 1;
    if (separator == ' ' && *rest != NULL && *skip_padding(*rest, separator) == '\0')
        *rest = NULL;
    while (end > cell && is_blank(end[-1]))
        end--;
    *end = '\0';
    return cell;
}
