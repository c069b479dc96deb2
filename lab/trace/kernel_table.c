/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/trace/kernel_table.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/columns.h"
#include "trace/string_set.h"

enum kernel_field {
    GPU,
    SET,
    APP,
    ARG,
    CUDA_KERNEL,
    CORE_MHZ,
    MEM_MHZ,
    MEM_SET_MHZ,
    TIME_MS,
    POWER_W,
    VALID,
    LIMIT_W,
    REPEAT,
    NETWORK,
    MODE,
    COUNTERS, /* the first of LULL_GRID_COUNTERS */
};

static_assert(COUNTERS + LULL_GRID_COUNTERS <= LULL_COLUMNS_FIELDS,
              "a reader knows fewer fields than there are columns here");

/* Between the parts of a key: names of kernels have commas in them. */
#define SEPARATOR "\x1f"

enum {
    NEEDED = 1u << GPU | 1u << CORE_MHZ | 1u << TIME_MS,
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
    {"time_ms", TIME_MS, 1},
    {"time_s", TIME_MS, 1000},
    {"power_w", POWER_W},
    {"valid", VALID},
    {"suite", SET},
    {"kernel", APP},
    {"sm_set_mhz", CORE_MHZ},
    {"mem_set_mhz", MEM_SET_MHZ},
    {"limit_set_w", LIMIT_W},
    {"repeat", REPEAT},
    {"network", NETWORK},
    {"mode", MODE},
    {"sm_active", COUNTERS},
    {"SMACT", COUNTERS},
    {"sm_occ", COUNTERS + 1},
    {"SMOCC", COUNTERS + 1},
    {"dram_active", COUNTERS + 2},
    {"DRAMA", COUNTERS + 2},
    {"fp16", COUNTERS + 3},
    {"FP16A", COUNTERS + 3},
    {"fp32", COUNTERS + 4},
    {"FP32A", COUNTERS + 4},
    {"fp64", COUNTERS + 5},
    {"FP64A", COUNTERS + 5},
    {"tensor", COUNTERS + 6},
    {"TENSO", COUNTERS + 6},
    {"achieved_occupancy", COUNTERS + 7},
    {"sm_efficiency", COUNTERS + 8},
    {"sm_activity", COUNTERS + 9},
    {"warp_execution_efficiency", COUNTERS + 10},
    {"eligible_warps_per_cycle", COUNTERS + 11},
    {"ipc", COUNTERS + 12},
    {"executed_ipc", COUNTERS + 13},
    {"dram_read_throughput", COUNTERS + 14},
    {"dram_write_throughput", COUNTERS + 15},
    {"l2_read_throughput", COUNTERS + 16},
    {"l2_write_throughput", COUNTERS + 17},
    {"shared_load_throughput", COUNTERS + 18},
    {"shared_store_throughput", COUNTERS + 19},
    {NULL},
};

/* A point of a kernel that is repeated, and what its row is the mean of so far. */
struct repeated {
    size_t set;
    size_t row;
    uint32_t times;
    uint32_t powers;
};

/* The state of reading a table. */
struct reading {
    struct lull_kernel_table *table;
    struct lull_string_set *set_names;
    struct lull_string_set *points; /* of tables with repeats */
    struct repeated *repeated;      /* by the number of the point */
    size_t repeated_count;
    size_t rows;
};

/* Points are distinguished by the requested clock if the table has both it and the clock that
 * was read. */
static uint32_t memory_field(const struct lull_columns *columns)
{
    return lull_columns_has(columns, MEM_SET_MHZ) ? MEM_SET_MHZ : MEM_MHZ;
}

/* A network is measured on its own grid, so it is a set of its own. */
static uint32_t name_field(const struct lull_columns *columns)
{
    return lull_columns_has(columns, NETWORK) ? NETWORK : APP;
}

static uint32_t set_field(const struct lull_columns *columns)
{
    return lull_columns_has(columns, NETWORK) ? NETWORK : SET;
}

static int check_columns(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    (void)context;
    return lull_columns_need(columns,
                             NEEDED | 1u << memory_field(columns) | 1u << name_field(columns), err);
}

