/*
 * Records of named fields: the lines of a table, plain or gzip, whose header line names its
 * columns; or one file of names and values (lab/reproduce/config_map.h). A reader says which names
 * it knows and what each means. Several names may mean the same field, of which a record has one:
 * their endings are units. Names that the reader does not know are skipped, whatever their
 * number.
 *
 * Tables are read as programs and spreadsheets write them. The separator is that of comma,
 * semicolon, tab and | under which the header has most known names. Cells may be in quotes
 * (lines.h). Ahead of the header, empty lines, comments (# or ==) and a line "sep=;" are passed
 * over; further down, empty rows and repetitions of the header. Names of columns are compared
 * without regard to case. Numbers are read as lull_text_plain_number says: a comma is the decimal
 * one where semicolons separate, groups digits where commas do, and is refused where either can be
 * meant.
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
    LULL_COLUMNS_MAX = 1 << 16, /* columns of a table, known or not; more are refused */
    LULL_COLUMNS_FIELDS = 64,   /* fields that a reader may know */
};

struct lull_column { /* an array of them ends with a null name */
    const char *name;
    uint32_t field; /* < LULL_COLUMNS_FIELDS */
    int64_t unit;   /* defined by the reader: the value of a 1 in this column */
    bool
        is_alias; /* a name from published tables: a name of the same field above it has priority */
};

struct lull_columns {
    const struct lull_column *known; /* borrowed */
    const char *name;                /* of the file, for messages; borrowed */
    struct lull_lines *lines;        /* null: one file of names and values */
    char separator;                  /* of the table's cells */
    uint32_t width;                  /* columns of a table */
    uint32_t *field_of;              /* [width]; LULL_COLUMNS_FIELDS: passed over */
    char *header;                    /* the line that names the columns */
    size_t header_line;              /* from 1 */
    const char *manual;              /* as in struct lull_table */
    const struct lull_column *at[LULL_COLUMNS_FIELDS]; /* null: the column is missing */
    const char *cells[LULL_COLUMNS_FIELDS];            /* of the current record */
    size_t line_of[LULL_COLUMNS_FIELDS];               /* the line of each cell, from 1 */
};

/* Description of a table by its reader. Its functions return 0 or a negative code. */
struct lull_table {
    const struct lull_column *known;
    uint64_t needed;    /* bit i: the table must have a column for field i */
    const char *manual; /* the page that lists the columns, for messages; null: none does */
    /* Checks the present columns before the first record; may be null. */
    int (*check)(const struct lull_columns *columns, void *context, struct lull_error *err);
    /* Takes the current record. */
    int (*read)(const struct lull_columns *columns, void *context, struct lull_error *err);
    /* Notes a line whose cells do not match the header, and
     * continues; null: such a line is an error.
     */
    void (*broken)(void *context, size_t line);
};

/*
 * Reads all records of a file ("-" is standard input). Errors, with file and line: LULL_E_FORMAT no
 * header, a field that two columns give, columns that are missing, fewer cells than the header has
 * or more that are not empty, quotes that are not closed; -ENOMEM; those of lull_lines_open,
 * lull_lines_next and the table's functions.
 */
int lull_columns_read(const char *path, const struct lull_table *table, void *context,
                      struct lull_error *err);

/* The same of lines that have been opened, from the next one on; they stay the caller's. */
int lull_columns_read_lines(struct lull_lines *lines, const struct lull_table *table, void *context,
                            struct lull_error *err);

/* Returns 0 if there is a column for each field of the mask (bit i: field i). Otherwise returns
 * LULL_E_FORMAT with the possible names of each missing field, and the names in the header. */
int lull_columns_need(const struct lull_columns *columns, uint64_t fields, struct lull_error *err);

/* Returns whether there is such a column; returns whether the current record's cell is not empty.
 */
bool lull_columns_has(const struct lull_columns *columns, uint32_t field);
bool lull_columns_is_filled(const struct lull_columns *columns, uint32_t field);

/* Returns whether the current record's cell in that column is
 * neither empty nor a word for a missing value
 * (lull_text_is_missing). For numbers and times; a name may be such a word. */
bool lull_columns_has_value(const struct lull_columns *columns, uint32_t field);

/* LULL_E_FORMAT with file, line, column and cell of the current record, and what is wrong there. */
int lull_columns_refuse(const struct lull_columns *columns, uint32_t field, const char *what,
                        struct lull_error *err);

/* Parses the cell of a column that is there as a number from min to max. A number that is out of
 * range, or an integer that is not a number, is refused with what. */
int lull_columns_integer(const struct lull_columns *columns, uint32_t field, int64_t min,
                         int64_t max, const char *what, int64_t *value_out, struct lull_error *err);
int lull_columns_real(const struct lull_columns *columns, uint32_t field, double min, double max,
                      const char *what, double *value_out, struct lull_error *err);

enum { LULL_COLUMNS_UNIT = 8 };

/* Parses the cell of a column that is there as a number with a unit behind it, or without one;
 * blanks between them do not count. -EINVAL: the cell is not such a number; the outputs are then
 * unchanged. */
int lull_columns_quantity(const struct lull_columns *columns, uint32_t field, double *value_out,
                          char unit_out[LULL_COLUMNS_UNIT]);

/* Decimal numbers that a column may have. */
struct lull_columns_range {
    int shift;        /* a number is read times 10^shift */
    int64_t min, max; /* of that */
    const char *what; /* the error message for other numbers */
};

/* Parses the cell of a column that is there as a decimal number, exactly (lull_decimal_parse). */
int lull_columns_decimal(const struct lull_columns *columns, uint32_t field,
                         const struct lull_columns_range *range, int64_t *value_out,
                         struct lull_error *err);

/* Parses the cell of a column that is there as a length of time from 0 to 30 years: a number, whose
 * unit in seconds is the column's, or days, hours, minutes and seconds (lull_timestamp_elapsed). */
int lull_columns_time(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                      struct lull_error *err);

/* Parses the cell of a column that is there as an instant on the table's own clock, from 0 to 146
 * years: a number as above, such as seconds since 1970, or a date and a time of day
 * (lull_timestamp_parse). */
int lull_columns_instant(const struct lull_columns *columns, uint32_t field, int64_t *time_ns_out,
                         struct lull_error *err);

/* Copies the cell of a column that is there, a name of 1 to size - 1 bytes; others are refused. */
int lull_columns_name(const struct lull_columns *columns, uint32_t field, char *name_out,
                      size_t size, struct lull_error *err);

/*
 * For callers that fill a record by other means (lab/reproduce/config_map.h): records a cell under
 * its name, if the reader knows the name. LULL_E_FORMAT: another name has already given this field.
 */
int lull_columns_note(struct lull_columns *columns, const char *name, const char *cell, size_t line,
                      struct lull_error *err);

#endif
