/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/trace/sweep_table.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/columns.h"

enum sweep_field {
    GPU,
    UNIT,
    SUITE,
    KERNEL,
    ARG,
    SM_SET,
    MEM_SET,
    LIMIT_SET,
    SM,
    SM_MIN,
    SM_MAX,
    MEM,
    LAUNCHES,
    TIME,
    TIME_SD,
    POWER,
    POWER_SD,
    ENERGY,
    SOURCE,
    WINDOW,
    TEMPERATURE,
    REASONS,
    REPEAT,
    ORDER,
    BEGIN,
    VALID,
    INVALID_REASON,
    FIELDS,
};

/* In the order in which they are written. Columns without a field are for figures that no device
 * of Lull reports yet; other programs may fill them. */
static const struct {
    const char *name;
    uint32_t field;
} written[] = {
    {"gpu", GPU},
    {"gpu_uuid_hash", UNIT},
    {"suite", SUITE},
    {"kernel", KERNEL},
    {"arg", ARG},
    {"sm_set_mhz", SM_SET},
    {"mem_set_mhz", MEM_SET},
    {"limit_set_w", LIMIT_SET},
    {"sm_mhz", SM},
    {"sm_mhz_min", SM_MIN},
    {"sm_mhz_max", SM_MAX},
    {"mem_mhz", MEM},
    {"launches", LAUNCHES},
    {"time_ms", TIME},
    {"time_sd_ms", TIME_SD},
    {"power_w", POWER},
    {"power_sd_w", POWER_SD},
    {"energy_j", ENERGY},
    {"energy_source", SOURCE},
    {"window_s", WINDOW},
    {"temp_c", TEMPERATURE},
    {"mem_temp_c", FIELDS},
    {"voltage_mv", FIELDS},
    {"reasons", REASONS},
    {"sm_active", FIELDS},
    {"sm_occ", FIELDS},
    {"dram_active", FIELDS},
    {"fp16", FIELDS},
    {"fp32", FIELDS},
    {"fp64", FIELDS},
    {"tensor", FIELDS},
    {"repeat", REPEAT},
    {"order", ORDER},
    {"t_begin_s", BEGIN},
    {"valid", VALID},
    {"invalid_reason", INVALID_REASON},
};

enum { WRITTEN = sizeof(written) / sizeof(written[0]) };

static const char *const mark_names[LULL_SWEEP_MARKS] = {
    "clock", "thermal", "power", "short", "noise", "counter", "other_process",
};

const char *lull_sweep_mark_name(uint32_t index)
{
    assert(index < LULL_SWEEP_MARKS);
    return mark_names[index];
}

void lull_sweep_marks_write(uint32_t marks, char *text_out, size_t size)
{
    size_t used = 0;

    text_out[0] = '\0';
    for (uint32_t i = 0; i < LULL_SWEEP_MARKS && used < size; i++)
        if (marks >> i & 1)
            used += (size_t)snprintf(text_out + used, size - used, "%s%s", used > 0 ? "+" : "",
                                     mark_names[i]);
}

/* ---- writing ------------------------------------------------------------------------------- */

const char *lull_sweep_table_header(void)
{
    return "gpu,gpu_uuid_hash,suite,kernel,arg,sm_set_mhz,mem_set_mhz,limit_set_w,sm_mhz,"
           "sm_mhz_min,sm_mhz_max,mem_mhz,launches,time_ms,time_sd_ms,power_w,power_sd_w,energy_j,"
           "energy_source,window_s,temp_c,mem_temp_c,voltage_mv,reasons,sm_active,sm_occ,"
           "dram_active,fp16,fp32,fp64,tensor,repeat,order,t_begin_s,valid,invalid_reason";
}