static const char *kernel_table_cell_or_empty(const struct lull_columns *columns, uint32_t field)
{
    return lull_columns_has(columns, field) ? columns->cells[field] : "";
}

static int extend_set(const struct lull_columns *columns, const char *more,
                      struct lull_kernel_set *set, struct lull_error *err)
{
    const size_t used = strlen(set->set);

    if (strlen(more) >= sizeof(set->set) - used)
        return lull_columns_refuse(columns, name_field(columns),
                                   "the name of the set is too long with its mode or power limit",
                                   err);
    memcpy(set->set + used, more, strlen(more) + 1);
    return 0;
}

/* Rows at different power limits are not of one grid of clocks. */
static int kernel_table_add_limit(const struct lull_columns *columns, struct lull_kernel_set *set,
                                  struct lull_error *err)
{
    char text[32];
    double limit_w;
    int rc;

    if (!lull_columns_is_filled(columns, LIMIT_W))
        return 0;
    rc = lull_columns_real(columns, LIMIT_W, 1e-3, 1e6, "not from 0.001 to 1e6", &limit_w, err);
    if (rc < 0)
        return rc;
    snprintf(text, sizeof(text), "@%gW", limit_w);
    return extend_set(columns, text, set, err);
}

/* Networks that train and that only run are not measured on one grid either. */
static int add_mode(const struct lull_columns *columns, struct lull_kernel_set *set,
                    struct lull_error *err)
{
    char text[LULL_KERNEL_NAME + 1];

    if (!lull_columns_has(columns, NETWORK) || !lull_columns_is_filled(columns, MODE))
        return 0;
    snprintf(text, sizeof(text), " %s", columns->cells[MODE]);
    return extend_set(columns, text, set, err);
}

/* Reads the names of the GPU and the set, of which the latter may be missing. */
static int read_set_name(const struct lull_columns *columns, struct lull_kernel_set *set,
                         struct lull_error *err)
{
    int rc = lull_columns_name(columns, GPU, set->gpu, sizeof(set->gpu), err);

    if (rc == 0 && lull_columns_is_filled(columns, set_field(columns)))
        rc = lull_columns_name(columns, set_field(columns), set->set, sizeof(set->set), err);
    if (rc == 0)
        rc = add_mode(columns, set, err);
    return rc == 0 ? kernel_table_add_limit(columns, set, err) : rc;
}

/* Finds the set that the record belongs to, new or known. */
static int kernel_table_find_set(const struct lull_columns *columns, struct reading *reading,
                                 struct lull_kernel_set **set_out, struct lull_error *err)
{
    struct lull_kernel_table *const table = reading->table;
    struct lull_kernel_set set = {.rows = NULL};
    char key[2 * LULL_KERNEL_NAME];
    uint32_t number;
    int rc = read_set_name(columns, &set, err);

    if (rc < 0)
        return rc;
    snprintf(key, sizeof(key), "%s" SEPARATOR "%s", set.gpu, set.set);
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

static int kernel_table_find(const struct lull_columns *columns, struct reading *reading,
                             uint32_t *kernel_out, struct lull_error *err)
{
    char key[KEY];

    if (!lull_columns_is_filled(columns, name_field(columns)))
        return lull_columns_refuse(columns, name_field(columns),
                                   "the name of the kernel's program is missing", err);
    if (snprintf(key, sizeof(key),
                 "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s" SEPARATOR "%s",
                 columns->cells[GPU], kernel_table_cell_or_empty(columns, SET),
                 kernel_table_cell_or_empty(columns, LIMIT_W), columns->cells[name_field(columns)],
                 kernel_table_cell_or_empty(columns, ARG),
                 kernel_table_cell_or_empty(columns, CUDA_KERNEL)) >= KEY)
        return lull_columns_refuse(columns, name_field(columns),
                                   "the names of the kernel have more than 1023 bytes", err);
    return lull_string_set_add(reading->table->kernel_names, key, kernel_out, columns->name, err);
}

static int kernel_table_read_time(const struct lull_columns *columns, double *time_ms_out,
                                  struct lull_error *err)
{
    const double unit_ms = (double)columns->at[TIME_MS]->unit;
    const int rc = lull_columns_real(columns, TIME_MS, 1e-6 / unit_ms, 1e9 / unit_ms,
                                     "not from 1e-6 to 1e9 ms", time_ms_out, err);

