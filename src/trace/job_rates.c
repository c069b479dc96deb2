/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/job_rates.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"

#define HEADER "gpu,consolidated,job_type,num_gpus,iters_per_s"

enum { FIRST_ROOM = 512, MOST_GPUS = 1 << 16 };

static int refuse(const struct lull_lines *lines, const char *what, struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu: %s", lull_lines_name(lines),
                          lull_lines_number(lines), what);
}

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

static int read_header(struct lull_lines *lines, struct lull_error *err)
{
    char *line = NULL;
    const int rc = lull_lines_next(lines, &line, err);

    if (rc < 0)
        return rc;
    if (rc == 0 || strcmp(line, HEADER) != 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line 1 is not the header " HEADER,
                              lull_lines_name(lines));
    return 0;
}

static bool take_name(char **rest, char *name_out)
{
    const char *name = *rest != NULL ? lull_lines_cell(rest) : "";

    if (name[0] == '\0' || strlen(name) >= LULL_JOB_RATES_NAME)
        return false;
    snprintf(name_out, LULL_JOB_RATES_NAME, "%s", name);
    return true;
}

static bool take_int(char **rest, int64_t min, int64_t max, int64_t *value_out)
{
    return *rest != NULL && lull_text_parse_int(lull_lines_cell(rest), min, max, value_out) == 0;
}

static int read_row(const struct lull_lines *lines, char *line, struct lull_job_rates_row *row,
                    struct lull_error *err)
{
    char *rest = line;
    int64_t is_consolidated = 0;
    int64_t gpus = 0;

    if (!take_name(&rest, row->gpu))
        return refuse(lines, "gpu is a name of 1 to 63 bytes", err);
    if (!take_int(&rest, 0, 1, &is_consolidated))
        return refuse(lines, "consolidated is 0 or 1", err);
    if (!take_name(&rest, row->job_type))
        return refuse(lines, "job_type is a name of 1 to 63 bytes", err);
    if (!take_int(&rest, 1, MOST_GPUS, &gpus))
        return refuse(lines, "num_gpus is a whole number from 1 on", err);
    if (rest == NULL || lull_text_parse_number(lull_lines_cell(&rest), &row->rate) < 0 ||
        row->rate < 0.0)
        return refuse(lines, "iters_per_s is a number from 0 on", err);
    if (rest != NULL)
        return refuse(lines, "more than five cells", err);
    row->is_consolidated = is_consolidated != 0;
    row->gpus = (uint32_t)gpus;
    return 0;
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
    size_t room = 0;
    int rc = read_header(lines, err);

    while (rc >= 0) {
        char *line = NULL;

        rc = lull_lines_next(lines, &line, err);
        if (rc <= 0)
            break;
        if (table->count == LULL_JOB_RATES_MAX)
            return refuse(lines, "more than 65536 rows", err);
        rc = make_room(table, &room, err);
        if (rc == 0)
            rc = read_row(lines, line, &table->rows[table->count], err);
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
