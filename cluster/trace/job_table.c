/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/job_table.h"

#include <errno.h>
#include <float.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "trace/array.h"
#include "cluster/trace/cluster_formats.h"
#include "trace/columns.h"
#include "trace/decimal.h"

enum { GPUS_MAX = 1 << 20, WHOLE_MILLI = 1000, MEMORY_MAX_MIB = 1 << 30 };

/* Stands for a duration that the table lacks. */
#define UNKNOWN_NS INT64_C(-1)

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
    MIN_GPUS,
    MAX_GPUS,
    INSTANCES,
    TRES,
    STATE
};

/* The unit of a time is seconds; that of a number of GPUs, where it may be a fraction, thousandths
 * of a GPU. Aliases are the names in published tables: Helios, Acme, Tiresias, openb and the later
 * GPU traces of Alibaba, and what sacct prints. */
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
    {"least_gpus", MIN_GPUS, 0},
    {"most_gpus", MAX_GPUS, 0},
    {"JobID", ID, 0, true},
    {"job_name", ID, 0, true},
    {"name", ID, 0, true},
    {"instance_sn", ID, 0, true},
    {"submit_time", SUBMIT, 1, true},
    {"submitted_time", SUBMIT, 1, true},
    {"Submit", SUBMIT, 1, true},
    {"creation_time", SUBMIT, 1, true},
    {"arrival_time", SUBMIT, 1, true},
    {"gpu_num", GPUS, 0, true},
    {"gpus", GPUS, 0, true},
    {"gpu_request", GPUS, WHOLE_MILLI, true},
    {"plan_gpu", GPUS, WHOLE_MILLI / 100, true}, /* percent */
    {"duration", DURATION, 1, true},
    {"run_time", DURATION, 1, true},
    {"Elapsed", DURATION, 1, true},
    {"ElapsedRaw", DURATION, 1, true},
    {"scheduled_time", SCHEDULED, 1, true},
    {"start_time", SCHEDULED, 1, true},
    {"Start", SCHEDULED, 1, true},
    {"deletion_time", DELETED, 1, true},
    {"end_time", DELETED, 1, true},
    {"End", DELETED, 1, true},
    {"Partition", VC, 0, true},
    {"organization", VC, 0, true},
    {"model_name", MODEL, 0, true},
    {"inst_num", INSTANCES, 0, true},
    {"num_inst", INSTANCES, 0, true},
    {"worker_num", INSTANCES, 0, true},
    {"AllocTRES", TRES, 0, true},
    {"ReqTRES", TRES, 0, true},
    {"State", STATE, 0, true},
    {"status", STATE, 0, true},
    {NULL, 0, 0},
};

/* A table while it is read: the columns of the current record, and where the record goes. */
struct row_reading {
    const struct lull_columns *columns;
    struct lull_job_table *table;
    struct lull_error *err;
};

static int job_table_refuse(const struct row_reading *reading, enum job_field field,
                            const char *what)
{
    return lull_columns_refuse(reading->columns, field, what, reading->err);
}

static bool job_table_has(const struct row_reading *reading, enum job_field field)
{
    return lull_columns_has(reading->columns, field);
}

static bool is_filled(const struct row_reading *reading, enum job_field field)
{
    return lull_columns_is_filled(reading->columns, field);
}

static bool has_value(const struct row_reading *reading, enum job_field field)
{
    return lull_columns_has_value(reading->columns, field);
}

static uint64_t job_table_column_bit(enum job_field field)
{
    return UINT64_C(1) << field;
}

/* GPUs and times may be given in two ways, each by one column or two; this requests one complete
 * way of each. */
static int job_table_check_header(const struct lull_columns *columns, void *context,
                                  struct lull_error *err)
{
    uint64_t needed = job_table_column_bit(SUBMIT);

    (void)context;
    if (!lull_columns_has(columns, TRES))
        needed |= job_table_column_bit(GPUS);
    if (!lull_columns_has(columns, SCHEDULED) || !lull_columns_has(columns, DELETED))
        needed |= job_table_column_bit(DURATION);
    if (lull_columns_has(columns, VALUES))
        needed |= job_table_column_bit(DEADLINES);
    if (lull_columns_has(columns, DEADLINE) && lull_columns_has(columns, DEADLINES))
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: line %zu, deadlines_min: another column has the same meaning",
                              columns->name, columns->header_line);
    return lull_columns_need(columns, needed, err);
}

