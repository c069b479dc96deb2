/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_jobs.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "trace/cluster_jobs_reading.h"
#include "trace/string_set.h"

enum { GPUS_MAX = 1 << 20, WHOLE_MILLI = 1000, MEMORY_MAX_MIB = 1 << 30 };

/* The unit of a time is seconds. */
static const struct lull_column known[] = {
    {"job_id", ID, 0},
    {"pod", ID, 0},
    {"submit_s", SUBMIT, 1},
    {"submit_min", SUBMIT, 60},
    {"creation_s", SUBMIT, 1},
    {"num_gpus", GPUS, 0},
    {"num_gpu", GPUS, 0},
    {"nworkers", GPUS, 0},
    {"gpu_milli", GPU_MILLI, 0},
    {"gpu_spec", GPU_MODELS, 0},
    {"duration_s", DURATION, 1},
    {"duration_min", DURATION, 60},
    {"duration_v100_s", DURATION, 1},
    {"scheduled_s", SCHEDULED, 1},
    {"deletion_s", DELETED, 1},
    {"deadline_s", DEADLINE, 1},
    {"deadlines_min", DEADLINES, 60},
    {"values", VALUES, 0},
    {"value_j", VALUE, 0},
    {"vc", VC, 0},
    {"model", MODEL, 0},
    {"job_type", MODEL, 0},
    {"workload", WORKLOAD, 0},
    {"weight", WEIGHT, 0},
    {"gpu_memory_mib", MEMORY, 0},
    {"preemptible", PREEMPTIBLE, 0},
    {"least_gpus", LEAST_GPUS, 0},
    {"most_gpus", MOST_GPUS, 0},
    {NULL, 0, 0},
};

static int check_header(const struct lull_reading *reading)
{
    const bool has_both = has(reading, SCHEDULED) && has(reading, DELETED);
    int rc = lull_columns_need(&reading->columns, SUBMIT, reading->err);

    if (rc == 0)
        rc = lull_columns_need(&reading->columns, GPUS, reading->err);
    if (rc == 0 && !has_both)
        rc = lull_columns_need(&reading->columns, DURATION, reading->err);
    if (rc == 0 && has(reading, VALUES))
        rc = lull_columns_need(&reading->columns, DEADLINES, reading->err);
    if (rc == 0 && has(reading, DEADLINE) && has(reading, DEADLINES))
        rc = lull_error_set(reading->err, LULL_E_FORMAT,
                            "%s: line 1, deadlines_min: another column says the same",
                            reading->columns.name);
    return rc;
}

/* ---- times -------------------------------------------------------------------------------- */