void lull_sweep_name(const char *text, char name_out[LULL_SWEEP_NAME])
{
    size_t length = 0;

    for (; text[length] != '\0' && length < LULL_SWEEP_NAME - 1; length++) {
        const char c = text[length];
        const bool is_fit = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                            (c >= 'a' && c <= 'z') || strchr("_-.+@/ ", c) != NULL;

        name_out[length] = '_';
        if (is_fit)
            name_out[length] = c;
    }
    /* A reader strips the white space around a cell. */
    while (length > 0 && name_out[length - 1] == ' ')
        length--;
    name_out[length] = '\0';
}

/* A number with so many digits that reading it gives the same to a millionth. */
static int write_number(char *text, size_t size, double number)
{
    return isnan(number) ? 0 : snprintf(text, size, "%.9g", number);
}

static double sweep_table_number_of(const struct lull_sweep_row *row, uint32_t field)
{
    const struct lull_sweep_result *const result = &row->result;

    switch (field) {
    case SM_SET:
        return row->sm_set_mhz;
    case MEM_SET:
        return row->mem_set_mhz;
    case LIMIT_SET:
        return row->limit_set_w;
    case SM:
        return result->sm_mhz;
    case SM_MIN:
        return result->sm_min_mhz;
    case SM_MAX:
        return result->sm_max_mhz;
    case MEM:
        return result->mem_mhz;
    case TIME:
        return result->time_ms;
    case TIME_SD:
        return result->time_sd_ms;
    case POWER:
        return result->power_w;
    case POWER_SD:
        return result->power_sd_w;
    case ENERGY:
        return result->energy_j;
    case WINDOW:
        return result->window_s;
    case TEMPERATURE:
        return result->temperature_c;
    case BEGIN:
        return row->begin_s;
    default:
        return NAN;
    }
}

static const char *sweep_table_source_of(const struct lull_sweep_result *result)
{
    if (isnan(result->power_w))
        return "";
    return result->is_counted ? "counter" : "power";
}

static int write_cell(const struct lull_sweep_row *row, uint32_t field, char *text, size_t size)
{
    char marks[96];

    switch (field) {
    case GPU:
        return snprintf(text, size, "%s", row->gpu);
    case UNIT:
        return snprintf(text, size, "%s", row->unit);
    case SUITE:
        return snprintf(text, size, "%s", row->suite);
    case KERNEL:
        return snprintf(text, size, "%s", row->kernel);
    case ARG:
        return snprintf(text, size, "%s", row->arg);
    case LAUNCHES:
        return snprintf(text, size, "%" PRIu64, row->result.launches);
    case SOURCE:
        return snprintf(text, size, "%s", sweep_table_source_of(&row->result));
    case REASONS:
        return snprintf(text, size, "%" PRIu64, row->result.reasons);
    case REPEAT:
        return snprintf(text, size, "%" PRIu32, row->repeat);
    case ORDER:
        return snprintf(text, size, "%" PRIu64, row->order);
    case VALID:
        return snprintf(text, size, "%d", row->result.marks == 0);
    case INVALID_REASON:
        lull_sweep_marks_write(row->result.marks, marks, sizeof(marks));
        return snprintf(text, size, "%s", marks);
    default:
        return write_number(text, size, sweep_table_number_of(row, field));
    }
}