/* ---- times -------------------------------------------------------------------------------- */

static int job_table_read_time(const struct row_reading *reading, enum job_field field,
                               int64_t *time_ns_out)
{
    return lull_columns_time(reading->columns, field, time_ns_out, reading->err);
}

static int read_instant(const struct row_reading *reading, enum job_field field,
                        int64_t *time_ns_out)
{
    return lull_columns_instant(reading->columns, field, time_ns_out, reading->err);
}

/* Accounting tables have rows of jobs that wait, and of jobs that still run, whose time so far is
 * not their duration. */
static bool job_table_is_over(const struct row_reading *reading)
{
    static const char *const unfinished[] = {"PENDING", "RUNNING", "SUSPENDED", "REQUEUED"};

    for (size_t i = 0;
         job_table_has(reading, STATE) && i < sizeof(unfinished) / sizeof(unfinished[0]); i++)
        if (strcasecmp(reading->columns->cells[STATE], unfinished[i]) == 0)
            return false;
    return true;
}

/* Reads the start and the end of a job's run. Published tables have rows that end before they
 * start. */
static int read_span(const struct row_reading *reading, int64_t *duration_ns)
{
    int64_t from_ns = 0;
    int64_t to_ns = 0;
    int rc = read_instant(reading, SCHEDULED, &from_ns);

    if (rc == 0)
        rc = read_instant(reading, DELETED, &to_ns);
    if (rc < 0)
        return rc;
    if (to_ns < from_ns && !reading->columns->at[DELETED]->is_alias)
        return job_table_refuse(reading, DELETED, "before scheduled_s");
    if (to_ns >= from_ns)
        *duration_ns = to_ns - from_ns;
    return 0;
}

/* Leaves UNKNOWN_NS where the job has none: also where a column states that it did not begin, or
 * has not ended. */
static int read_duration(const struct row_reading *reading, int64_t *duration_ns_out)
{
    const bool has_span = job_table_has(reading, SCHEDULED) && job_table_has(reading, DELETED);
    const bool has_ends = has_value(reading, SCHEDULED) && has_value(reading, DELETED);

    *duration_ns_out = UNKNOWN_NS;
    if (!job_table_is_over(reading) || (has_span && !has_ends))
        return 0;
    if (has_value(reading, DURATION))
        return job_table_read_time(reading, DURATION, duration_ns_out);
    return has_ends ? read_span(reading, duration_ns_out) : 0;
}

/* ---- deadlines and their values ----------------------------------------------------------- */

/* Parses a list like 299-319-379, rising, of times after submission, into steps of value 1.
 * Returns null, or an error text for the user. */
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
static const char *job_table_parse_values(const char *text, struct lull_cluster_step *steps,
                                          uint32_t count)
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
static int job_table_append_steps(const struct row_reading *reading,
                                  const struct lull_cluster_step *steps, uint32_t count,
                                  struct lull_job_table_row *row)
{
    struct lull_job_table *const table = reading->table;

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

static int read_deadlines(const struct row_reading *reading, struct lull_job_table_row *row)
{
    const struct lull_columns *const columns = reading->columns;
    struct lull_cluster_step steps[LULL_CLUSTER_STEPS_MAX];
    uint32_t count = 0;
    const char *wrong = parse_steps(columns->cells[DEADLINES], columns->at[DEADLINES]->unit,
                                    row->submit_ns, steps, &count);

    if (wrong != NULL)
        return job_table_refuse(reading, DEADLINES, wrong);
    if (is_filled(reading, VALUES))
        wrong = job_table_parse_values(columns->cells[VALUES], steps, count);
    if (wrong != NULL)
        return job_table_refuse(reading, VALUES, wrong);
    return job_table_append_steps(reading, steps, count, row);
}

/* A single deadline is a list of one step that is worth 1. */
static int job_table_read_deadline(const struct row_reading *reading,
                                   struct lull_job_table_row *row)
{
    struct lull_cluster_step step = {.value = 1.0};
    int rc;

