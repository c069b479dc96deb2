/*
 * Measured kernels over operating points: a table (columns.h) with a row for each GPU, set, kernel
 * and point. Columns: gpu, set, app, arg, cuda_kernel, core_mhz, mem_mhz, time_ms (of a launch),
 * power_w (mean of the board), valid (1, or 0: not to be used). gpu, app, the clocks and the time
 * are needed; app, arg and cuda_kernel together identify a kernel. A blank power was not measured.
 * A row counts as valid where the table does not say. Performance counters are read by the names
 * that DCGM, nvprof and the dataset of `lull sweep` give them (kernel_table.c); a value that is not
 * a number from 0 to 1e15 was not measured. Other columns are ignored.
 *
 * The dataset of `lull sweep` (sweep_table.h) is read as well: suite, kernel, sm_set_mhz and
 * mem_set_mhz are the names of set, app and the clocks there. Rows at different power limits
 * (limit_set_w) are sets of their own, "suite@300W", and the repeats of a point (repeat) are one
 * row, with their mean; it is valid if one of them is, and the mean is then over the valid ones.
 *
 * Networks are read from a column network in place of app, and time_s in place of time_ms; each
 * network and mode (column mode) is a set of its own. Rows without clocks are left out, and
 * counted.
 *
 * Threads: a table belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_TRACE_KERNEL_TABLE_H
#define LULL_LAB_TRACE_KERNEL_TABLE_H

#include <stddef.h>

#include "base/error.h"
#include "lab/core/grid.h"

enum {
    LULL_KERNEL_ROWS_MAX = 1 << 20, /* of a table */
    LULL_KERNEL_NAME = 64,          /* bytes of a GPU or set, the end included */
};

struct lull_kernel_set {
    char gpu[LULL_KERNEL_NAME];
    char set[LULL_KERNEL_NAME]; /* may be empty */
    struct lull_grid_row *rows; /* as in the file; kernels are numbered over all sets */
    size_t row_count;           /* > 0 */
};

struct lull_string_set;

struct lull_kernel_table {
    struct lull_kernel_set *sets; /* as they come in the file */
    size_t count;                 /* > 0 */
    size_t unclocked;             /* rows that are left out, because a clock is blank */
    struct lull_string_set *kernel_names;
};

enum { LULL_KERNEL_FULL_NAME = 256 }; /* bytes, the end included */

struct lull_kernel_name {
    char text[LULL_KERNEL_FULL_NAME];
};

/* Returns the name of a kernel from app, arg and cuda_kernel,
 * "app,arg,cuda_kernel", without commas at its end; cut short where the names have more than 255
 * bytes together with those of the set. */
struct lull_kernel_name lull_kernel_table_name(const struct lull_kernel_table *table,
                                               uint32_t kernel);

/*
 * Reads a file, plain or gzip ("-" is standard input). Errors, with file, line and column:
 * LULL_E_FORMAT a column missing, a number that is invalid or out of range, a name that is empty or
 * too long, no rows or more than LULL_KERNEL_ROWS_MAX; -ENOMEM; those of lull_columns_read. The
 * table is left empty then.
 */
int lull_kernel_table_read(const char *path, struct lull_kernel_table *table_out,
                           struct lull_error *err);
void lull_kernel_table_fini(struct lull_kernel_table *table);

#endif
