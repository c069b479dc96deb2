/*
 * Records of named fields: the lines of a comma-separated table, plain or gzip, whose first line
 * names its columns; or one file of names and values (reproduce/config_map.h). A reader says which
 * names it knows and what each means. Several names may mean the same field, of which a record has
 * one: their endings are units. Names that the reader does not know are passed over.
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
    LULL_COLUMNS_MAX = 64,    /* columns of a table, known or not; more are refused */
    LULL_COLUMNS_FIELDS = 64, /* fields that a reader may know */
};

struct lull_column { /* an array of them ends with a null name */
    const char *name;
    uint32_t field; /* < LULL_COLUMNS_FIELDS */
    int64_t unit;   /* the reader's own: what a 1 in this column is */
};

struct lull_columns {
    const struct lull_column *known;                   /* borrowed */
    const char *name;                                  /* of the file, for messages; borrowed */
    struct lull_lines *lines;                          /* null: one file of names and values */
    uint32_t width;                                    /* columns of a table */
    uint32_t field_of[LULL_COLUMNS_MAX];               /* LULL_COLUMNS_FIELDS: passed over */
    const struct lull_column *at[LULL_COLUMNS_FIELDS]; /* null: there is no such column */
    const char *cells[LULL_COLUMNS_FIELDS];            /* of the current record */
    size_t line_of[LULL_COLUMNS_FIELDS];               /* the line of each cell, from 1 */
};

/* How a reader reads a table. Its functions return 0 or a negative code. */
struct lull_table {
    const struct lull_column *known;
    uint64_t needed; /* bit i: the table must have a column for field i */
    /* Looks at the columns that there are, ahead of the records; may be null. */
    int (*check)(const struct lull_columns *columns, void *context, struct lull_error *err);
    /* Takes the current record. */
    int (*read)(const struct lull_columns *columns, void *context, struct lull_error *err);
};

/*
 * Reads all records of a file ("-" is standard input); empty lines are passed over. Errors, with
 * file and line: LULL_E_FORMAT no line at all, too many columns, a field that two columns give, one
 * that is missing, more or fewer cells than the header has; those of lull_lines_open,
 * lull_lines_next and the table's functions.
 */
int lull_columns_read(const char *path, const struct lull_table *table, void *context,
                      struct lull_error *err);

/* Returns 0 if there is a column for the field; else LULL_E_FORMAT with all names that it could
 * have. */
int lull_columns_need(const struct lull_columns *columns, uint32_t field, struct lull_error *err);

/* Tells whether there is such a column; and whether the current record has something in it. */
bool lull_columns_has(const struct lull_columns *columns, uint32_t field);
bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field);

/* LULL_E_FORMAT with file, line, column and cell of the current record, and what is wrong there. */
int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err);

/* Parses the cell of a column that is there as a number from min to max. A number that is out of
 * range, or an integer that is no number, is refused with what. */
int lull_columns_integer(const struct lull_columns *columns, uint32_t field, int64_t min,
                         int64_t max, const char *what, int64_t *value_out, struct lull_error *err);
int lull_columns_real(const struct lull_columns *columns, uint32_t field, double min, double max,
                      const char *what, double *value_out, struct lull_error *err);

/* Parses the cell of a column that is there as a time, whose unit, in seconds, is the column's. */
int lull_columns_time(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                      struct lull_error *err);

/* Copies the cell of a column that is there, a name of 1 to size - 1 bytes; others are refused. */
int lull_columns_name(const struct lull_columns *columns, uint32_t field, char *name_out,
                      size_t size, struct lull_error *err);

/*
 * For those who fill a record by other means (reproduce/config_map.h): notes a cell under its name,
 * unless the reader does not know the name. LULL_E_FORMAT: another name says the same.
 */
int lull_columns_note(struct lull_columns *columns, const char *name, const char *cell, size_t line,
                      struct lull_error *err);

#endif