    row->deadline_ns = LULL_JOB_TABLE_NO_DEADLINE;
    row->first_step = row->step_count = 0;
    if (is_filled(reading, DEADLINES))
        return read_deadlines(reading, row);
    if (!has_value(reading, DEADLINE))
        return 0;
    rc = read_instant(reading, DEADLINE, &step.deadline_ns);
    if (rc < 0)
        return rc;
    if (step.deadline_ns < row->submit_ns)
        return job_table_refuse(reading, DEADLINE, "before the job's submission");
    return job_table_append_steps(reading, &step, 1, row);
}

/* ---- rows --------------------------------------------------------------------------------- */

/* Reads a name. An empty cell is one, too, but not of GPU models or of a workload. */
static int job_table_read_name(const struct row_reading *reading, enum job_field field,
                               uint32_t *name_out)
{
    const bool can_be_empty = field != GPU_MODELS && field != WORKLOAD;

    *name_out = UINT32_MAX;
    if (!job_table_has(reading, field) || (!can_be_empty && !is_filled(reading, field)))
        return 0;
    /* The set keeps that many bytes, and a part of a file's name would be another file. */
    if (field == WORKLOAD && strlen(reading->columns->cells[field]) > LULL_STRING_SET_BYTES)
        return job_table_refuse(reading, WORKLOAD, "a name of more than 255 bytes");
    return lull_string_set_add(reading->table->names, reading->columns->cells[field], name_out,
                               reading->columns->name, reading->err);
}

static int job_table_read_names(const struct row_reading *reading, struct lull_job_table_row *row)
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
        const int rc = job_table_read_name(reading, names[i].field, names[i].name);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int job_table_read_integer(const struct row_reading *reading, enum job_field field,
                                  int64_t min, int64_t max, const char *what, int64_t *value_out)
{
    return lull_columns_integer(reading->columns, field, min, max, what, value_out, reading->err);
}

/* Leaves *value_out as it is where the cell is empty. */
static int read_filled(const struct row_reading *reading, enum job_field field, int64_t min,
                       int64_t max, const char *what, int64_t *value_out)
{
    if (!has_value(reading, field))
        return 0;
    return job_table_read_integer(reading, field, min, max, what, value_out);
}

/* Finds the GPUs in what Slurm has allocated, such as "cpu=4,gres/gpu:a100=2,gres/gpu=4". Entries
 * of one type are part of the one without, where there is one. */
static int read_tres(const struct row_reading *reading, int64_t *gpus_out)
{
    static const char word[] = "gres/gpu";
    const char *at = reading->columns->cells[TRES];
    int64_t all = -1;
    int64_t typed = 0;

    while (*at != '\0') {
        const size_t length = strcspn(at, ",");
        const char *const sign = memchr(at, '=', length);
        int64_t count = 0;

        if (length > strlen(word) && strncmp(at, word, strlen(word)) == 0 && sign != NULL &&
            (at[strlen(word)] == ':' || at[strlen(word)] == '=')) {
            if (lull_decimal_parse(sign + 1, length - (size_t)(sign + 1 - at), 0, &count) < 0 ||
                count < 0 || count > GPUS_MAX)
                return job_table_refuse(reading, TRES, "not a number of GPUs");
            if (at[strlen(word)] == '=')
                all = count;
            else
                typed += count;
        }
        at += length + (at[length] == ',');
    }
    *gpus_out = all >= 0 ? all : typed;
    return *gpus_out <= GPUS_MAX ? 0 : job_table_refuse(reading, TRES, "not a number of GPUs");
}

/* Reads a number of GPUs that may be a share of one, in thousandths. */
static int read_shared_gpus(const struct row_reading *reading, int64_t *gpus_out,
                            int64_t *milli_out)
{
    enum { PLACES = 3 };
    int64_t milli = 0;
    static const struct lull_columns_range range = {
        PLACES, 0, (int64_t)GPUS_MAX * WHOLE_MILLI * PLACES, "not a number of GPUs"};
    int rc = lull_columns_decimal(reading->columns, GPUS, &range, &milli, reading->err);

    if (rc < 0)
        return rc;
    milli = milli * reading->columns->at[GPUS]->unit / WHOLE_MILLI;
    if (milli % WHOLE_MILLI != 0 && milli > WHOLE_MILLI)
        return job_table_refuse(reading, GPUS, "neither whole GPUs nor a share of one");
    *gpus_out = (milli + WHOLE_MILLI - 1) / WHOLE_MILLI;
    if (milli > 0 && milli < WHOLE_MILLI)
        *milli_out = milli;
    return 0;
}

/* Reads how many GPUs each instance of a job has. A blank means none. */
static int read_instance_gpus(const struct row_reading *reading, int64_t *gpus, int64_t *milli)
{
    int rc;

    if (!has_value(reading, GPUS))
        return has_value(reading, TRES) ? read_tres(reading, gpus) : 0;
    if (reading->columns->at[GPUS]->unit > 0)
        return read_shared_gpus(reading, gpus, milli);
    rc = job_table_read_integer(reading, GPUS, 0, GPUS_MAX, "not a number of GPUs", gpus);
    if (rc == 0 && *gpus > 0)
        rc = read_filled(reading, GPU_MILLI, 1, WHOLE_MILLI, "not from 1 to 1000", milli);
    return rc;
}

static int job_table_read_gpus(const struct row_reading *reading, struct lull_job_table_row *row)
{
    int64_t gpus = 0;
    int64_t milli = WHOLE_MILLI;
    int64_t instances = 1;
    int rc = read_instance_gpus(reading, &gpus, &milli);

    if (rc == 0)
        rc = read_filled(reading, INSTANCES, 0, GPUS_MAX, "not a number of instances", &instances);
    if (rc < 0)
        return rc;
    if (gpus * instances > GPUS_MAX)
        return job_table_refuse(reading, INSTANCES, "more than 2^20 GPUs");
    row->gpus = (uint32_t)(gpus * instances);
    row->gpu_milli = (uint32_t)milli;
    return 0;
}

/* Reads the range of GPUs of a job that has GPUs. If the table gives only one end, the other is
 * the job's request. */
static int read_range(const struct row_reading *reading, struct lull_job_table_row *row)
{
    int64_t least = row->gpus;
    int64_t most = row->gpus;
    int rc = read_filled(reading, MIN_GPUS, 1, least, "not from 1 to num_gpus", &least);

    if (rc < 0)
        return rc;
    rc = read_filled(reading, MAX_GPUS, most, GPUS_MAX, "below num_gpus", &most);
    if (rc < 0)
        return rc;
    if (least < most) {
        row->min_gpus = (uint32_t)least;
        row->max_gpus = (uint32_t)most;
    }
    return 0;
}

static int read_needs(const struct row_reading *reading, struct lull_job_table_row *row)
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
        rc = lull_columns_real(reading->columns, WEIGHT, 1e-6, LULL_JOB_TABLE_MAX_WEIGHT,
                               "not from 0.000001 to 1000000", &row->weight, reading->err);
    if (rc < 0)
        return rc;
    row->memory_mib = (uint32_t)memory_mib;
    row->preemptible = (int32_t)preemptible;
    row->min_gpus = row->max_gpus = 0;
    return row->gpus > 0 ? read_range(reading, row) : 0;
}

