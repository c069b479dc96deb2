/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/slot_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "trace/array.h"
#include "trace/json_lines.h"
#include "trace/string_set.h"

/* This is LULL_SLOTS_MAX_J as an integer, which bounds of members are. */
#define MOST_J INT64_C(1000000000000000000)

/* A file while it is read, and its current line. */
struct slot_reader {
    struct lull_slot_file *file;
    size_t point_count;
    const struct lull_lines *lines;
    struct lull_error *err;
};

static int slot_file_no_memory(const char *path, struct lull_error *err)
{
    return lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
}

/* Reads a name and returns its number among the names so far. */
static int slot_file_read_name(const struct slot_reader *reader, const json_t *object,
                               const char *member, struct lull_string_set *names,
                               uint32_t *number_out)
{
    const char *text = json_string_value(json_object_get(object, member));

    if (text == NULL || text[0] == '\0')
        return lull_lines_refuse(reader->lines, reader->err, "\"%s\" must be a name", member);
    return lull_string_set_add(names, text, number_out, lull_lines_name(reader->lines),
                               reader->err);
}

/* ---- the cluster -------------------------------------------------------------------------- */

static int read_type(struct slot_reader *reader, const json_t *type, uint32_t index)
{
    static const struct lull_member members[] = {
        {"name", LULL_MEMBER_OTHER},
        {"gpus", LULL_MEMBER_INTEGER, false, 0, LULL_SLOTS_MOST_GPUS, 0},
        {NULL},
    };
    uint32_t number = 0;
    int64_t gpus = 0;
    int rc = lull_json_lines_members(reader->lines, type, members, &gpus, reader->err);

    if (rc < 0)
        return rc;
    rc = slot_file_read_name(reader, type, "name", reader->file->type_names, &number);
    if (rc < 0)
        return rc;
    if (number != index)
        return lull_lines_refuse(reader->lines, reader->err, "two types have the same name");
    reader->file->gpus[index] = (uint32_t)gpus;
    return 0;
}

static int read_types(struct slot_reader *reader, const json_t *types)
{
    const size_t count = json_array_size(types);

    if (count == 0 || count > LULL_SLOTS_MAX_TYPES)
        return lull_lines_refuse(reader->lines, reader->err,
                                 "\"types\" must be a list of 1 to %d types", LULL_SLOTS_MAX_TYPES);
    reader->file->gpus = calloc(count, sizeof(*reader->file->gpus));
    if (reader->file->gpus == NULL)
        return slot_file_no_memory(lull_lines_name(reader->lines), reader->err);
    for (uint32_t i = 0; i < count; i++) {
        const int rc = read_type(reader, json_array_get(types, i), i);

        if (rc < 0)
            return rc;
    }
    reader->file->problem.gpus = reader->file->gpus;
    reader->file->problem.type_count = (uint32_t)count;
    return 0;
}

struct cluster_line {
    int64_t slots;
    int64_t cap_w;
    double slot_s;
};

#define CLUSTER(name, kind, is_optional, least, most)                                              \
#name, LULL_MEMBER_##kind, is_optional, least, most, offsetof(struct cluster_line, name)

