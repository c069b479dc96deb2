/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/cluster_formats.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "trace/array.h"
#include "trace/decimal.h"
#include "trace/json_fields.h"
#include "trace/timestamp.h"

/* A time that the trace does not give; lull_job_table_add counts such rows. */
#define UNKNOWN_NS INT64_C(-1)

enum { NANO = 9, GPUS_MAX = 1 << 20, WHOLE_MILLI = 1000 };

int lull_job_table_add(struct lull_job_table *table, const struct lull_job_table_row *row,
                       const char *path, struct lull_error *err)
{
    if (row->gpus == 0)
        table->without_gpus++;
    else if (row->submit_ns < 0)
        table->without_submission++;
    else if (row->duration_ns < 0)
        table->without_duration++;
    else if (row->duration_ns == 0)
        table->of_no_duration++;
    else
        return lull_trace_append(&table->rows, &table->count, row, sizeof(*row), path, err);
    table->step_count -= row->step_count;
    return 0;
}

/* A row with defaults for all fields except those that every format has. */
static struct lull_job_table_row empty_row(void)
{
    return (struct lull_job_table_row){
        .vc = UINT32_MAX,
        .model = UINT32_MAX,
        .workload = UINT32_MAX,
        .gpu_models = UINT32_MAX,
        .gpu_milli = WHOLE_MILLI,
        .submit_ns = UNKNOWN_NS,
        .duration_ns = UNKNOWN_NS,
        .deadline_ns = LULL_JOB_TABLE_NO_DEADLINE,
        .weight = 1.0,
        .preemptible = -1,
    };
}

/* ---- which format ------------------------------------------------------------------------- */

enum { SWF_FIELDS = 18, GAVEL_FIELDS = 10, SHOCKWAVE_FIELDS = 12 };

enum lull_cluster_format lull_cluster_format_of_head(const char *head, size_t size)
{
    static const char mark[] = "\xef\xbb\xbf";
    size_t at = size >= 3 && memcmp(head, mark, 3) == 0 ? 3 : 0;

    while (at < size && strchr(" \t\r\n", head[at]) != NULL && head[at] != '\0')
        at++;
    if (at < size && (head[at] == '[' || head[at] == '{'))
        return LULL_CLUSTER_PHILLY;
    return LULL_CLUSTER_TABLE;
}

static bool cluster_format_is_number(const char *text, size_t length)
{
    int64_t value;

    return lull_decimal_parse(text, length, 0, &value) == 0;
}

/* Counts the numbers of a line between blanks; 0 where something else is among them. */
static uint32_t count_numbers(const char *line)
{
    uint32_t count = 0;

    for (line += strspn(line, LULL_TEXT_BLANKS); *line != '\0'; count++) {
        const size_t length = strcspn(line, LULL_TEXT_BLANKS);

        if (!cluster_format_is_number(line, length))
            return 0;
        line += length;
        line += strspn(line, LULL_TEXT_BLANKS);
    }
    return count;
}

/* Jobs of Gavel have the steps and the GPUs in the sixth and seventh field; a header has names. */
static bool is_gavel(const char *line)
{
    uint32_t fields = 1;

    for (const char *at = line; (at = strchr(at, '\t')) != NULL; at++) {
        if ((fields == 5 || fields == 6) &&
            !cluster_format_is_number(at + 1, strcspn(at + 1, "\t")))
            return false;
        fields++;
    }
    return fields == GAVEL_FIELDS || fields == SHOCKWAVE_FIELDS;
}

enum lull_cluster_format lull_cluster_format_of_line(const char *line)
{
    /* A table whose first column has no name begins with its separator. */
    if ((line[0] == ';' && strchr(line + 1, ';') == NULL) || count_numbers(line) == SWF_FIELDS)
        return LULL_CLUSTER_SWF;
    return is_gavel(line) ? LULL_CLUSTER_GAVEL : LULL_CLUSTER_TABLE;
}

/* ---- Philly ------------------------------------------------------------------------------- */