size_t lull_sweep_row_write(const struct lull_sweep_row *row, char line_out[LULL_SWEEP_LINE])
{
    size_t used = 0;

    for (uint32_t i = 0; i < WRITTEN; i++) {
        if (i > 0)
            line_out[used++] = ',';
        /* Names are LULL_SWEEP_NAME and numbers 24 bytes at most: a line always has room. */
        used += (size_t)write_cell(row, written[i].field, line_out + used, LULL_SWEEP_LINE - used);
        assert(used + 2 < LULL_SWEEP_LINE);
    }
    line_out[used++] = '\n';
    line_out[used] = '\0';
    return used;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Numbers of a row: the range of each, and whether its cell may be blank because it was not
 * measured. */
static const struct {
    uint32_t field;
    double least;
    double most;
    bool may_be_blank;
    size_t offset;
} numbers[] = {
#define RESULT(member) offsetof(struct lull_sweep_row, result.member)
    {SM_SET, 1.0, 1e6, false, offsetof(struct lull_sweep_row, sm_set_mhz)},
    {MEM_SET, 1.0, 1e6, false, offsetof(struct lull_sweep_row, mem_set_mhz)},
    {LIMIT_SET, 1e-3, 1e6, true, offsetof(struct lull_sweep_row, limit_set_w)},
    {SM, 0.0, 1e6, true, RESULT(sm_mhz)},
    {SM_MIN, 0.0, 1e6, true, RESULT(sm_min_mhz)},
    {SM_MAX, 0.0, 1e6, true, RESULT(sm_max_mhz)},
    {MEM, 0.0, 1e6, true, RESULT(mem_mhz)},
    {TIME, 1e-6, 1e9, false, RESULT(time_ms)},
    {TIME_SD, 0.0, 1e9, true, RESULT(time_sd_ms)},
    {POWER, 1e-3, 1e6, true, RESULT(power_w)},
    {POWER_SD, 0.0, 1e6, true, RESULT(power_sd_w)},
    {ENERGY, 1e-6, 1e12, true, RESULT(energy_j)},
    {WINDOW, 1e-6, 1e9, true, RESULT(window_s)},
    {TEMPERATURE, -100.0, 1000.0, true, RESULT(temperature_c)},
    {BEGIN, 0.0, 1e9, false, offsetof(struct lull_sweep_row, begin_s)},
#undef RESULT
};

static int sweep_table_read_numbers(const struct lull_columns *columns, struct lull_sweep_row *row,
                                    struct lull_error *err)
{
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        double value = NAN;
        int rc = 0;

        if (lull_columns_is_filled(columns, numbers[i].field))
            rc = lull_columns_real(columns, numbers[i].field, numbers[i].least, numbers[i].most,
                                   "out of range; leave it blank where it was not measured", &value,
                                   err);
        else if (!numbers[i].may_be_blank)
            rc = lull_columns_refuse(columns, numbers[i].field, "is blank", err);
        if (rc < 0)
            return rc;
        memcpy((char *)row + numbers[i].offset, &value, sizeof(value));
    }
    return 0;
}

static int sweep_table_read_names(const struct lull_columns *columns, struct lull_sweep_row *row,
                                  struct lull_error *err)
{
    int rc = lull_columns_name(columns, GPU, row->gpu, sizeof(row->gpu), err);

    if (rc == 0)
        rc = lull_columns_name(columns, UNIT, row->unit, sizeof(row->unit), err);
    if (rc == 0)
        rc = lull_columns_name(columns, SUITE, row->suite, sizeof(row->suite), err);
    if (rc == 0)
        rc = lull_columns_name(columns, KERNEL, row->kernel, sizeof(row->kernel), err);
    if (rc == 0 && lull_columns_is_filled(columns, ARG))
        rc = lull_columns_name(columns, ARG, row->arg, sizeof(row->arg), err);
    return rc;
}

static int sweep_table_read_counts(const struct lull_columns *columns, struct lull_sweep_row *row,
                                   struct lull_error *err)
{
    int64_t launches = 0, order = 0, repeat = 0, reasons = 0;
    int rc = lull_columns_integer(columns, LAUNCHES, 1, INT64_MAX, "not a number of launches",
                                  &launches, err);

    if (rc == 0 && lull_columns_is_filled(columns, REASONS))
        rc = lull_columns_integer(columns, REASONS, 0, INT64_MAX, "not a number of bits", &reasons,
                                  err);
    if (rc == 0)
        rc = lull_columns_integer(columns, REPEAT, 0, INT32_MAX, "not a number of a repeat",
                                  &repeat, err);
    if (rc == 0)
        rc = lull_columns_integer(columns, ORDER, 0, INT64_MAX, "not a place in the order", &order,
                                  err);
    if (rc < 0)
        return rc;
    row->result.launches = (uint64_t)launches;
    row->result.reasons = (uint64_t)reasons;
    row->repeat = (uint32_t)repeat;
    row->order = (uint64_t)order;
    return 0;
}