/* The cluster comes first, because every job is checked against its slots, types and cap. */
static int read_cluster(struct slot_reader *reader, const json_t *object)
{
    static const struct lull_member members[] = {
        {CLUSTER(slots, INTEGER, false, 1, LULL_SLOTS_MOST)},
        {"types", LULL_MEMBER_OTHER},
        {CLUSTER(slot_s, NUMBER, true, 0, MOST_J)},
        {CLUSTER(cap_w, INTEGER, true, 0, LULL_SLOTS_MOST_CAP_W)},
        {NULL},
    };
    struct cluster_line line = {.cap_w = LULL_SLOTS_UNCAPPED};
    int rc = lull_json_lines_members(reader->lines, object, members, &line, reader->err);

    if (rc < 0)
        return rc;
    reader->file->problem.slots = (uint32_t)line.slots;
    reader->file->problem.cap_w = line.cap_w;
    reader->file->slot_s = line.slot_s;
    return read_types(reader, json_object_get(object, "types"));
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* The fields of a job's line that apply to all of its operating points. */
struct job_line {
    int64_t arrival;
    int64_t deadline;
    double weight_j;
    double value_j;
};

struct point_line {
    int64_t gpus;
    int64_t slots;
    int64_t power_w;
    int64_t first;
    int64_t last;
    double energy_j;
    double delay_j;
};

/* Checks the window of an operating point, which is the job's where the operating point does not
 * give one. */
static int check_window(const struct slot_reader *reader, const json_t *object,
                        const struct point_line *point)
{
    const int64_t horizon = reader->file->problem.slots;
    int rc = lull_json_lines_check(reader->lines, "first", point->first, 0, horizon, reader->err);

    if (rc < 0 || json_object_get(object, "last") == NULL)
        return rc;
    rc = lull_json_lines_check(reader->lines, "last", point->last, point->first, horizon,
                               reader->err);
    if (rc < 0)
        return rc;
    if (point->last > horizon - point->slots)
        return lull_lines_refuse(reader->lines, reader->err,
                                 "a mode may end after the last of %" PRId64 " slots", horizon);
    return 0;
}

#define POINT(name, kind, is_optional, least, most)                                                \
#name, LULL_MEMBER_##kind, is_optional, least, most, offsetof(struct point_line, name)

static int slot_file_read_point(struct slot_reader *reader, const json_t *object,
                                const struct job_line *job)
{
    static const struct lull_member members[] = {
        {"type", LULL_MEMBER_OTHER},
        {POINT(gpus, INTEGER, false, 1, LULL_SLOTS_MOST_GPUS)},
        {POINT(slots, INTEGER, false, 0, LULL_SLOTS_MOST)},
        {POINT(energy_j, NUMBER, false, -MOST_J, MOST_J)},
        {POINT(first, INTEGER, true, 0, LULL_SLOTS_MOST)},
        {POINT(last, INTEGER, true, 0, LULL_SLOTS_MOST)},
        {POINT(delay_j, NUMBER, true, 0, MOST_J)},
        {POINT(power_w, INTEGER, true, 0, UINT32_MAX)},
        {NULL},
    };
    struct lull_slot_file *const file = reader->file;
    struct point_line line = {.first = job->arrival, .last = INT64_MIN, .delay_j = job->weight_j};
    struct lull_slot_point point;
    uint32_t type = 0;
    int rc = lull_json_lines_members(reader->lines, object, members, &line, reader->err);

    if (rc < 0)
        return rc;
    rc = slot_file_read_name(reader, object, "type", file->type_names, &type);
    if (rc < 0)
        return rc;
    if (type >= file->problem.type_count)
        return lull_lines_refuse(reader->lines, reader->err, "there is no type \"%.60s\"",
                                 lull_string_set_get(file->type_names, type));
    if (line.last == INT64_MIN)
        line.last = job->deadline - line.slots;
    rc = check_window(reader, object, &line);
    if (rc < 0)
        return rc;
    if (json_object_get(object, "delay_j") != NULL && job->weight_j > 0.0)
        return lull_lines_refuse(reader->lines, reader->err,
                                 "give either \"weight_j\" or \"delay_j\"");
    if (line.first > line.last || line.gpus > file->problem.gpus[type] ||
        line.power_w > file->problem.cap_w) {
        file->dropped++;
        return 0;
    }
    point = (struct lull_slot_point){
        .type = type,
        .gpus = (uint32_t)line.gpus,
        .slots = (uint32_t)line.slots,
        .power_w = (uint32_t)line.power_w,
        .first = (uint32_t)line.first,
        .last = (uint32_t)line.last,
        .delay_j = line.delay_j,
        .cost_j = line.energy_j +
                  job->weight_j * ((double)line.first + (double)line.slots - (double)job->arrival),
    };
    return lull_trace_append(&file->points, &reader->point_count, &point, sizeof(point),
                             lull_lines_name(reader->lines), reader->err);
}

static int slot_file_read_points(struct slot_reader *reader, const json_t *points,
                                 const struct job_line *job)
{
    if (!json_is_array(points) || json_array_size(points) > LULL_SLOTS_MAX_POINTS)
        return lull_lines_refuse(reader->lines, reader->err,
                                 "\"modes\" must be a list of at most %d", LULL_SLOTS_MAX_POINTS);
    for (size_t i = 0; i < json_array_size(points); i++) {
        const int rc = slot_file_read_point(reader, json_array_get(points, i), job);

        if (rc < 0)
            return rc;
    }
    return 0;
}

/* A separate array holds the names of the jobs, since the problem's jobs have none. */
static int slot_file_add_job(struct slot_reader *reader, const struct lull_slot_job *job,
                             uint32_t name)
{
    struct lull_slot_file *const file = reader->file;
    const char *const path = lull_lines_name(reader->lines);
    const size_t count = file->problem.job_count;
    int rc = lull_trace_grow(&file->jobs, count, sizeof(*file->jobs), path, reader->err);

    if (rc < 0)
        return rc;
    rc = lull_trace_grow(&file->name_of, count, sizeof(*file->name_of), path, reader->err);
    if (rc < 0)
        return rc;
    file->jobs[count] = *job;
    file->name_of[count] = name;
    file->problem.job_count++;
    return 0;
}

#define JOB(name, kind, is_optional, least, most)                                                  \
#name, LULL_MEMBER_##kind, is_optional, least, most, offsetof(struct job_line, name)

static int slot_file_read_job(struct slot_reader *reader, const json_t *object)
{
    static const struct lull_member members[] = {
        {"job", LULL_MEMBER_OTHER},
        {JOB(arrival, INTEGER, true, 0, LULL_SLOTS_MOST)},
        {JOB(deadline, INTEGER, true, 0, LULL_SLOTS_MOST)},
        {JOB(weight_j, NUMBER, true, 0, MOST_J)},
        {JOB(value_j, NUMBER, true, -MOST_J, MOST_J)},
        {"modes", LULL_MEMBER_OTHER},
        {NULL},
    };
    const int64_t slots = reader->file->problem.slots;
    const size_t before = reader->point_count;
    struct job_line line = {.deadline = slots, .value_j = LULL_SLOTS_MANDATORY};
    struct lull_slot_job job = {0};
    uint32_t name = 0;
    int rc = lull_json_lines_members(reader->lines, object, members, &line, reader->err);

    if (rc < 0)
        return rc;
    rc = slot_file_read_name(reader, object, "job", reader->file->job_names, &name);
    if (rc < 0)
        return rc;
    rc = lull_json_lines_check(reader->lines, "arrival", line.arrival, 0, slots, reader->err);
    if (rc < 0)
        return rc;
    rc = lull_json_lines_check(reader->lines, "deadline", line.deadline, line.arrival, slots,
                               reader->err);
    if (rc < 0)
        return rc;
    rc = slot_file_read_points(reader, json_object_get(object, "modes"), &line);
    if (rc < 0)
        return rc;
    job.reject_j = line.value_j;
    job.point_count = (uint32_t)(reader->point_count - before);
    if (job.point_count == 0 && isinf(job.reject_j))
        return lull_lines_refuse(reader->lines, reader->err,
                                 "no mode fits between arrival and deadline on the GPUs there are; "
                                 "with \"value_j\" the job may be excluded");
    return slot_file_add_job(reader, &job, name);
}

/* ---- the whole ---------------------------------------------------------------------------- */

static int slot_file_read_line(const struct lull_lines *lines, const json_t *object, void *context,
                               struct lull_error *err)
{
    struct slot_reader *const reader = context;

    reader->lines = lines;
    reader->err = err;
    if (reader->file->gpus == NULL)
        return read_cluster(reader, object);
    return slot_file_read_job(reader, object);
}

/* Refers the problem to the arrays, which do not move any more, and checks it. */
static int slot_file_finish(struct lull_slot_file *file, const char *path, struct lull_error *err)
{
    struct lull_error why = {0};
    size_t used = 0;

    if (file->gpus == NULL)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: there is no cluster: the first line gives slots and types",
                              path);
    file->problem.jobs = file->jobs;
    for (size_t i = 0; i < file->problem.job_count; i++) {
        if (file->points != NULL)
            file->jobs[i].points = file->points + used;
        used += file->jobs[i].point_count;
    }
    if (lull_slot_problem_check(&file->problem, &why) < 0)
        return lull_error_set(err, LULL_E_FORMAT, "%s: %s", path, why.text);
    return 0;
}

