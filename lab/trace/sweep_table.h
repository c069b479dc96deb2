/*
 * The dataset that `lull sweep` writes: a comma-separated table with a row for each kernel,
 * operating point and repeat. docs/research/dataset.md is its contract. A cell that is empty was
 * not measured; a row that is not valid says why and stays in the table.
 *
 * Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_TRACE_SWEEP_TABLE_H
#define LULL_LAB_TRACE_SWEEP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/core/sweep_point.h"

enum {
    LULL_SWEEP_NAME = 64, /* bytes of a name, its end included */
    LULL_SWEEP_HASH = 17, /* of a hash in hexadecimal digits */
    LULL_SWEEP_ROWS_MAX = 1 << 20,
    LULL_SWEEP_LINE = 1024, /* bytes of a line, its end included */
};

struct lull_sweep_row {
    char gpu[LULL_SWEEP_NAME];  /* product */
    char unit[LULL_SWEEP_HASH]; /* hash of the UUID */
    char suite[LULL_SWEEP_NAME];
    char kernel[LULL_SWEEP_NAME];
    char arg[LULL_SWEEP_NAME]; /* may be empty */
    double sm_set_mhz;
    double mem_set_mhz;
    double limit_set_w; /* NAN: the GPU has no power limit */
    struct lull_sweep_result result;
    uint32_t repeat;
    uint64_t order; /* place in the file's order of measurement, from 0 */
    double begin_s; /* since the sweep began */
};

/* The names of all columns as a line, without its end. */
const char *lull_sweep_table_header(void);

/* The name of a mark, as in invalid_reason; index < LULL_SWEEP_MARKS is the number of its bit. */
const char *lull_sweep_mark_name(uint32_t index);

/* Writes the names of marks with '+' between them. */
void lull_sweep_marks_write(uint32_t marks, char *text_out, size_t size);

/* Makes a name valid for a cell: characters other than letters, digits, blanks and "_-.+@" become
 * '_'. */
void lull_sweep_name(const char *text, char name_out[LULL_SWEEP_NAME]);

/* Writes a row as a line with its end; names must be fit for a cell. Returns its length. */
size_t lull_sweep_row_write(const struct lull_sweep_row *row, char line_out[LULL_SWEEP_LINE]);

struct lull_sweep_table {
    struct lull_sweep_row *rows;
    size_t count;
};

/*
 * Reads a dataset, plain or gzip ("-" is standard input), which may have no rows. Errors, with
 * file, line and column: LULL_E_FORMAT a column that is missing, a number that is invalid or out of
 * range, a name that is empty or too long, a row that is invalid without a reason, more rows than
 * LULL_SWEEP_ROWS_MAX; -ENOMEM; those of lull_columns_read. The table is left empty then.
 */
int lull_sweep_table_read(const char *path, struct lull_sweep_table *table_out,
                          struct lull_error *err);
void lull_sweep_table_fini(struct lull_sweep_table *table);

#endif