enum { WORD = 64 };

struct philly_job {
    char id[WORD];
    char vc[WORD];
    char submitted[WORD];
    uint32_t attempts;
    uint32_t gpus; /* of the attempt that has most */
    int64_t ran_ns;
    bool is_unknown; /* an attempt has no beginning or no end */
    uint32_t attempt_gpus;
    char start[WORD];
    char end[WORD];
};

static int cluster_format_read_gpus(struct lull_json_reader *reader, void *object)
{
    struct philly_job *const job = object;
    struct lull_json_text text;
    int rc = lull_json_expect(reader, LULL_JSON_ARRAY_BEGIN, "expected the GPUs, an array", &text);

    while (rc >= 0 && (rc = lull_json_next(reader->json, &text, reader->err)) >= 0) {
        if (rc == LULL_JSON_ARRAY_END)
            return 0;
        if (rc != LULL_JSON_STRING || job->attempt_gpus == GPUS_MAX)
            return lull_json_refuse(reader, "expected up to 2^20 names of GPUs");
        job->attempt_gpus++;
    }
    return rc;
}

static int read_detail(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_OTHER("gpus", cluster_format_read_gpus)}, {NULL}};

    return lull_json_read_fields(reader, fields, object);
}

static int parse_date(const struct lull_json_reader *reader, const char *text, int64_t *time_ns_out)
{
    if (lull_text_is_missing(text))
        return 0;
    if (lull_timestamp_parse(text, time_ns_out) < 0)
        return lull_json_refuse(reader, "no such date: want YYYY-MM-DD HH:MM:SS before here");
    return 0;
}

static int read_attempt(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("start_time", struct philly_job, start)},
        {LULL_JSON_TEXT("end_time", struct philly_job, end)},
        {LULL_JSON_OBJECTS("detail", read_detail)},
        {NULL},
    };
    struct philly_job *const job = object;
    int64_t from_ns = UNKNOWN_NS;
    int64_t to_ns = UNKNOWN_NS;
    int rc;

    job->start[0] = job->end[0] = '\0';
    job->attempt_gpus = 0;
    rc = lull_json_read_fields(reader, fields, object);
    if (rc == 0)
        rc = parse_date(reader, job->start, &from_ns);
    if (rc == 0)
        rc = parse_date(reader, job->end, &to_ns);
    if (rc < 0)
        return rc;
    job->attempts++;
    if (job->attempt_gpus > job->gpus)
        job->gpus = job->attempt_gpus;
    if (from_ns < 0 || to_ns < from_ns || to_ns - from_ns > LULL_JOB_TABLE_MAX_SPAN_NS ||
        job->ran_ns > LULL_JOB_TABLE_MAX_SPAN_NS)
        job->is_unknown = true;
    else
        job->ran_ns += to_ns - from_ns;
    return 0;
}

static int add_names(const struct philly_job *job, const char *path, struct lull_job_table *table,
                     struct lull_job_table_row *row, struct lull_error *err)
{
    const int rc = lull_string_set_add(table->names, job->id, &row->id, path, err);

    return rc < 0 ? rc : lull_string_set_add(table->names, job->vc, &row->vc, path, err);
}

static int cluster_format_read_job(struct lull_json_reader *reader, void *object)
{
    static const struct lull_json_field fields[] = {
        {LULL_JSON_TEXT("jobid", struct philly_job, id)},
        {LULL_JSON_TEXT("vc", struct philly_job, vc)},
        {LULL_JSON_TEXT("submitted_time", struct philly_job, submitted)},
        {LULL_JSON_OBJECTS("attempts", read_attempt)},
        {NULL},
    };
    struct lull_job_table *const table = object;
    struct lull_job_table_row row = empty_row();
    struct philly_job job = {.ran_ns = 0};
    int rc = lull_json_read_fields(reader, fields, &job);

    if (rc < 0)
        return rc;
    if (job.submitted[0] == '\0' && job.attempts == 0)
        return lull_json_refuse(reader, "a job without submitted_time and attempts: of JSON, only "
                                        "Philly's cluster_job_log is read");
    rc = parse_date(reader, job.submitted, &row.submit_ns);
    if (rc == 0)
        rc = add_names(&job, reader->name, table, &row, reader->err);
    if (rc < 0)
        return rc;
    /* The trace does not give the number of GPUs of a job that never ran. */
    row.gpus = job.attempts == 0 ? 1 : job.gpus;
    if (job.attempts > 0 && !job.is_unknown && job.ran_ns <= LULL_JOB_TABLE_MAX_SPAN_NS)
        row.duration_ns = job.ran_ns;
    row.line = ++table->read_rows;
    return lull_job_table_add(table, &row, reader->name, reader->err);
}