static int sweep_table_read_source(const struct lull_columns *columns, struct lull_sweep_row *row,
                                   struct lull_error *err)
{
    const char *const source = columns->cells[SOURCE];

    row->result.is_counted = strcmp(source, "counter") == 0;
    if (!row->result.is_counted && strcmp(source, "power") != 0 && *source != '\0')
        return lull_columns_refuse(columns, SOURCE, "neither counter nor power nor blank", err);
    return 0;
}

/* The bit of a mark of `length` characters; 0: there is no such mark. */
static uint32_t find_mark(const char *name, size_t length)
{
    for (uint32_t i = 0; i < LULL_SWEEP_MARKS; i++)
        if (strlen(mark_names[i]) == length && strncmp(mark_names[i], name, length) == 0)
            return UINT32_C(1) << i;
    return 0;
}

static int read_marks(const struct lull_columns *columns, struct lull_sweep_row *row,
                      struct lull_error *err)
{
    const char *at = columns->cells[INVALID_REASON];
    int64_t is_valid;
    int rc = lull_columns_integer(columns, VALID, 0, 1, "not 0 or 1", &is_valid, err);

    if (rc < 0)
        return rc;
    while (*at != '\0') {
        const size_t length = strcspn(at, "+");
        const uint32_t mark = find_mark(at, length);

        if (mark == 0)
            return lull_columns_refuse(columns, INVALID_REASON,
                                       "not reasons of lull-sweep(1) with + between them", err);
        row->result.marks |= mark;
        at += length;
        at += *at == '+';
    }
    if (is_valid == (row->result.marks != 0))
        return lull_columns_refuse(columns, INVALID_REASON,
                                   "a row has a reason if and only if it is not valid", err);
    return 0;
}

static int sweep_table_add_row(const struct lull_columns *columns, void *context,
                               struct lull_error *err)
{
    struct lull_sweep_table *const table = context;
    struct lull_sweep_row row = {.repeat = 0};
    int rc;

    if (table->count == LULL_SWEEP_ROWS_MAX)
        return lull_columns_refuse(columns, GPU, "there are more than 1048576 rows", err);
    rc = sweep_table_read_names(columns, &row, err);
    if (rc == 0)
        rc = sweep_table_read_numbers(columns, &row, err);
    if (rc == 0)
        rc = sweep_table_read_counts(columns, &row, err);
    if (rc == 0)
        rc = sweep_table_read_source(columns, &row, err);
    if (rc == 0)
        rc = read_marks(columns, &row, err);
    if (rc < 0)
        return rc;
    return lull_trace_append(&table->rows, &table->count, &row, sizeof(row), columns->name, err);
}

int lull_sweep_table_read(const char *path, struct lull_sweep_table *table_out,
                          struct lull_error *err)
{
    struct lull_column known[FIELDS + 1];
    const struct lull_table columns = {known, (UINT32_C(1) << FIELDS) - 1, "lull-sweep(1)", NULL,
                                       sweep_table_add_row};
    uint32_t count = 0;
    int rc;

    for (uint32_t i = 0; i < WRITTEN; i++)
        if (written[i].field != FIELDS)
            known[count++] = (struct lull_column){written[i].name, written[i].field, 0};
    known[count] = (struct lull_column){NULL, 0, 0};
    *table_out = (struct lull_sweep_table){NULL, 0};
    rc = lull_columns_read(path, &columns, table_out, err);
    if (rc < 0)
        lull_sweep_table_fini(table_out);
    return rc;
}

void lull_sweep_table_fini(struct lull_sweep_table *table)
{
    free(table->rows);
    *table = (struct lull_sweep_table){NULL, 0};
}
