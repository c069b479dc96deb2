/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_jobs.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/decimal.h"
#include "trace/string_set.h"

enum { MOST_COLUMNS = 64, MOST_GPUS = 1 << 20, NANO = 9 };

/* About 30 years: no sum of two such times overflows, nor a minute's 60 seconds. */
#define MOST_NS INT64_C(1000000000000000000)

enum field { ID, SUBMIT, GPUS, DURATION, SCHEDULED, DELETED, DEADLINE, VC, MODEL, FIELDS };

struct column {
    const char *name;
    enum field field;
    int64_t unit;     /* seconds; 0: no time */
    bool is_relative; /* to the submission */
};

static const struct column known[] = {
    {"job_id", ID, 0, false},
    {"pod", ID, 0, false},
    {"submit_s", SUBMIT, 1, false},
    {"submit_min", SUBMIT, 60, false},
    {"creation_s", SUBMIT, 1, false},
    {"num_gpus", GPUS, 0, false},
    {"num_gpu", GPUS, 0, false},
    {"nworkers", GPUS, 0, false},
    {"duration_s", DURATION, 1, false},
    {"duration_min", DURATION, 60, false},
    {"duration_v100_s", DURATION, 1, false},
    {"scheduled_s", SCHEDULED, 1, false},
    {"deletion_s", DELETED, 1, false},
    {"deadline_s", DEADLINE, 1, false},
    {"deadlines_min", DEADLINE, 60, true},
    {"vc", VC, 0, false},
    {"model", MODEL, 0, false},
    {"job_type", MODEL, 0, false},
};

struct reading {
    struct lull_lines *lines;
    struct lull_cluster_jobs_table *table;
    size_t room;
    const struct column *columns[MOST_COLUMNS]; /* NULL: passed over */
    size_t column_count;
    const char *cells[FIELDS]; /* of the line at hand; NULL: no such column */
    const struct column *at[FIELDS];
};

static int refuse(const struct reading *reading, const char *column, const char *what,
                  struct lull_error *err)
{
    return lull_error_set(err, LULL_E_FORMAT, "%s: line %zu, %s: %s",
                          lull_lines_name(reading->lines), lull_lines_number(reading->lines),
                          column, what);
}

/* ---- the header --------------------------------------------------------------------------- */

static const struct column *find_column(const char *name)
{
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].name, name) == 0)
            return &known[i];
    return NULL;
}

static bool has(const struct reading *reading, enum field field)
{
    return reading->at[field] != NULL;
}

static int check_header(const struct reading *reading, struct lull_error *err)
{
    if (!has(reading, SUBMIT))
        return refuse(reading, "header", "no column submit_s, submit_min or creation_s", err);
    if (!has(reading, GPUS))
        return refuse(reading, "header", "no column num_gpus, num_gpu or nworkers", err);
    if (!has(reading, DURATION) && !(has(reading, SCHEDULED) && has(reading, DELETED)))
        return refuse(reading, "header", "no column duration_s, duration_min or duration_v100_s",
                      err);
    return 0;
}