static ssize_t cluster_format_fill(void *context, char *buffer, size_t size, struct lull_error *err)
{
    return lull_source_read(context, buffer, size, err);
}

int lull_cluster_philly_read(struct lull_source *source, const char *path,
                             struct lull_job_table *table, struct lull_error *err)
{
    struct lull_json_reader reader = {.name = path, .err = err, .is_lenient = true};
    struct lull_json_text text;
    int rc;

    reader.json = lull_json_create(path, cluster_format_fill, source);
    if (reader.json == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    rc = lull_json_expect(&reader, LULL_JSON_ARRAY_BEGIN,
                          "of JSON, only Philly's cluster_job_log, an array of jobs, is read",
                          &text);
    if (rc >= 0)
        rc = lull_json_read_items(&reader, LULL_JSON_OBJECT_BEGIN, cluster_format_read_job, table);
    if (rc >= 0)
        rc = lull_json_expect(&reader, LULL_JSON_END, "expected nothing after the array", &text);
    lull_json_destroy(reader.json);
    return rc;
}

/* ---- SWF ---------------------------------------------------------------------------------- */

enum swf_field {
    SWF_JOB,
    SWF_SUBMIT,
    SWF_RUN = 3,
    SWF_ALLOCATED,
    SWF_REQUESTED = 7,
    SWF_QUEUE = 14,
};

/* Below 0 means unknown, whatever the number. */
static int read_swf_row(const struct lull_lines *lines, char *line, struct lull_job_table *table,
                        struct lull_job_table_row *row, struct lull_error *err)
{
    int64_t values[SWF_FIELDS] = {0};
    char queue[24];
    char *rest = line;
    char *job = NULL;
    int rc;

    for (int i = 0; i < SWF_FIELDS; i++) {
        const bool is_time = i == SWF_SUBMIT || i == SWF_RUN;
        char *const cell = rest != NULL ? lull_lines_cell_of(&rest, ' ') : NULL;

        if (cell == NULL)
            return lull_lines_refuse(lines, err, "%d of the 18 numbers of SWF", i);
        if (i == SWF_JOB)
            job = cell;
        if (lull_decimal_parse(cell, strlen(cell), is_time ? NANO : 0, &values[i]) < 0)
            return lull_lines_refuse(lines, err, "number %d of 18: not a number (found '%.40s')",
                                     i + 1, cell);
    }
    if (values[SWF_ALLOCATED] <= 0)
        values[SWF_ALLOCATED] = values[SWF_REQUESTED];
    if (values[SWF_ALLOCATED] > GPUS_MAX)
        return lull_lines_refuse(lines, err, "more than 2^20 processors");
    if (values[SWF_RUN] > LULL_JOB_TABLE_MAX_SPAN_NS)
        return lull_lines_refuse(lines, err, "a run time of over 30 years");
    row->gpus = values[SWF_ALLOCATED] > 0 ? (uint32_t)values[SWF_ALLOCATED] : 0;
    row->submit_ns = values[SWF_SUBMIT];
    row->duration_ns = values[SWF_RUN];
    rc = lull_string_set_add(table->names, job, &row->id, lull_lines_name(lines), err);
    if (rc < 0 || values[SWF_QUEUE] < 0)
        return rc;
    snprintf(queue, sizeof(queue), "%lld", (long long)values[SWF_QUEUE]);
    return lull_string_set_add(table->names, queue, &row->vc, lull_lines_name(lines), err);
}

int lull_cluster_swf_read(struct lull_lines *lines, struct lull_job_table *table,
                          struct lull_error *err)
{
    char *line = NULL;
    int rc;