    *time_ms_out *= unit_ms;
    return rc;
}

static int kernel_table_read_numbers(const struct lull_columns *columns, struct lull_grid_row *row,
                                     struct lull_error *err)
{
    int64_t is_valid = 1;
    int rc = lull_columns_real(columns, CORE_MHZ, 1.0, 1e6, "not from 1 to 1e6", &row->sm_mhz, err);

    if (rc == 0)
        rc = lull_columns_real(columns, memory_field(columns), 1.0, 1e6, "not from 1 to 1e6",
                               &row->mem_mhz, err);
    if (rc == 0)
        rc = kernel_table_read_time(columns, &row->time_ms, err);
    row->power_w = NAN;
    if (rc == 0 && lull_columns_has_value(columns, POWER_W))
        rc = lull_columns_real(columns, POWER_W, 1e-3, 1e6,
                               "not from 0.001 to 1e6; leave it blank where it was not measured",
                               &row->power_w, err);
    if (rc == 0 && lull_columns_is_filled(columns, VALID))
        rc = lull_columns_integer(columns, VALID, 0, 1, "not 0 or 1", &is_valid, err);
    row->is_valid = is_valid != 0;
    return rc;
}

/* Reads the counters of a row, which are allocated for those that have any. Profilers write
 * words or negative numbers for counters that they could not read; such a table is still valid. */
static int read_counters(const struct lull_columns *columns, struct lull_grid_row *row,
                         struct lull_error *err)
{
    static const double most = 1e15;
    double counters[LULL_GRID_COUNTERS];
    bool has_any = false;

    for (uint32_t i = 0; i < LULL_GRID_COUNTERS; i++) {
        double value;

        counters[i] = NAN;
        if (lull_columns_has_value(columns, COUNTERS + i) &&
            lull_columns_real(columns, COUNTERS + i, 0.0, most, "", &value, NULL) == 0)
            counters[i] = value;
        has_any = has_any || !isnan(counters[i]);
    }
    if (!has_any)
        return 0;
    row->counters = malloc(sizeof(counters));
    if (row->counters == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", columns->name);
    memcpy(row->counters, counters, sizeof(counters));
    return 0;
}

/* Adds a repeat to the row of its point. Only valid ones count where there are any. The counters
 * are those of the first that counts. */
static void add_repeat(struct lull_grid_row *mean, struct repeated *repeated,
                       struct lull_grid_row *row)
{
    if (!row->is_valid && mean->is_valid)
        return;
    if (row->is_valid && !mean->is_valid) {
        free(mean->counters);
        *mean = *row;
        row->counters = NULL;
        repeated->times = 1;
        repeated->powers = isnan(row->power_w) ? 0U : 1U;
        return;
    }
    mean->time_ms += (row->time_ms - mean->time_ms) / ++repeated->times;
    if (isnan(row->power_w))
        return;
    if (repeated->powers++ == 0)
        mean->power_w = row->power_w;
    else
        mean->power_w += (row->power_w - mean->power_w) / repeated->powers;
}

/* Finds what was read of a point before. Null, with nothing refused: it is new, and is noted as the
 * next row of its set. */
static int find_repeated(const struct lull_columns *columns, struct reading *reading, size_t set,
                         const struct lull_grid_row *row, struct repeated **repeated_out,
                         struct lull_error *err)
{
    const struct repeated new = {set, reading->table->sets[set].row_count, 1,
                                 isnan(row->power_w) ? 0U : 1U};
    char key[96];
    uint32_t number;
    int rc;