static int read_header(struct reading *reading, struct lull_error *err)
{
    char *rest = NULL;
    const int rc = lull_lines_next(reading->lines, &rest, err);

    if (rc < 0)
        return rc;
    if (rc == 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: is empty", lull_lines_name(reading->lines));
    while (rest != NULL) {
        const struct column *column = find_column(lull_lines_cell(&rest));

        if (reading->column_count == MOST_COLUMNS)
            return refuse(reading, "header", "more than 64 columns", err);
        if (column != NULL && has(reading, column->field))
            return refuse(reading, column->name, "another column says the same", err);
        if (column != NULL)
            reading->at[column->field] = column;
        reading->columns[reading->column_count++] = column;
    }
    return check_header(reading, err);
}

/* ---- a line ------------------------------------------------------------------------------- */

static int read_cells(struct reading *reading, char *line, struct lull_error *err)
{
    char *rest = line;
    size_t count = 0;

    for (; rest != NULL && count < reading->column_count; count++) {
        const char *cell = lull_lines_cell(&rest);

        if (reading->columns[count] != NULL)
            reading->cells[reading->columns[count]->field] = cell;
    }
    if (rest != NULL || count < reading->column_count)
        return refuse(reading, "cells", "not as many as the header has", err);
    return 0;
}

/* A time from a cell's first length bytes; what does not count beyond nanoseconds is rounded. */
static int read_time(const struct reading *reading, enum field field, size_t length,
                     int64_t *time_ns_out, struct lull_error *err)
{
    const struct column *column = reading->at[field];
    int64_t time_ns = 0;

    if (lull_decimal_parse(reading->cells[field], length, NANO, &time_ns) < 0)
        return refuse(reading, column->name, "no such number", err);
    if (time_ns < 0)
        return refuse(reading, column->name, "a time below 0", err);
    if (time_ns > MOST_NS / column->unit)
        return refuse(reading, column->name, "a time of over 30 years", err);
    *time_ns_out = time_ns * column->unit;
    return 0;
}

static int read_whole_time(const struct reading *reading, enum field field, int64_t *time_ns_out,
                           struct lull_error *err)
{
    return read_time(reading, field, strlen(reading->cells[field]), time_ns_out, err);
}

static bool is_empty(const struct reading *reading, enum field field)
{
    return reading->cells[field][0] == '\0';
}

/* 0 where the job has none. */
static int read_duration(const struct reading *reading, int64_t *duration_ns_out,
                         struct lull_error *err)
{
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int rc;

    *duration_ns_out = 0;
    if (has(reading, DURATION))
        return is_empty(reading, DURATION)
                   ? 0
                   : read_whole_time(reading, DURATION, duration_ns_out, err);
    if (is_empty(reading, SCHEDULED) || is_empty(reading, DELETED))
        return 0;
    rc = read_whole_time(reading, SCHEDULED, &from_ns, err);
    if (rc == 0)
        rc = read_whole_time(reading, DELETED, &to_ns, err);
    if (rc == 0 && to_ns < from_ns)
        return refuse(reading, "deletion_s", "before scheduled_s", err);
    *duration_ns_out = to_ns - from_ns;
    return rc;
}

static int read_deadline(const struct reading *reading, struct lull_cluster_jobs_row *row,
                         struct lull_error *err)
{
    int64_t deadline_ns = 0;
    size_t length;
    int rc;

    row->deadline_ns = LULL_CLUSTER_JOBS_NO_DEADLINE;
    if (!has(reading, DEADLINE) || is_empty(reading, DEADLINE))
        return 0;
    length = reading->at[DEADLINE]->is_relative ? strcspn(reading->cells[DEADLINE], "-")
                                                : strlen(reading->cells[DEADLINE]);
    rc = read_time(reading, DEADLINE, length, &deadline_ns, err);
    if (rc < 0)
        return rc;
    row->deadline_ns = deadline_ns + (reading->at[DEADLINE]->is_relative ? row->submit_ns : 0);
    if (row->deadline_ns < row->submit_ns)
        return refuse(reading, reading->at[DEADLINE]->name, "before the job's submission", err);
    return 0;
}

static int read_name(const struct reading *reading, enum field field, uint32_t *name_out)
{
    int64_t name;

    *name_out = UINT32_MAX;
    if (!has(reading, field))
        return 0;
    name = lull_string_set_add(reading->table->names, reading->cells[field]);
    if (name >= 0)
        *name_out = (uint32_t)name;
    return name < 0 ? (int)name : 0;
}

static int read_row(const struct reading *reading, struct lull_cluster_jobs_row *row,
                    struct lull_error *err)
{
    int64_t gpus = 0;
    int rc;

    row->line = lull_lines_number(reading->lines);
    if (lull_text_parse_int(reading->cells[GPUS], 0, MOST_GPUS, &gpus) < 0)
        return refuse(reading, reading->at[GPUS]->name, "not a number of GPUs", err);
    row->gpus = (uint32_t)gpus;
    rc = read_whole_time(reading, SUBMIT, &row->submit_ns, err);
    if (rc == 0)
        rc = read_duration(reading, &row->duration_ns, err);
    if (rc == 0)
        rc = read_deadline(reading, row, err);
    if (rc < 0)
        return rc;
    if (read_name(reading, ID, &row->id) < 0 || read_name(reading, VC, &row->vc) < 0 ||
        read_name(reading, MODEL, &row->model) < 0)
        return lull_error_set(err, -ENOMEM, "out of memory");
    return 0;
}

/* ---- the table ---------------------------------------------------------------------------- */

static int keep(struct reading *reading, const struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_jobs_table *const table = reading->table;

    table->without_gpus += row->gpus == 0;
    table->without_duration += row->gpus > 0 && row->duration_ns == 0;
    if (row->gpus == 0 || row->duration_ns == 0)
        return 0;
    if (table->count == reading->room) {
        const size_t room = reading->room > 0 ? 2 * reading->room : 1024;
        struct lull_cluster_jobs_row *rows = realloc(table->rows, room * sizeof(*rows));

        if (rows == NULL)
            return -ENOMEM;
        table->rows = rows;
        reading->room = room;
    }
    table->rows[table->count++] = *row;
    return 0;
}

static int by_submission(const void *a, const void *b)
{
    const struct lull_cluster_jobs_row *left = a;
    const struct lull_cluster_jobs_row *right = b;

    if (left->submit_ns != right->submit_ns)
        return left->submit_ns < right->submit_ns ? -1 : 1;
    return left->line < right->line ? -1 : left->line > right->line;
}

static int read_all(struct reading *reading, struct lull_error *err)
{
    int rc = read_header(reading, err);

    while (rc >= 0) {
        struct lull_cluster_jobs_row row;
        char *line = NULL;

        rc = lull_lines_next(reading->lines, &line, err);
        if (rc <= 0)
            break;
        rc = read_cells(reading, line, err);
        if (rc == 0)
            rc = read_row(reading, &row, err);
        if (rc == 0 && keep(reading, &row) < 0)
            rc = lull_error_set(err, -ENOMEM, "out of memory");
    }
    if (rc == 0 && reading->table->count > 0)
        qsort(reading->table->rows, reading->table->count, sizeof(*reading->table->rows),
              by_submission);
    return rc;
}

int lull_cluster_jobs_read_lines(struct lull_lines *lines,
                                 struct lull_cluster_jobs_table *table_out, struct lull_error *err)
{
    struct reading reading = {.lines = lines, .table = table_out};
    int rc;

    *table_out = (struct lull_cluster_jobs_table){.names = lull_string_set_create()};
    if (table_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    rc = read_all(&reading, err);
    if (rc < 0)
        lull_cluster_jobs_fini(table_out);
    return rc;
}

int lull_cluster_jobs_read(const char *path, struct lull_cluster_jobs_table *table_out,
                           struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int rc;

    *table_out = (struct lull_cluster_jobs_table){0};
    rc = lull_lines_open(path, &lines, err);
    if (rc < 0)
        return rc;
    rc = lull_cluster_jobs_read_lines(lines, table_out, err);
    lull_lines_close(lines);
    return rc;
}

void lull_cluster_jobs_fini(struct lull_cluster_jobs_table *table)
{
    free(table->rows);
    lull_string_set_destroy(table->names);
    *table = (struct lull_cluster_jobs_table){0};
}

const char *lull_cluster_jobs_name(const struct lull_cluster_jobs_table *table, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(table->names, name);
}
