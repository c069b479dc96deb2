/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kernel_table.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/columns.h"
#include "trace/string_set.h"

enum kernel_field { GPU, SET, APP, ARG, CUDA_KERNEL, CORE_MHZ, MEM_MHZ, TIME_MS, POWER_W, VALID };

enum {
    NEEDED = 1u << GPU | 1u << APP | 1u << CORE_MHZ | 1u << MEM_MHZ | 1u << TIME_MS,
    KEY = 1024, /* bytes of all names of a kernel together */
};

static const struct lull_column known[] = {
    {"gpu", GPU},
    {"set", SET},
    {"app", APP},
    {"arg", ARG},
    {"cuda_kernel", CUDA_KERNEL},
    {"core_mhz", CORE_MHZ},
    {"mem_mhz", MEM_MHZ},
    {"time_ms", TIME_MS},
    {"power_w", POWER_W},
    {"valid", VALID},
    {NULL},
};

/* The state of reading a table. */
struct reading {
    struct lull_kernel_table *table;
    struct lull_string_set *set_names;
    struct lull_string_set *kernel_names;
    size_t rows;
};

static const char *cell_or_empty(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) ? columns->cells[field] : "";
}

/* Reads the names of the GPU and the set, of which the latter may be missing. */
static int read_set_name(const struct lull_columns *columns, struct lull_kernel_set *set,
                         struct lull_error *err)
{
    int rc = lull_columns_name(columns, GPU, set->gpu, sizeof(set->gpu), err);

    if (rc == 0 && lull_columns_is_filled(columns, SET))
        rc = lull_columns_name(columns, SET, set->set, sizeof(set->set), err);
    return rc;
}

/* Finds the set that the record belongs to, new or known. Cells have no commas in them, so that
 * keys are told apart by them. */
static int find_set(const struct lull_columns *columns, struct reading *reading,
                    struct lull_kernel_set **set_out, struct lull_error *err)
{
    struct lull_kernel_table *const table = reading->table;
    struct lull_kernel_set set = {.rows = NULL};
    char key[2 * LULL_KERNEL_NAME];
    uint32_t number;
    int rc = read_set_name(columns, &set, err);

    if (rc < 0)
        return rc;
    snprintf(key, sizeof(key), "%s,%s", set.gpu, set.set);
    rc = lull_string_set_add(reading->set_names, key, &number, columns->name, err);
    if (rc < 0)
        return rc;
    if (number == table->count)
        rc = lull_trace_append(&table->sets, &table->count, &set, sizeof(set), columns->name, err);
    if (rc < 0)
        return rc;
    *set_out = &table->sets[number];
    return 0;
}

static int find_kernel(const struct lull_columns *columns, struct reading *reading,
                       uint32_t *kernel_out, struct lull_error *err)
{
    char key[KEY];

    if (!lull_columns_is_filled(columns, APP))
        return lull_columns_refuse(columns, APP, "the name of the kernel's program is missing",
                                   err);
    if (snprintf(key, sizeof(key), "%s,%s,%s,%s,%s", columns->cells[GPU],
                 cell_or_empty(columns, SET), columns->cells[APP], cell_or_empty(columns, ARG),
                 cell_or_empty(columns, CUDA_KERNEL)) >= KEY)
        return lull_columns_refuse(columns, APP,
                                   "the names of the kernel have more than 1023 bytes", err);
    return lull_string_set_add(reading->kernel_names, key, kernel_out, columns->name, err);
}

static int read_numbers(const struct lull_columns *columns, struct lull_grid_row *row,
                        struct lull_error *err)
{
    int64_t is_valid = 1;
    int rc = lull_columns_real(columns, CORE_MHZ, 1.0, 1e6, "not from 1 to 1e6", &row->sm_mhz, err);

    if (rc == 0)
        rc = lull_columns_real(columns, MEM_MHZ, 1.0, 1e6, "not from 1 to 1e6", &row->mem_mhz, err);
    if (rc == 0)
        rc = lull_columns_real(columns, TIME_MS, 1e-6, 1e9, "not from 1e-6 to 1e9", &row->time_ms,
                               err);
    row->power_w = NAN;
    if (rc == 0 && lull_columns_is_filled(columns, POWER_W))
        rc = lull_columns_real(columns, POWER_W, 1e-3, 1e6,
                               "not from 0.001 to 1e6; leave it blank where it was not measured",
                               &row->power_w, err);
    if (rc == 0 && lull_columns_is_filled(columns, VALID))
        rc = lull_columns_integer(columns, VALID, 0, 1, "not 0 or 1", &is_valid, err);
    row->is_valid = is_valid != 0;
    return rc;
}

static int add_row(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct reading *const reading = context;
    struct lull_kernel_set *set = NULL;
    struct lull_grid_row row = {0};
    int rc;

    if (reading->rows == LULL_KERNEL_ROWS_MAX)
        return lull_columns_refuse(columns, GPU, "there are more than 1048576 rows", err);
    rc = read_numbers(columns, &row, err);
    if (rc < 0)
        return rc;
    rc = find_kernel(columns, reading, &row.kernel, err);
    if (rc < 0)
        return rc;
    rc = find_set(columns, reading, &set, err);
    if (rc < 0)
        return rc;
    reading->rows++;
    return lull_trace_append(&set->rows, &set->row_count, &row, sizeof(row), columns->name, err);
}

int lull_kernel_table_read(const char *path, struct lull_kernel_table *table_out,
                           struct lull_error *err)
{
    static const struct lull_table kernels = {known, NEEDED, NULL, add_row};
    struct reading reading = {.table = table_out,
                              .set_names = lull_string_set_create(),
                              .kernel_names = lull_string_set_create()};
    int rc;

    *table_out = (struct lull_kernel_table){0};
    if (reading.set_names == NULL || reading.kernel_names == NULL)
        rc = lull_error_set(err, -ENOMEM, "%s: there is no memory to read it", path);
    else
        rc = lull_columns_read(path, &kernels, &reading, err);
    if (rc >= 0 && table_out->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: the table has no rows after its header", path);
    lull_string_set_destroy(reading.set_names);
    lull_string_set_destroy(reading.kernel_names);
    if (rc < 0)
        lull_kernel_table_fini(table_out);
    return rc;
}

void lull_kernel_table_fini(struct lull_kernel_table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->sets[i].rows);
    free(table->sets);
    *table = (struct lull_kernel_table){0};
}
