/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/cluster_jobs.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/columns.h"
#include "trace/decimal.h"

enum { GPUS_MAX = 1 << 20, WHOLE_MILLI = 1000, MEMORY_MAX_MIB = 1 << 30 };

enum job_field {
    ID,
    SUBMIT,
    GPUS,
    GPU_MILLI,
    GPU_MODELS,
    DURATION,
    SCHEDULED,
    DELETED,
    DEADLINE,
    DEADLINES,
    VALUES,
    VALUE,
    VC,
    MODEL,
    WORKLOAD,
    WEIGHT,
    MEMORY,
    PREEMPTIBLE,
    LEAST_GPUS,
    MOST_GPUS
};

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

/* A table while it is read: the columns of the current record, and where the record goes. */
struct row_reading {
    const struct lull_columns *columns;
    struct lull_cluster_jobs_table *table;
    struct lull_error *err;
};

static int refuse(const struct row_reading *reading, enum job_field field, const char *what)
{
    return lull_columns_refuse(reading->columns, field, what, reading->err);
}

static bool has(const struct row_reading *reading, enum job_field field)
{
    return lull_columns_has(reading->columns, field);
}

static bool is_filled(const struct row_reading *reading, enum job_field field)
{
    return lull_columns_is_filled(reading->columns, field);
}

/* Times may be given in two ways, each by one column or two; this asks for one complete way. */
static int check_header(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    (void)context;
    if (lull_columns_has(columns, DEADLINE) && lull_columns_has(columns, DEADLINES))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line 1, deadlines_min: another column says the same",
                              columns->name);
    if (lull_columns_has(columns, VALUES) && !lull_columns_has(columns, DEADLINES))
        return lull_columns_need(columns, DEADLINES, err);
    if (lull_columns_has(columns, SCHEDULED) && lull_columns_has(columns, DELETED))
        return 0;
    return lull_columns_need(columns, DURATION, err);
}

/* ---- times -------------------------------------------------------------------------------- */

static int read_time(const struct row_reading *reading, enum job_field field, int64_t *time_ns_out)
{
    return lull_columns_time(reading->columns, field, time_ns_out, reading->err);
}

/* Leaves 0 where the job has none. */
static int read_duration(const struct row_reading *reading, int64_t *duration_ns_out)
{
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int rc;

    *duration_ns_out = 0;
    if (is_filled(reading, DURATION))
        return read_time(reading, DURATION, duration_ns_out);
    if (has(reading, DURATION) || !is_filled(reading, SCHEDULED) || !is_filled(reading, DELETED))
        return 0;
    rc = read_time(reading, SCHEDULED, &from_ns);
    if (rc < 0)
        return rc;
    rc = read_time(reading, DELETED, &to_ns);
    if (rc < 0)
        return rc;
    if (to_ns < from_ns)
        return refuse(reading, DELETED, "before scheduled_s");
    *duration_ns_out = to_ns - from_ns;
    return 0;
}

/* ---- deadlines, and what meeting them is worth -------------------------------------------- */

/* Parses a list like 299-319-379, rising, of times after submission, into steps of value 1. Returns
 * null, or in the user's words what is wrong. */
static const char *parse_steps(const char *text, int64_t unit_s, int64_t submit_ns,
                               struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX],
                               uint32_t *count_out)
{
    int64_t before_ns = 0;
    uint32_t count = 0;

    for (bool is_last = false; !is_last; count++) {
        const size_t length = strcspn(text, "-");
        int64_t time_ns = 0;
        const char *wrong;

        if (count == LULL_CLUSTER_STEPS_MAX)
            return "more than 16 of them";
        wrong = lull_decimal_parse_time(text, length, unit_s, &time_ns);
        if (wrong != NULL)
            return wrong;
        if (time_ns < before_ns)
            return "before the one ahead of it";
        before_ns = time_ns;
        steps[count] = (struct lull_cluster_step){submit_ns + time_ns, 1.0};
        is_last = text[length] == '\0';
        text += length + !is_last;
    }
    *count_out = count;
    return NULL;
}

/* Parses a list like 10-8-5, falling, one for each of the steps. */
static const char *parse_values(const char *text, struct lull_cluster_step *steps, uint32_t count)
{
    enum { NANO = 9 };

    for (uint32_t i = 0; i < count; i++) {
        const size_t length = strcspn(text, "-");
        int64_t nano = 0;

        if (lull_decimal_parse(text, length, NANO, &nano) < 0 || nano < 0)
            return "no such number";
        steps[i].value = (double)nano * 1e-9;
        if (i > 0 && steps[i].value > steps[i - 1].value)
            return "worth more for being later";
        if ((text[length] == '\0') != (i + 1 == count))
            return "not as many as deadlines";
        text += length + 1;
    }
    return NULL;
}

