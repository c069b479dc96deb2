/*
 * Records of named fields: the lines of a comma-separated table, plain or gzip, whose first line
 * names its columns; or one file of names and values (config_map.h). A reader says which names it
 * knows and what each means. Several names may mean the same field, of which a record has one:
 * their endings are units. Names that nobody knows are passed over.
 *
 * Threads: one at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_COLUMNS_H
#define LULL_TRACE_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/lines.h"

enum {
    LULL_COLUMNS_MAX = 64,    /* of a table, known or not; more are refused */
    LULL_COLUMNS_FIELDS = 24, /* that a reader may know */
};

struct lull_column { /* an array of them ends with a name of NULL */
    const char *name;
    uint32_t field; /* < LULL_COLUMNS_FIELDS */
    int64_t unit;   /* the reader's own: what a 1 in this column is */
};

struct lull_columns {
    const struct lull_column *known;                   /* borrowed */
    const char *name;                                  /* of the file, for messages; borrowed */
    struct lull_lines *lines;                          /* NULL: one file of names and values */
    uint32_t width;                                    /* of a table */
    uint32_t field_of[LULL_COLUMNS_MAX];               /* LULL_COLUMNS_FIELDS: passed over */
    const struct lull_column *at[LULL_COLUMNS_FIELDS]; /* NULL: there is no such column */
    const char *cells[LULL_COLUMNS_FIELDS];            /* of the record at hand */
    size_t line_of[LULL_COLUMNS_FIELDS];               /* of each cell, from 1 */
};

/*
 * Reads the header of a table; lines stay the caller's, and are read from until the columns are
 * used no more. Errors, with file and line: LULL_E_FORMAT no line at all, too many columns, a field
 * that two columns say; those of lull_lines_next.
 */
int lull_columns_open(struct lull_columns *columns, const struct lull_column *known,
                      struct lull_lines *lines, struct lull_error *err);

/* The field is there; else LULL_E_FORMAT with all names that it could have. */
int lull_columns_need(const struct lull_columns *columns, uint32_t field, struct lull_error *err);

/*
 * The next record of a table, whose cells hold until the call after it; empty lines are passed
 * over. Returns 1; 0: no more. Errors: LULL_E_FORMAT with the line, more or fewer cells than the
 * header has; those of lull_lines_next.
 */
int lull_columns_next(struct lull_columns *columns, struct lull_error *err);

/* Whether there is such a column; and whether the record at hand has something in it. */
bool lull_columns_has(const struct lull_columns *columns, uint32_t field);
bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field);

/* LULL_E_FORMAT with file, line and column of the record at hand, and what is wrong there. */
int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err);

/* The cell of a column that is there, as a number from min to max; else refused, out of its
 * range with what. */
int lull_columns_integer(const struct lull_columns *columns, uint32_t field, int64_t min,
                         int64_t max, const char *what, int64_t *value_out, struct lull_error *err);
int lull_columns_real(const struct lull_columns *columns, uint32_t field, double min, double max,
                      const char *what, double *value_out, struct lull_error *err);

/*
 * For those who fill a record by other means (config_map.h): notes a cell under its name, unless
 * nobody knows it. LULL_E_FORMAT: another name says the same.
 */
int lull_columns_note(struct lull_columns *columns, const char *name, const char *cell, size_t line,
                      struct lull_error *err);

#endif