int lull_slot_file_read(const char *path, struct lull_slot_file *file_out, struct lull_error *err)
{
    struct slot_reader reader = {.file = file_out};
    int rc;

    *file_out = (struct lull_slot_file){.type_names = lull_string_set_create(),
                                        .job_names = lull_string_set_create()};
    if (file_out->type_names == NULL || file_out->job_names == NULL)
        rc = slot_file_no_memory(path, err);
    else
        rc = lull_json_lines_read(path, slot_file_read_line, &reader, err);
    if (rc >= 0)
        rc = slot_file_finish(file_out, path, err);
    if (rc < 0)
        lull_slot_file_fini(file_out);
    return rc;
}

void lull_slot_file_fini(struct lull_slot_file *file)
{
    lull_string_set_destroy(file->type_names);
    lull_string_set_destroy(file->job_names);
    free(file->name_of);
    free(file->gpus);
    free(file->jobs);
    free(file->points);
    *file = (struct lull_slot_file){0};
}

const char *lull_slot_file_job(const struct lull_slot_file *file, size_t job)
{
    return lull_string_set_get(file->job_names, file->name_of[job]);
}

const char *lull_slot_file_type(const struct lull_slot_file *file, uint32_t type)
{
    return lull_string_set_get(file->type_names, type);
}

