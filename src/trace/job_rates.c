/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/job_rates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace/columns.h"

enum { FIRST_ROOM = 512, MOST_GPUS = 1 << 16 };

enum job_rates_field { GPU, CONSOLIDATED, JOB_TYPE, GPUS, RATE, FIELDS };

static const struct lull_column known[] = {
    {"gpu", GPU, 0},       {"consolidated", CONSOLIDATED, 0}, {"job_type", JOB_TYPE, 0},
    {"num_gpus", GPUS, 0}, {"iters_per_s", RATE, 0},          {NULL, 0, 0},
};

static const double most_rate = 1e9;

/* ---- order -------------------------------------------------------------------------------- */

static int by_key(const void *left, const void *right)
{
    const struct lull_job_rates_row *a = left;
    const struct lull_job_rates_row *b = right;
    int order = strcasecmp(a->gpu, b->gpu);

    if (order == 0)
        order = strcmp(a->job_type, b->job_type);
    if (order == 0)
        order = (int)a->is_consolidated - (int)b->is_consolidated;
    return order != 0 ? order : (a->gpus > b->gpus) - (a->gpus < b->gpus);
}

static int compare_gpu(const struct lull_job_rates_row *row, const char *gpu, size_t length)
{
    const int order = strncasecmp(row->gpu, gpu, length);

    return order != 0 ? order : row->gpu[length] != '\0';
}

