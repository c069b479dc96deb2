/*
 * A text line by line, from a file (plain or gzip, "-": standard input) or from memory; and a
 * line's cells, parted by commas. Lines end with \n or \r\n; a byte order mark ahead of the first
 * is dropped. One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_LINES_H
#define LULL_TRACE_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { LULL_LINE_MAX = 1 << 24 }; /* bytes; longer ones are refused */

struct lull_lines; /* opaque */

/* Borrows path (for messages too). Errors: as lull_source_open. */
int lull_lines_open(const char *path, struct lull_lines **lines_out, struct lull_error *err);

/* Borrows name and text until closed. -ENOMEM. */
int lull_lines_open_memory(const char *name, const char *text, size_t size,
                           struct lull_lines **lines_out, struct lull_error *err);
void lull_lines_close(struct lull_lines *lines);

/*
 * The next line without its end, NUL-terminated and without other NULs, holding until the next
 * call. Returns 1; 0: no more lines. Errors, with the line: LULL_E_FORMAT one that is too long or
 * has a NUL byte, or damaged gzip data; -ENOMEM; -errno of reading.
 */
int lull_lines_next(struct lull_lines *lines, char **text_out, struct lull_error *err);

/* Of the line read last, from 1. */
size_t lull_lines_number(const struct lull_lines *lines);
const char *lull_lines_name(const struct lull_lines *lines);

/* Takes the first cell of *rest without white space around it, and moves *rest behind its comma;
 * *rest becomes NULL with the last one. Writes into the line. */
char *lull_lines_cell(char **rest);

#endif