/* ---- writing ------------------------------------------------------------------------------ */

static void slot_file_write_point(const struct lull_slot_point *point, FILE *out)
{
    fprintf(out,
            "{\"type\":\"%u\",\"gpus\":%u,\"slots\":%u,\"energy_j\":%.17g,\"first\":%u,\"last\":%u",
            point->type, point->gpus, point->slots, point->cost_j, point->first, point->last);
    if (point->delay_j > 0.0)
        fprintf(out, ",\"delay_j\":%.17g", point->delay_j);
    if (point->power_w > 0)
        fprintf(out, ",\"power_w\":%u", point->power_w);
    fputc('}', out);
}

void lull_slot_file_write(const struct lull_slot_problem *problem, double slot_s, FILE *out)
{
    fprintf(out, "{\"slots\":%u,\"types\":[", problem->slots);
    for (uint32_t i = 0; i < problem->type_count; i++)
        fprintf(out, "%s{\"name\":\"%u\",\"gpus\":%u}", i > 0 ? "," : "", i, problem->gpus[i]);
    fputc(']', out);
    if (slot_s > 0.0)
        fprintf(out, ",\"slot_s\":%.17g", slot_s);
    if (problem->cap_w != LULL_SLOTS_UNCAPPED)
        fprintf(out, ",\"cap_w\":%lld", (long long)problem->cap_w);
    fputs("}\n", out);
    for (size_t i = 0; i < problem->job_count; i++) {
        const struct lull_slot_job *job = &problem->jobs[i];

        fprintf(out, "{\"job\":\"%zu\",", i);
        if (!isinf(job->reject_j))
            fprintf(out, "\"value_j\":%.17g,", job->reject_j);
        fputs("\"modes\":[", out);
        for (uint32_t m = 0; m < job->point_count; m++) {
            if (m > 0)
                fputc(',', out);
            slot_file_write_point(&job->points[m], out);
        }
        fputs("]}\n", out);
    }
}
