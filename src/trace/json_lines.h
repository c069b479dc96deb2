/*
 * Files of JSON lines, plain or gzip: one object per line, whose members are read by tables. Unlike
 * json_fields.h this is for small, handwritten objects: an unknown member is an error, so that a
 * misspelt name is not ignored. Empty lines are ignored.
 *
 * Private to trace. One thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_JSON_LINES_H
#define LULL_TRACE_JSON_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "trace/lines.h"

enum lull_member_kind {
    LULL_MEMBER_INTEGER, /* an int64_t, from least to most */
    LULL_MEMBER_NUMBER,  /* a double, from least to most */
    LULL_MEMBER_OTHER,   /* only known: its reader looks at it */
};

struct lull_member { /* a table ends with a null name */
    const char *name;
    enum lull_member_kind kind;
    bool is_optional; /* the place is left as it is where the member is missing */
    int64_t least;
    int64_t most;
    size_t offset; /* of the place in the object */
};

/* Reads the object of one line. Returns 0 or a negative code. */
typedef int (*lull_json_line_fn)(const struct lull_lines *lines, const json_t *object,
                                 void *context, struct lull_error *err);

/* Reads all lines of a file ("-" is standard input). Errors, with file and line: LULL_E_FORMAT no
 * JSON object; -ENOMEM; those of lull_lines_open, lull_lines_next and read. */
int lull_json_lines_read(const char *path, lull_json_line_fn read, void *context,
                         struct lull_error *err);

/* Reads the members of an object into place. LULL_E_FORMAT a member that is unknown, missing, of
 * another kind or out of its range. */
int lull_json_lines_members(const struct lull_lines *lines, const json_t *object,
                            const struct lull_member *members, void *place, struct lull_error *err);

/* LULL_E_FORMAT unless value, which the member of that name has given, is from least to most. */
int lull_json_lines_check(const struct lull_lines *lines, const char *name, int64_t value,
                          int64_t least, int64_t most, struct lull_error *err);

#endif
