/*
 * A text file line by line, plain or gzip ("-" is standard input), and the cells of a line, which
 * commas or other characters separate. Lines end with \n or \r\n; a byte order mark before the
 * first line is dropped. One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_LINES_H
#define LULL_TRACE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_LINE_MAX = 1 << 24 }; /* bytes; longer ones are refused */

struct lull_lines; /* opaque */

/* Borrows path, for messages too, until closed. Errors: those of lull_source_open. */
int lull_lines_open(const char *path, struct lull_lines **lines_out, struct lull_error *err);

struct lull_source;

/* The same for a source that has been opened at path, and perhaps
 * peeked at. The lines own it from now on, also after an error. Errors: -ENOMEM. */
int lull_lines_wrap(struct lull_source *source, const char *path, struct lull_lines **lines_out,
                    struct lull_error *err);

/* Null is allowed. */
void lull_lines_close(struct lull_lines *lines);

/*
 * Reads the next line. *text_out is the line without its end, NUL-terminated, with no other NUL in
 * it; it holds until the next call. Returns 1, or 0 where there are no more lines. Errors, with the
 * line: LULL_E_FORMAT a line that is too long or has a NUL byte, or damaged gzip data; -ENOMEM;
 * -errno of reading.
 */
int lull_lines_next(struct lull_lines *lines, char **text_out, struct lull_error *err);

/* Puts the line that was read last back, once, so that it is the next one again. */
void lull_lines_back(struct lull_lines *lines);

/*
 * Appends the next line to the one that was read last, with the line end between them, as a cell in
 * quotes may need. *text_out replaces the text of the last call, also where nothing follows.
 * Returns and errors: those of lull_lines_next.
 */
int lull_lines_extend(struct lull_lines *lines, char **text_out, struct lull_error *err);

/* The number of the line that was read last, from 1. */
size_t lull_lines_number(const struct lull_lines *lines);

/* The path. */
const char *lull_lines_name(const struct lull_lines *lines);

/* LULL_E_FORMAT, with the file and the line that was read last, and what is wrong there. */
int __attribute__((format(printf, 3, 4)))
lull_lines_refuse(const struct lull_lines *lines, struct lull_error *err, const char *format, ...);

/*
 * Takes the first cell of *rest, without the white space around it, and moves *rest behind the
 * cell's separator; *rest becomes null with the last cell. With the separator ' ' any run of blanks
 * and tabs separates. A cell in double quotes is taken without them (RFC 4180): separators and line
 * ends within them belong to it, and two quotes represent one. Writes into the line. The text must
 * not end within quotes (lull_lines_is_open).
 */
char *lull_lines_cell_of(char **rest, char separator);

/* lull_lines_cell_of with commas. */
static inline char *lull_lines_cell(char **rest)
{
    return lull_lines_cell_of(rest, ',');
}

/* Returns whether the text ends within the quotes of a cell, so that the next line belongs to it.
 * O(length). */
bool lull_lines_is_open(const char *text, char separator);

#endif