static int job_table_read_value(const struct row_reading *reading, struct lull_job_table_row *row)
{
    row->value_j = 0.0;
    if (!is_filled(reading, VALUE))
        return 0;
    return lull_columns_real(reading->columns, VALUE, DBL_MIN, LULL_JOB_TABLE_MAX_VALUE_J,
                             "not above 0 and at most 1e15 J; empty: the job has to run",
                             &row->value_j, reading->err);
}

static int read_times(const struct row_reading *reading, struct lull_job_table_row *row)
{
    int rc = 0;

    row->submit_ns = UNKNOWN_NS;
    if (has_value(reading, SUBMIT))
        rc = read_instant(reading, SUBMIT, &row->submit_ns);
    return rc < 0 ? rc : read_duration(reading, &row->duration_ns);
}

static int job_table_read_row(const struct row_reading *reading, struct lull_job_table_row *row)
{
    static int (*const parts[])(const struct row_reading *, struct lull_job_table_row *) = {
        job_table_read_gpus,     read_times,          job_table_read_names, read_needs,
        job_table_read_deadline, job_table_read_value};

    row->line = reading->columns->line_of[SUBMIT];
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        const int rc = parts[i](reading, row);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A row of sacct for a step, such as 7.batch, repeats the job's own row. */
static bool job_table_is_step(const struct row_reading *reading)
{
    return job_table_has(reading, TRES) && job_table_has(reading, ID) &&
           strchr(reading->columns->cells[ID], '.') != NULL;
}

static int job_table_add_row(const struct lull_columns *columns, void *context,
                             struct lull_error *err)
{
    struct lull_job_table *const table = context;
    const struct row_reading reading = {columns, table, err};
    struct lull_job_table_row row;
    int rc;

    if (job_table_is_step(&reading)) {
        table->job_steps++;
        return 0;
    }
    rc = job_table_read_row(&reading, &row);
    return rc < 0 ? rc : lull_job_table_add(table, &row, columns->name, err);
}

static int by_submission(const void *a, const void *b)
{
    const struct lull_job_table_row *left = a;
    const struct lull_job_table_row *right = b;

    if (left->submit_ns != right->submit_ns)
        return left->submit_ns < right->submit_ns ? -1 : 1;
    return (left->line > right->line) - (left->line < right->line);
}

/* Times are counted from the first submission later on, as far as ns reach. */
static int check_span(const struct lull_job_table *table, const char *path, struct lull_error *err)
{
    const struct lull_job_table_row *const last = &table->rows[table->count - 1];

    if (last->submit_ns - table->rows[0].submit_ns <= LULL_JOB_TABLE_MAX_SPAN_NS)
        return 0;
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: line %zu: submitted over 30 years after the job of line %zu; one of "
                          "the two times is wrong",
                          path, last->line, table->rows[0].line);
}