/* All rows share one array of steps, in which a row names its own. */
static int keep_steps(const struct row_reading *reading, const struct lull_cluster_step *steps,
                      uint32_t count, struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_jobs_table *const table = reading->table;

    row->first_step = (uint32_t)table->step_count;
    row->step_count = count;
    row->deadline_ns = steps[0].deadline_ns;
    for (uint32_t i = 0; i < count; i++) {
        const int rc = lull_trace_append(&table->steps, &table->step_count, &steps[i],
                                         sizeof(steps[i]), reading->columns->name, reading->err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_deadlines(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    const struct lull_columns *const columns = reading->columns;
    struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX];
    uint32_t count = 0;
    const char *wrong = parse_steps(columns->cells[DEADLINES], columns->at[DEADLINES]->unit,
                                    row->submit_ns, steps, &count);

    if (wrong != NULL)
        return refuse(reading, DEADLINES, wrong);
    if (is_filled(reading, VALUES))
        wrong = parse_values(columns->cells[VALUES], steps, count);
    if (wrong != NULL)
        return refuse(reading, VALUES, wrong);
    return keep_steps(reading, steps, count, row);
}

/* A single deadline is a list of one step that is worth 1. */
static int read_deadline(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    struct lull_cluster_step step = {.value = 1.0};
    int rc;

    row->deadline_ns = LULL_CLUSTER_JOBS_NO_DEADLINE;
    row->first_step = row->step_count = 0;
    if (is_filled(reading, DEADLINES))
        return read_deadlines(reading, row);
    if (!is_filled(reading, DEADLINE))
        return 0;
    rc = read_time(reading, DEADLINE, &step.deadline_ns);
    if (rc < 0)
        return rc;
    if (step.deadline_ns < row->submit_ns)
        return refuse(reading, DEADLINE, "before the job's submission");
    return keep_steps(reading, &step, 1, row);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Reads a name. An empty cell is one, too, but not of GPU models or of a workload. */
static int read_name(const struct row_reading *reading, enum job_field field, uint32_t *name_out)
{
    const bool can_be_empty = field != GPU_MODELS && field != WORKLOAD;

    *name_out = UINT32_MAX;
    if (!has(reading, field) || (!can_be_empty && !is_filled(reading, field)))
        return 0;
    /* The set keeps that many bytes, and a part of a file's name would be another file. */
    if (field == WORKLOAD && strlen(reading->columns->cells[field]) > LULL_STRING_SET_BYTES)
        return refuse(reading, WORKLOAD, "a name of more than 255 bytes");
    return lull_string_set_add(reading->table->names, reading->columns->cells[field], name_out,
                               reading->columns->name, reading->err);
}

static int read_names(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    const struct {
        enum job_field field;
        uint32_t *name;
    } names[] = {{ID, &row->id},
                 {VC, &row->vc},
                 {MODEL, &row->model},
                 {GPU_MODELS, &row->gpu_models},
                 {WORKLOAD, &row->workload}};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const int rc = read_name(reading, names[i].field, names[i].name);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_integer(const struct row_reading *reading, enum job_field field, int64_t min,
                        int64_t max, const char *what, int64_t *value_out)
{
    return lull_columns_integer(reading->columns, field, min, max, what, value_out, reading->err);
}

/* Leaves *value_out as it is where the cell is empty. */
static int read_filled(const struct row_reading *reading, enum job_field field, int64_t min,
                       int64_t max, const char *what, int64_t *value_out)
{
    if (!is_filled(reading, field))
        return 0;
    return read_integer(reading, field, min, max, what, value_out);
}

static int read_gpus(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    int64_t gpus = 0;
    int64_t milli = WHOLE_MILLI;
    int rc = read_integer(reading, GPUS, 0, GPUS_MAX, "not a number of GPUs", &gpus);

    if (rc < 0)
        return rc;
    if (gpus > 0)
        rc = read_filled(reading, GPU_MILLI, 1, WHOLE_MILLI, "not from 1 to 1000", &milli);
    row->gpus = (uint32_t)gpus;
    row->gpu_milli = (uint32_t)milli;
    return rc;
}

/* Reads how many GPUs a job that has some could do with. Where the table gives one end alone, the
 * other is what the job asks for. */
static int read_range(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    int64_t least = row->gpus;
    int64_t most = row->gpus;
    int rc = read_filled(reading, LEAST_GPUS, 1, least, "not from 1 to num_gpus", &least);

    if (rc < 0)
        return rc;
    rc = read_filled(reading, MOST_GPUS, most, GPUS_MAX, "below num_gpus", &most);
    if (rc < 0)
        return rc;
    if (least < most) {
        row->least_gpus = (uint32_t)least;
        row->most_gpus = (uint32_t)most;
    }
    return 0;
}

static int read_needs(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    int64_t memory_mib = 0;
    int64_t preemptible = -1;
    int rc = read_filled(reading, MEMORY, 0, MEMORY_MAX_MIB, "not a number of MiB", &memory_mib);

    if (rc < 0)
        return rc;
    rc = read_filled(reading, PREEMPTIBLE, 0, 1, "not 0 or 1", &preemptible);
    if (rc < 0)
        return rc;
    row->weight = 1.0;
    if (is_filled(reading, WEIGHT))
        rc = lull_columns_real(reading->columns, WEIGHT, 1e-6, LULL_CLUSTER_JOBS_MOST_WEIGHT,
                               "not from 0.000001 to 1000000", &row->weight, reading->err);
    if (rc < 0)
        return rc;
    row->memory_mib = (uint32_t)memory_mib;
    row->preemptible = (int32_t)preemptible;
    row->least_gpus = row->most_gpus = 0;
    return row->gpus > 0 ? read_range(reading, row) : 0;
}

static int read_value(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    row->value_j = 0.0;
    if (!is_filled(reading, VALUE))
        return 0;
    return lull_columns_real(reading->columns, VALUE, DBL_MIN, LULL_CLUSTER_JOBS_MOST_VALUE_J,
                             "not above 0 and at most 1e15 J; empty: the job has to run",
                             &row->value_j, reading->err);
}

static int read_times(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    const int rc = read_time(reading, SUBMIT, &row->submit_ns);

    return rc < 0 ? rc : read_duration(reading, &row->duration_ns);
}

static int read_row(const struct row_reading *reading, struct lull_cluster_jobs_row *row)
{
    static int (*const parts[])(const struct row_reading *, struct lull_cluster_jobs_row *) = {
        read_gpus, read_times, read_names, read_needs, read_deadline, read_value};

    row->line = lull_lines_number(reading->columns->lines);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const int rc = parts[i](reading, row);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Jobs that need no GPU or whose length is unknown cannot be simulated; they are counted, so that a
 * report can say how many were left out. */
static int add_row(const struct lull_columns *columns, void *context, struct lull_error *err)
{
    struct lull_cluster_jobs_table *const table = context;
    const struct row_reading reading = {columns, table, err};
    struct lull_cluster_jobs_row row;
    int rc = read_row(&reading, &row);

    if (rc < 0)
        return rc;
    table->without_gpus += row.gpus == 0;
    table->without_duration += row.gpus > 0 && row.duration_ns == 0;
    if (row.gpus == 0 || row.duration_ns == 0) {
        table->step_count -= row.step_count;
        return 0;
    }
    return lull_trace_append(&table->rows, &table->count, &row, sizeof(row), columns->name, err);
}

static int by_submission(const void *a, const void *b)
{
    const struct lull_cluster_jobs_row *left = a;
    const struct lull_cluster_jobs_row *right = b;

    if (left->submit_ns != right->submit_ns)
        return left->submit_ns < right->submit_ns ? -1 : 1;
    return (left->line > right->line) - (left->line < right->line);
}

int lull_cluster_jobs_read(const char *path, struct lull_cluster_jobs_table *table_out,
                           struct lull_error *err)
{
    static const struct lull_table jobs = {known, 1u << SUBMIT | 1u << GPUS, check_header, add_row};
    int rc;

    *table_out = (struct lull_cluster_jobs_table){.names = lull_string_set_create()};
    if (table_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: there is no memory for its jobs", path);
    rc = lull_columns_read(path, &jobs, table_out, err);
    if (rc < 0)
        lull_cluster_jobs_fini(table_out);
    else if (table_out->count > 0)
        qsort(table_out->rows, table_out->count, sizeof(*table_out->rows), by_submission);
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
