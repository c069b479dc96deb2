/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/job_rates.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace/array.h"
#include "trace/columns.h"

enum { MAX_GPUS = 1 << 16 };

enum rate_field { GPU, CONSOLIDATED, JOB_TYPE, GPUS, RATE, FIELDS };

static const double max_rate = 1e9;

/* ---- order -------------------------------------------------------------------------------- */

static int job_rates_by_key(const void *left, const void *right)
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

/* Finds the first row that does not sort before this type of GPU and kind of job. */
static size_t job_rates_lower_bound(const struct lull_job_rates_table *table, const char *gpu,
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

static int job_rates_read_row(const struct lull_columns *columns, struct lull_job_rates_row *row,
                              struct lull_error *err)
{
    int64_t is_consolidated = 0;
    int64_t gpus = 0;
    int rc = lull_columns_name(columns, GPU, row->gpu, sizeof(row->gpu), err);

    if (rc < 0)
        return rc;
    rc = lull_columns_integer(columns, CONSOLIDATED, 0, 1, "not 0 or 1", &is_consolidated, err);
    if (rc < 0)
        return rc;
    rc = lull_columns_name(columns, JOB_TYPE, row->job_type, sizeof(row->job_type), err);
    if (rc < 0)
        return rc;
    rc = lull_columns_integer(columns, GPUS, 1, MAX_GPUS, "not a number from 1 to 65536", &gpus,
                              err);
    if (rc < 0)
        return rc;
    row->is_consolidated = is_consolidated != 0;
    row->gpus = (uint32_t)gpus;
    return lull_columns_real(columns, RATE, 0.0, max_rate, "not from 0 to 1e9", &row->rate, err);
}

static int job_rates_add_row(const struct lull_columns *columns, void *context,
                             struct lull_error *err)
{
    struct lull_job_rates_table *const table = context;
    int rc;

    if (table->count == LULL_JOB_RATES_MAX)
        return lull_columns_refuse(columns, GPU, "there are more than 65536 rows", err);
    rc = lull_trace_grow(&table->rows, table->count, sizeof(*table->rows), columns->name, err);
    if (rc < 0)
        return rc;
    rc = job_rates_read_row(columns, &table->rows[table->count], err);
    if (rc < 0)
        return rc;
    table->count++;
    return 0;
}

/* Sorted rows allow a binary search, and show rows that are there twice as neighbours. */
static int job_rates_sort_rows(const char *path, struct lull_job_rates_table *table,
                               struct lull_error *err)
{
    if (table->count == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: the table has no rates after its header",
                              path);
    qsort(table->rows, table->count, sizeof(*table->rows), job_rates_by_key);
    for (size_t i = 1; i < table->count; i++)
        if (job_rates_by_key(&table->rows[i - 1], &table->rows[i]) == 0)
            return lull_error_set(err, LULL_E_FORMAT, "%s: %s on %u %s is there twice", path,
                                  table->rows[i].job_type, table->rows[i].gpus, table->rows[i].gpu);
    return 0;
}

int lull_job_rates_read(const char *path, struct lull_job_rates_table *table_out,
                        struct lull_error *err)
{
    static const struct lull_column known[] = {
        {"gpu", GPU},       {"consolidated", CONSOLIDATED}, {"job_type", JOB_TYPE},
        {"num_gpus", GPUS}, {"iters_per_s", RATE},          {NULL},
    };
    static const struct lull_table rates = {known, (1u << FIELDS) - 1, "lull-simulate(1)", NULL,
                                            job_rates_add_row};
    int rc;

    *table_out = (struct lull_job_rates_table){0};
    rc = lull_columns_read(path, &rates, table_out, err);
    if (rc >= 0)
        rc = job_rates_sort_rows(path, table_out, err);
    if (rc < 0)
        lull_job_rates_fini(table_out);
    return rc;
}

void lull_job_rates_fini(struct lull_job_rates_table *table)
{
    free(table->rows);
    *table = (struct lull_job_rates_table){0};
}

/* ---- looking up ----------------------------------------------------------------------------- */

bool lull_job_rates_has_gpu(const struct lull_job_rates_table *table, const char *gpu)
{
    const size_t at = job_rates_lower_bound(table, gpu, "");

    return at < table->count && compare_gpu(&table->rows[at], gpu, strcspn(gpu, "-")) == 0;
}

/* Rates are kept by rising numbers of GPUs; of two for the same number the first one counts. */
static void add_rate(const struct lull_job_rates_row *row, struct lull_job_rates *rates)
{
    uint32_t at = rates->count;

    if (rates->count == LULL_JOB_MAX_RATES)
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
    for (size_t i = job_rates_lower_bound(table, gpu, job_type);
         i < table->count && compare_gpu(&table->rows[i], gpu, length) == 0 &&
         strcmp(table->rows[i].job_type, job_type) == 0;
         i++)
        if (table->rows[i].rate > 0.0 &&
            (table->rows[i].is_consolidated == is_consolidated || table->rows[i].gpus == 1))
            add_rate(&table->rows[i], rates_out);
}