/* Reads files that are not JSON. The first non-empty line identifies the format. */
static int job_table_read_lines(struct lull_lines *lines, struct lull_job_table *table,
                                struct lull_error *err)
{
    static const struct lull_table jobs = {known, 0, "lull-simulate(1)", job_table_check_header,
                                           job_table_add_row};
    enum lull_cluster_format format = LULL_CLUSTER_TABLE;
    char *line = NULL;
    int rc;

    do {
        rc = lull_lines_next(lines, &line, err);
    } while (rc > 0 && line[0] == '\0');
    if (rc < 0)
        return rc;
    if (rc > 0) {
        format = lull_cluster_format_of_line(line);
        lull_lines_back(lines);
    }
    if (format == LULL_CLUSTER_SWF)
        return lull_cluster_swf_read(lines, table, err);
    if (format == LULL_CLUSTER_GAVEL)
        return lull_cluster_gavel_read(lines, table, err);
    return lull_columns_read_lines(lines, &jobs, table, err);
}

/* Reads a file of any format. Standard input can be opened only once, so the format is detected
 * from its first bytes before it is read. */
static int read_any(const char *path, struct lull_job_table *table, struct lull_error *err)
{
    struct lull_source *source = NULL;
    struct lull_lines *lines = NULL;
    const char *head = NULL;
    ssize_t size;
    int rc = lull_source_open(path, &source, err);

    if (rc < 0)
        return rc;
    size = lull_source_peek(source, &head, err);
    if (size < 0) {
        rc = (int)size;
    } else if (lull_cluster_format_of_head(head, (size_t)size) == LULL_CLUSTER_PHILLY) {
        rc = lull_cluster_philly_read(source, path, table, err);
    } else {
        rc = lull_lines_wrap(source, path, &lines, err);
        if (rc < 0)
            return rc;
        rc = job_table_read_lines(lines, table, err);
        lull_lines_close(lines);
        return rc;
    }
    lull_source_close(source);
    return rc;
}

int lull_job_table_read(const char *path, struct lull_job_table *table_out, struct lull_error *err)
{
    int rc;

    *table_out = (struct lull_job_table){.names = lull_string_set_create()};
    if (table_out->names == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory for its jobs", path);
    rc = read_any(path, table_out, err);
    if (rc >= 0 && table_out->count > 0) {
        qsort(table_out->rows, table_out->count, sizeof(*table_out->rows), by_submission);
        rc = check_span(table_out, path, err);
    }
    if (rc < 0)
        lull_job_table_fini(table_out);
    return rc < 0 ? rc : 0;
}

void lull_job_table_fini(struct lull_job_table *table)
{
    free(table->rows);
    free(table->steps);
    lull_string_set_destroy(table->names);
    *table = (struct lull_job_table){0};
}

const char *lull_job_table_name(const struct lull_job_table *table, uint32_t name)
{
    return name == UINT32_MAX ? "" : lull_string_set_get(table->names, name);
}