    *repeated_out = NULL;
    if (!lull_columns_is_filled(columns, REPEAT))
        return 0;
    snprintf(key, sizeof(key), "%u,%.9g,%.9g", row->kernel, row->sm_mhz, row->mem_mhz);
    rc = lull_string_set_add(reading->points, key, &number, columns->name, err);
    if (rc < 0)
        return rc;
    if (number < reading->repeated_count)
        *repeated_out = &reading->repeated[number];
    else
        rc = lull_trace_append(&reading->repeated, &reading->repeated_count, &new, sizeof(new),
                               columns->name, err);
    return rc;
}

/* Adds a row to its set, or to the row that its point already has. */
static int place_row(const struct lull_columns *columns, struct reading *reading,
                     struct lull_kernel_set *set, struct lull_grid_row *row, struct lull_error *err)
{
    struct repeated *repeated = NULL;
    int rc =
        find_repeated(columns, reading, (size_t)(set - reading->table->sets), row, &repeated, err);

    if (rc < 0)
        return rc;
    if (repeated != NULL) {
        add_repeat(&reading->table->sets[repeated->set].rows[repeated->row], repeated, row);
        return 0;
    }
    rc = lull_trace_append(&set->rows, &set->row_count, row, sizeof(*row), columns->name, err);
    if (rc == 0)
        row->counters = NULL; /* which the set owns now */
    return rc;
}

static int kernel_table_add_row(const struct lull_columns *columns, void *context,
                                struct lull_error *err)
{
    struct reading *const reading = context;
    struct lull_kernel_set *set = NULL;
    struct lull_grid_row row = {0};
    int rc;

    if (reading->rows == LULL_KERNEL_ROWS_MAX)
        return lull_columns_refuse(columns, GPU, "there are more than 1048576 rows", err);
    if (!lull_columns_has_value(columns, CORE_MHZ) ||
        !lull_columns_has_value(columns, memory_field(columns))) {
        reading->table->unclocked++;
        return 0;
    }
    rc = kernel_table_read_numbers(columns, &row, err);
    if (rc < 0)
        return rc;
    rc = kernel_table_find(columns, reading, &row.kernel, err);
    if (rc < 0)
        return rc;
    rc = kernel_table_find_set(columns, reading, &set, err);
    if (rc < 0)
        return rc;
    rc = read_counters(columns, &row, err);
    if (rc < 0)
        return rc;
    reading->rows++;
    rc = place_row(columns, reading, set, &row, err);
    free(row.counters);
    return rc;
}

int lull_kernel_table_read(const char *path, struct lull_kernel_table *table_out,
                           struct lull_error *err)
{
    static const struct lull_table kernels = {known, 0, "lull-model(1)", check_columns,
                                              kernel_table_add_row};
    struct reading reading = {.table = table_out,
                              .set_names = lull_string_set_create(),
                              .points = lull_string_set_create()};
    int rc;

    *table_out = (struct lull_kernel_table){.kernel_names = lull_string_set_create()};
    if (reading.set_names == NULL || table_out->kernel_names == NULL || reading.points == NULL)
        rc = lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    else
        rc = lull_columns_read(path, &kernels, &reading, err);
    if (rc >= 0 && table_out->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: the table has no rows with clocks after its header", path);
    free(reading.repeated);
    lull_string_set_destroy(reading.points);
    lull_string_set_destroy(reading.set_names);
    if (rc < 0)
        lull_kernel_table_fini(table_out);
    return rc;
}

struct lull_kernel_name lull_kernel_table_name(const struct lull_kernel_table *table,
                                               uint32_t kernel)
{
    /* Behind the GPU, the set and the power limit. */
    const char *text = lull_string_set_get(table->kernel_names, kernel);
    struct lull_kernel_name name;
    size_t size;

    for (int parts = 0; parts < 3; parts++)
        text += strcspn(text, SEPARATOR) + 1;
    size = strlen(text);
    while (size > 0 && text[size - 1] == SEPARATOR[0])
        size--;
    snprintf(name.text, sizeof(name.text), "%.*s", (int)size, text);
    for (char *c = name.text; *c != '\0'; c++)
        if (*c == SEPARATOR[0])
            *c = ',';
    return name;
}

void lull_kernel_table_fini(struct lull_kernel_table *table)
{
    for (size_t i = 0; i < table->count; i++) {
        for (size_t row = 0; row < table->sets[i].row_count; row++)
            free(table->sets[i].rows[row].counters);
        free(table->sets[i].rows);
    }
    free(table->sets);
    lull_string_set_destroy(table->kernel_names);
    *table = (struct lull_kernel_table){0};
}