/* 0 where the job has none. */
static int read_duration(const struct lull_reading *reading, int64_t *duration_ns_out)
{
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int rc;

    *duration_ns_out = 0;
    if (has(reading, DURATION))
        return is_filled(reading, DURATION)
                   ? lull_cluster_jobs_read_time(reading, DURATION, duration_ns_out)
                   : 0;
    if (!is_filled(reading, SCHEDULED) || !is_filled(reading, DELETED))
        return 0;
    rc = lull_cluster_jobs_read_time(reading, SCHEDULED, &from_ns);
    if (rc == 0)
        rc = lull_cluster_jobs_read_time(reading, DELETED, &to_ns);
    if (rc == 0 && to_ns < from_ns)
        return refuse(reading, DELETED, "before scheduled_s");
    *duration_ns_out = to_ns - from_ns;
    return rc;
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Where an empty cell is no name. */
static bool is_optional(enum lull_field field)
{
    return field == GPU_MODELS || field == WORKLOAD;
}

static int read_name(const struct lull_reading *reading, enum lull_field field, uint32_t *name_out)
{
    int64_t name;

    *name_out = UINT32_MAX;
    if (!has(reading, field) || (is_optional(field) && !is_filled(reading, field)))
        return 0;
    name = lull_string_set_add(reading->table->names, reading->columns.cells[field]);
    if (name < 0)
        return out_of_memory(reading);
    *name_out = (uint32_t)name;
    return 0;
}

/* A name is kept so far; half of a file's name would be another file. */
static int read_workload(const struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    if (has(reading, WORKLOAD) && strlen(reading->columns.cells[WORKLOAD]) > LULL_STRING_SET_BYTES)
        return refuse(reading, WORKLOAD, "a name of more than 255 bytes");
    return read_name(reading, WORKLOAD, &row->workload);
}

static int read_names(const struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    int rc = read_name(reading, ID, &row->id);

    if (rc == 0)
        rc = read_name(reading, VC, &row->vc);
    if (rc == 0)
        rc = read_name(reading, MODEL, &row->model);
    if (rc == 0)
        rc = read_name(reading, GPU_MODELS, &row->gpu_models);
    return rc == 0 ? read_workload(reading, row) : rc;
}

static int read_gpus(const struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    const struct lull_columns *columns = &reading->columns;
    int64_t gpus = 0;
    int64_t milli = WHOLE_MILLI;
    int rc = lull_columns_integer(columns, GPUS, 0, GPUS_MAX, "not a number of GPUs", &gpus,
                                  reading->err);

    if (rc == 0 && gpus > 0 && is_filled(reading, GPU_MILLI))
        rc = lull_columns_integer(columns, GPU_MILLI, 1, WHOLE_MILLI, "not from 1 to 1000", &milli,
                                  reading->err);
    row->gpus = (uint32_t)gpus;
    row->gpu_milli = (uint32_t)milli;
    return rc;
}

/* An empty cell leaves *value_out as it is. */
static int read_filled(const struct lull_reading *reading, enum lull_field field, int64_t min,
                       int64_t max, const char *what, int64_t *value_out)
{
    return is_filled(reading, field) ? lull_columns_integer(&reading->columns, field, min, max,
                                                            what, value_out, reading->err)
                                     : 0;
}

/* Of one that has GPUs. One end alone: the other is what it asks for. */
static int read_range(const struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    int64_t least = row->gpus;
    int64_t most = row->gpus;
    int rc = read_filled(reading, LEAST_GPUS, 1, least, "not from 1 to num_gpus", &least);

    if (rc == 0)
        rc = read_filled(reading, MOST_GPUS, most, GPUS_MAX, "below num_gpus", &most);
    row->least_gpus = least < most ? (uint32_t)least : 0;
    row->most_gpus = least < most ? (uint32_t)most : 0;
    return rc;
}

static int read_needs(const struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    int64_t memory_mib = 0;
    int64_t preemptible = -1;
    int rc = read_filled(reading, MEMORY, 0, MEMORY_MAX_MIB, "not a number of MiB", &memory_mib);

    row->weight = 1.0;
    if (rc == 0)
        rc = read_filled(reading, PREEMPTIBLE, 0, 1, "not 0 or 1", &preemptible);
    if (rc == 0 && is_filled(reading, WEIGHT))
        rc = lull_columns_real(&reading->columns, WEIGHT, 1e-6, LULL_CLUSTER_JOBS_MOST_WEIGHT,
                               "not from 0.000001 to 1000000", &row->weight, reading->err);
    row->memory_mib = (uint32_t)memory_mib;
    row->preemptible = (int32_t)preemptible;
    row->least_gpus = row->most_gpus = 0;
    return rc == 0 && row->gpus > 0 ? read_range(reading, row) : rc;
}

static int read_row(struct lull_reading *reading, struct lull_cluster_jobs_row *row)
{
    int rc = read_gpus(reading, row);

    row->line = lull_lines_number(reading->columns.lines);
    if (rc == 0)
        rc = lull_cluster_jobs_read_time(reading, SUBMIT, &row->submit_ns);
    if (rc == 0)
        rc = read_duration(reading, &row->duration_ns);
    if (rc == 0)
        rc = read_names(reading, row);
    if (rc == 0)
        rc = read_needs(reading, row);
    if (rc == 0)
        rc = lull_cluster_jobs_read_deadline(reading, row);
    return rc == 0 ? lull_cluster_jobs_read_value(reading, row) : rc;
}

static int keep(struct lull_reading *reading, const struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_jobs_table *const table = reading->table;

    table->without_gpus += row->gpus == 0;
    table->without_duration += row->gpus > 0 && row->duration_ns == 0;
    if (row->gpus == 0 || row->duration_ns == 0) {
        table->step_count -= row->step_count;
        return 0;
    }
    if (table->count == reading->room) {
        const size_t room = reading->room > 0 ? 2 * reading->room : 1024;
        struct lull_cluster_jobs_row *rows = realloc(table->rows, room * sizeof(*rows));

        if (rows == NULL)
            return out_of_memory(reading);
        table->rows = rows;
        reading->room = room;
    }
    table->fractional += row->gpu_milli < WHOLE_MILLI;
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

static int read_all(struct lull_reading *reading, struct lull_lines *lines)
{
    struct lull_cluster_jobs_row row;
    int rc = lull_columns_open(&reading->columns, known, lines, reading->err);

    if (rc == 0)
        rc = check_header(reading);
    while (rc >= 0 && (rc = lull_columns_next(&reading->columns, reading->err)) > 0) {
        rc = read_row(reading, &row);
        if (rc == 0)
            rc = keep(reading, &row);
    }
    if (rc == 0 && reading->table->count > 0)
        qsort(reading->table->rows, reading->table->count, sizeof(*reading->table->rows),
              by_submission);
    return rc;
}

int lull_cluster_jobs_read_lines(struct lull_lines *lines,
                                 struct lull_cluster_jobs_table *table_out, struct lull_error *err)
{
    struct lull_reading reading = {.table = table_out, .err = err};
    int rc;

    *table_out = (struct lull_cluster_jobs_table){.names = lull_string_set_create()};
    if (table_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for its jobs", lull_lines_name(lines));
    rc = read_all(&reading, lines);
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
    free(table->steps);
    lull_string_set_destroy(table->names);
    *table = (struct lull_cluster_jobs_table){0};
}

const char *lull_cluster_jobs_name(const struct lull_cluster_jobs_table *table, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(table->names, name);
}