    table->has_processors = true;
    while ((rc = lull_lines_next(lines, &line, err)) > 0) {
        struct lull_job_table_row row = empty_row();

        line += strspn(line, LULL_TEXT_BLANKS);
        if (line[0] == '\0' || line[0] == ';')
            continue;
        row.line = lull_lines_number(lines);
        rc = read_swf_row(lines, line, table, &row, err);
        if (rc == 0)
            rc = lull_job_table_add(table, &row, lull_lines_name(lines), err);
        if (rc < 0)
            return rc;
    }
    return rc;
}

/* ---- Gavel and Shockwave ------------------------------------------------------------------ */

enum gavel_field { GAVEL_TYPE, GAVEL_GPUS = 6, SHOCKWAVE_DURATION = 10, SHOCKWAVE_ARRIVAL };

static int read_gavel_time(const struct lull_lines *lines, const char *cell, int64_t *time_ns_out,
                           struct lull_error *err)
{
    const char *const wrong = lull_decimal_parse_time(cell, strlen(cell), 1, time_ns_out);

    if (wrong == NULL)
        return 0;
    return lull_lines_refuse(lines, err, "%s (found '%.40s')", wrong, cell);
}

static int read_gavel_row(const struct lull_lines *lines, char *line, struct lull_job_table *table,
                          struct lull_job_table_row *row, struct lull_error *err)
{
    const char *cells[SHOCKWAVE_FIELDS] = {NULL};
    char *rest = line;
    int64_t gpus = 0;
    int count = 0;
    int rc;

    while (rest != NULL && count < SHOCKWAVE_FIELDS)
        cells[count++] = lull_lines_cell_of(&rest, '\t');
    if (count == GAVEL_FIELDS)
        return lull_lines_refuse(
            lines, err,
            "a trace of Gavel has a number of steps and no duration: divide total_steps by the "
            "steps "
            "per second of its type, and write job_type, num_gpus, submit_s and duration_s");
    if (count != SHOCKWAVE_FIELDS || rest != NULL)
        return lull_lines_refuse(lines, err, "not the 12 fields of a trace of Shockwave");
    if (lull_text_parse_int(cells[GAVEL_GPUS], 0, GPUS_MAX, &gpus) < 0)
        return lull_lines_refuse(lines, err, "field 7: not a number of GPUs (found '%.40s')",
                                 cells[GAVEL_GPUS]);
    row->gpus = (uint32_t)gpus;
    rc = read_gavel_time(lines, cells[SHOCKWAVE_DURATION], &row->duration_ns, err);
    if (rc == 0)
        rc = read_gavel_time(lines, cells[SHOCKWAVE_ARRIVAL], &row->submit_ns, err);
    if (rc == 0)
        rc = lull_string_set_add(table->names, "", &row->id, lull_lines_name(lines), err);
    if (rc == 0)
        rc = lull_string_set_add(table->names, cells[GAVEL_TYPE], &row->model,
                                 lull_lines_name(lines), err);
    return rc;
}

int lull_cluster_gavel_read(struct lull_lines *lines, struct lull_job_table *table,
                            struct lull_error *err)
{
    char *line = NULL;
    int rc;

    while ((rc = lull_lines_next(lines, &line, err)) > 0) {
        struct lull_job_table_row row = empty_row();

        if (line[0] == '\0')
            continue;
        row.line = lull_lines_number(lines);
        rc = read_gavel_row(lines, line, table, &row, err);
        if (rc == 0)
            rc = lull_job_table_add(table, &row, lull_lines_name(lines), err);
        if (rc < 0)
            return rc;
    }
    return rc;
}