/* The first row that is not below a type of GPU and a kind of job. */
static size_t lower_bound(const struct lull_job_rates_table *table, const char *gpu,
                          const char *job_type)
{
    const size_t length = strcspn(gpu, "-");
    size_t low = 0;
    size_t high = table->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        int order = compare_gpu(&table->rows[middle], gpu, length);

        if (order == 0)
            order = strcmp(table->rows[middle].job_type, job_type);
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* ---- reading ------------------------------------------------------------------------------ */

static int read_header(struct lull_columns *columns, struct lull_lines *lines,
                       struct lull_error *err)
{
    int rc = lull_columns_open(columns, known, lines, err);

    for (uint32_t field = 0; rc == 0 && field < FIELDS; field++)
        rc = lull_columns_need(columns, field, err);
    return rc;
}

static int read_name(const struct lull_columns *columns, enum job_rates_field field, char *name_out,
                     struct lull_error *err)
{
    const char *const name = columns->cells[field];

    if (name[0] == '\0' || strlen(name) >= LULL_JOB_RATES_NAME)
        return lull_columns_refuse(columns, field, "not a name of 1 to 63 bytes", err);
    snprintf(name_out, LULL_JOB_RATES_NAME, "%s", name);
    return 0;
}

static int read_row(const struct lull_columns *columns, struct lull_job_rates_row *row,
                    struct lull_error *err)
{
    int64_t is_consolidated = 0;
    int64_t gpus = 0;
    int rc = read_name(columns, GPU, row->gpu, err);

    if (rc == 0)
        rc = lull_columns_integer(columns, CONSOLIDATED, 0, 1, "not 0 or 1", &is_consolidated, err);
    if (rc == 0)
        rc = read_name(columns, JOB_TYPE, row->job_type, err);
    if (rc == 0)
        rc = lull_columns_integer(columns, GPUS, 1, MOST_GPUS, "not a number from 1 to 65536",
                                  &gpus, err);
    if (rc == 0)
        rc = lull_columns_real(columns, RATE, 0.0, most_rate, "not from 0 to 1e9", &row->rate, err);
    row->is_consolidated = is_consolidated != 0;
    row->gpus = (uint32_t)gpus;
    return rc;
}

static int make_room(struct lull_job_rates_table *table, size_t *room, struct lull_error *err)
{
    struct lull_job_rates_row *rows;

    if (table->count < *room)
        return 0;
    *room = *room > 0 ? 2 * *room : FIRST_ROOM;
    rows = realloc(table->rows, *room * sizeof(*rows));
    if (rows == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    table->rows = rows;
    return 0;
}

static int read_rows(struct lull_lines *lines, struct lull_job_rates_table *table,
                     struct lull_error *err)
{
    struct lull_columns columns;
    size_t room = 0;
    int rc = read_header(&columns, lines, err);

    while (rc >= 0 && (rc = lull_columns_next(&columns, err)) > 0) {
        if (table->count == LULL_JOB_RATES_MAX)
            return lull_columns_refuse(&columns, GPU, "more than 65536 rows", err);
        rc = make_room(table, &room, err);
        if (rc == 0)
            rc = read_row(&columns, &table->rows[table->count], err);
        table->count += rc == 0;
    }
    if (rc == 0 && table->count == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: has no rates", lull_lines_name(lines));
    return rc;
}

static int sort_rows(const struct lull_lines *lines, struct lull_job_rates_table *table,
                     struct lull_error *err)
{
    qsort(table->rows, table->count, sizeof(*table->rows), by_key);
    for (size_t i = 1; i < table->count; i++)
        if (by_key(&table->rows[i - 1], &table->rows[i]) == 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: %s on %u %s is there twice",
                                  lull_lines_name(lines), table->rows[i].job_type,
                                  table->rows[i].gpus, table->rows[i].gpu);
    return 0;
}

int lull_job_rates_read_lines(struct lull_lines *lines, struct lull_job_rates_table *table_out,
                              struct lull_error *err)
{
    int rc;

    *table_out = (struct lull_job_rates_table){0};
    rc = read_rows(lines, table_out, err);
    if (rc == 0)
        rc = sort_rows(lines, table_out, err);
    if (rc < 0)
        lull_job_rates_fini(table_out);
    return rc;
}

int lull_job_rates_read(const char *path, struct lull_job_rates_table *table_out,
                        struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc;

    *table_out = (struct lull_job_rates_table){0};
    rc = lull_lines_open(path, &lines, err);
    if (rc < 0)
        return rc;
    rc = lull_job_rates_read_lines(lines, table_out, err);
    lull_lines_close(lines);
    return rc;
}

void lull_job_rates_fini(struct lull_job_rates_table *table)
{
    free(table->rows);
    *table = (struct lull_job_rates_table){0};
}

/* ---- asking ------------------------------------------------------------------------------- */

bool lull_job_rates_has_gpu(const struct lull_job_rates_table *table, const char *gpu)
{
    const size_t at = lower_bound(table, gpu, "");

    return at < table->count && compare_gpu(&table->rows[at], gpu, strcspn(gpu, "-")) == 0;
}

static void add_rate(const struct lull_job_rates_row *row, struct lull_job_rates *rates)
{
    uint32_t at = rates->count;

    if (rates->count == LULL_JOB_MOST_RATES)
        return;
    while (at > 0 && rates->rows[at - 1].gpus >= row->gpus)
        at--;
    if (at < rates->count && rates->rows[at].gpus == row->gpus)
        return;
    memmove(&rates->rows[at + 1], &rates->rows[at], (rates->count - at) * sizeof(rates->rows[0]));
    rates->rows[at].gpus = row->gpus;
    rates->rows[at].rate = row->rate;
    rates->count++;
}

void lull_job_rates_of(const struct lull_job_rates_table *table, const char *gpu,
                       const char *job_type, bool is_consolidated, struct lull_job_rates *rates_out)
{
    const size_t length = strcspn(gpu, "-");

    rates_out->count = 0;
    for (size_t i = lower_bound(table, gpu, job_type);
         i < table->count && compare_gpu(&table->rows[i], gpu, length) == 0 &&
         strcmp(table->rows[i].job_type, job_type) == 0;
         i++)
        if (table->rows[i].rate > 0.0 &&
            (table->rows[i].is_consolidated == is_consolidated || table->rows[i].gpus == 1))
            add_rate(&table->rows[i], rates_out);
}
