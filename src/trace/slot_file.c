/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/slot_file.h"

#include <stdlib.h>
#include <string.h>

#include "trace/slot_reader.h"

/* What a job's line says for all of its operating points. */
struct job_line {
    int64_t arrival;
    int64_t deadline;
    double weight_j;
};

/* ---- the cluster -------------------------------------------------------------------------- */

static int read_types(struct lull_slot_reader *reader, const json_t *types)
{
    static const char *const known[] = {"name", "gpus", NULL};
    const size_t count = json_array_size(types);

    if (count == 0 || count > LULL_SLOTS_MOST_TYPES)
        return lull_slot_refuse(reader, "\"types\" must be a list of 1 to %d types",
                                LULL_SLOTS_MOST_TYPES);
    reader->file->gpus = calloc(count, sizeof(*reader->file->gpus));
    if (reader->file->gpus == NULL)
        return lull_slot_no_memory(reader);
    for (uint32_t i = 0; i < count; i++) {
        const json_t *type = json_array_get(types, i);
        uint32_t number = 0;
        int64_t gpus = 0;
        int result = lull_slot_check_keys(reader, type, known);

        if (result == 0)
            result = lull_slot_get_name(reader, type, "name", reader->file->type_names, &number);
        if (result == 0)
            result =
                lull_slot_get_integer(reader, type, "gpus", false, 0, LULL_SLOTS_MOST_GPUS, &gpus);
        if (result < 0)
            return result;
        if (number != i)
            return lull_slot_refuse(reader, "two types have the same name");
        reader->file->gpus[i] = (uint32_t)gpus;
    }
    reader->file->problem.gpus = reader->file->gpus;
    reader->file->problem.type_count = (uint32_t)count;
    return 0;
}

static int read_cluster(struct lull_slot_reader *reader, const json_t *object)
{
    static const char *const known[] = {"slots", "types", "slot_s", "cap_w", NULL};
    struct lull_slot_problem *problem = &reader->file->problem;
    int64_t slots = 0;
    int result = lull_slot_check_keys(reader, object, known);

    problem->cap_w = LULL_SLOTS_UNCAPPED;
    if (result == 0)
        result = lull_slot_get_integer(reader, object, "slots", false, 1, LULL_SLOTS_MOST, &slots);
    if (result == 0)
        result = lull_slot_get_integer(reader, object, "cap_w", true, 0, LULL_SLOTS_MOST_CAP_W,
                                       &problem->cap_w);
    if (result == 0)
        result = lull_slot_get_number(reader, object, "slot_s", true, 0.0, &reader->file->slot_s);
    if (result == 0)
        result = read_types(reader, json_object_get(object, "types"));
    problem->slots = (uint32_t)slots;
    return result;
}

/* ---- jobs --------------------------------------------------------------------------------- */

static int add_point(struct lull_slot_reader *reader, const struct lull_slot_point *point)
{
    if (reader->point_count == reader->point_room) {
        const size_t room = reader->point_room == 0 ? 1024 : 2 * reader->point_room;
        void *grown = reallocarray(reader->file->points, room, sizeof(*point));

        if (grown == NULL)
            return lull_slot_no_memory(reader);
        reader->file->points = grown;
        reader->point_room = room;
    }
    reader->file->points[reader->point_count++] = *point;
    return 0;
}

static int get_window(const struct lull_slot_reader *reader, const json_t *object,
                      const struct job_line *line, int64_t slots, int64_t *first, int64_t *last)
{
    const int64_t horizon = reader->file->problem.slots;
    int result;

    *first = line->arrival;
    *last = line->deadline - slots;
    result = lull_slot_get_integer(reader, object, "first", true, 0, horizon, first);
    if (result == 0 && json_object_get(object, "last") != NULL) {
        result = lull_slot_get_integer(reader, object, "last", true, *first, horizon, last);
        if (result == 0 && *last > horizon - slots)
            return lull_slot_refuse(reader, "a mode may end behind the last of %lld slots",
                                    (long long)horizon);
    }
    return result;
}

/* Costs of an operating point whose window is known. */
static int get_costs(const struct lull_slot_reader *reader, const json_t *object,
                     const struct job_line *line, struct lull_slot_point *point)
{
    double energy_j = 0.0;
    int result =
        lull_slot_get_number(reader, object, "energy_j", false, -LULL_SLOTS_MOST_J, &energy_j);

    point->delay_j = line->weight_j;
    if (result == 0 && json_object_get(object, "delay_j") != NULL) {
        if (line->weight_j > 0.0)
            return lull_slot_refuse(reader, "give either \"weight_j\" or \"delay_j\"");
        result = lull_slot_get_number(reader, object, "delay_j", false, 0.0, &point->delay_j);
    }
    if (result == 0)
        point->cost_j = energy_j + line->weight_j * ((double)point->first + (double)point->slots -
                                                     (double)line->arrival);
    return result;
}

static int read_point(struct lull_slot_reader *reader, const json_t *object,
                      const struct job_line *line)
{
    static const char *const known[] = {"type", "gpus",    "slots",   "energy_j", "first",
                                        "last", "delay_j", "power_w", NULL};
    const struct lull_slot_problem *problem = &reader->file->problem;
    struct lull_slot_point point = {0};
    int64_t gpus = 0, slots = 0, power_w = 0, first = 0, last = 0;
    int result = lull_slot_check_keys(reader, object, known);

    if (result == 0)
        result = lull_slot_get_name(reader, object, "type", reader->file->type_names, &point.type);
    if (result == 0 && point.type >= problem->type_count)
        return lull_slot_refuse(reader, "there is no type \"%.60s\"",
                                lull_string_set_get(reader->file->type_names, point.type));
    if (result == 0)
        result =
            lull_slot_get_integer(reader, object, "gpus", false, 1, LULL_SLOTS_MOST_GPUS, &gpus);
    if (result == 0)
        result = lull_slot_get_integer(reader, object, "slots", false, 0, LULL_SLOTS_MOST, &slots);
    if (result == 0)
        result = lull_slot_get_integer(reader, object, "power_w", true, 0, UINT32_MAX, &power_w);
    if (result == 0)
        result = get_window(reader, object, line, slots, &first, &last);
    if (result < 0)
        return result;
    point.gpus = (uint32_t)gpus;
    point.slots = (uint32_t)slots;
    point.power_w = (uint32_t)power_w;
    point.first = (uint32_t)first;
    point.last = (uint32_t)last;
    result = get_costs(reader, object, line, &point);
    if (result < 0)
        return result;
    if (first > last || point.gpus > problem->gpus[point.type] || power_w > problem->cap_w) {
        reader->file->dropped++;
        return 0;
    }
    return add_point(reader, &point);
}

static int add_job(struct lull_slot_reader *reader, const struct lull_slot_job *job, uint32_t name)
{
    struct lull_slot_file *file = reader->file;

    if (file->problem.job_count == reader->job_room) {
        const size_t room = reader->job_room == 0 ? 256 : 2 * reader->job_room;
        void *jobs = reallocarray(file->jobs, room, sizeof(*file->jobs));
        void *names;

        if (jobs == NULL)
            return lull_slot_no_memory(reader);
        file->jobs = jobs;
        names = reallocarray(file->name_of, room, sizeof(*file->name_of));
        if (names == NULL)
            return lull_slot_no_memory(reader);
        file->name_of = names;
        reader->job_room = room;
    }
    file->jobs[file->problem.job_count] = *job;
    file->name_of[file->problem.job_count++] = name;
    return 0;
}

static int read_job_line(const struct lull_slot_reader *reader, const json_t *object,
                         struct job_line *line, struct lull_slot_job *job)
{
    const int64_t slots = reader->file->problem.slots;
    int result;

    *line = (struct job_line){.deadline = slots};
    job->reject_j = LULL_SLOTS_MANDATORY;
    result = lull_slot_get_integer(reader, object, "arrival", true, 0, slots, &line->arrival);
    if (result == 0)
        result = lull_slot_get_integer(reader, object, "deadline", true, line->arrival, slots,
                                       &line->deadline);
    if (result == 0)
        result = lull_slot_get_number(reader, object, "weight_j", true, 0.0, &line->weight_j);
    if (result == 0 && json_object_get(object, "value_j") != NULL)
        result = lull_slot_get_number(reader, object, "value_j", false, -LULL_SLOTS_MOST_J,
                                      &job->reject_j);
    return result;
}

static int read_job(struct lull_slot_reader *reader, const json_t *object)
{
    static const char *const known[] = {"job",     "arrival", "deadline", "weight_j",
                                        "value_j", "modes",   NULL};
    const json_t *points = json_object_get(object, "modes");
    const size_t before = reader->point_count;
    struct lull_slot_job job = {0};
    struct job_line line;
    uint32_t name = 0;
    int result = lull_slot_check_keys(reader, object, known);

    if (result == 0)
        result = lull_slot_get_name(reader, object, "job", reader->file->job_names, &name);
    if (result == 0)
        result = read_job_line(reader, object, &line, &job);
    if (result == 0 && (!json_is_array(points) || json_array_size(points) > LULL_SLOTS_MOST_POINTS))
        return lull_slot_refuse(reader, "\"modes\" must be a list of at most %d",
                                LULL_SLOTS_MOST_POINTS);
    for (size_t i = 0; i < json_array_size(points) && result == 0; i++)
        result = read_point(reader, json_array_get(points, i), &line);
    if (result < 0)
        return result;
    job.point_count = (uint32_t)(reader->point_count - before);
    if (job.point_count == 0 && isinf(job.reject_j))
        return lull_slot_refuse(reader,
                                "no mode fits between arrival and deadline on the GPUs there are; "
                                "with \"value_j\" the job may be left out");
    return add_job(reader, &job, name);
}

/* ---- lines -------------------------------------------------------------------------------- */

static int read_line(struct lull_slot_reader *reader, const char *text)
{
    json_error_t why;
    json_t *object;
    int result;

    if (text[strspn(text, " \t")] == '\0')
        return 0;
    object = json_loads(text, JSON_REJECT_DUPLICATES, &why);
    if (object == NULL)
        return lull_slot_refuse(reader, "byte %d: %.100s", why.position, why.text);
    if (!json_is_object(object))
        result = lull_slot_refuse(reader, "not an object");
    else if (reader->file->gpus == NULL)
        result = read_cluster(reader, object);
    else
        result = read_job(reader, object);
    json_decref(object);
    return result;
}

static int read_all(struct lull_slot_reader *reader)
{
    struct lull_slot_file *file = reader->file;
    size_t used = 0;
    int result;

    file->type_names = lull_string_set_create();
    file->job_names = lull_string_set_create();
    if (file->type_names == NULL || file->job_names == NULL)
        return lull_slot_no_memory(reader);
    do {
        char *text = NULL;

        result = lull_lines_next(reader->lines, &text, reader->err);
        if (result <= 0)
            break;
        result = read_line(reader, text);
    } while (result == 0);
    if (result == 0 && file->gpus == NULL)
        return lull_slot_refuse(reader, "no cluster: the first line gives slots and types");
    file->problem.jobs = file->jobs;
    for (size_t i = 0; i < file->problem.job_count; i++) {
        if (file->points != NULL)
            file->jobs[i].points = file->points + used;
        used += file->jobs[i].point_count;
    }
    return result;
}

int lull_slot_file_read_lines(struct lull_lines *lines, struct lull_slot_file *file_out,
                              struct lull_error *err)
{
    struct lull_slot_reader reader = {.lines = lines, .err = err, .file = file_out};
    struct lull_error why = {0};
    int result;

    *file_out = (struct lull_slot_file){0};
    result = read_all(&reader);
    if (result == 0 && lull_slot_problem_check(&file_out->problem, &why) < 0)
        result = lull_error_set(err, LULL_E_FORMAT, "%s: %s", lull_lines_name(lines), why.text);
    if (result < 0)
        lull_slot_file_fini(file_out);
    return result;
}

int lull_slot_file_read(const char *path, struct lull_slot_file *file_out, struct lull_error *err)
{
    struct lull_lines *lines = NULL;
    int result;

    *file_out = (struct lull_slot_file){0};
    result = lull_lines_open(path, &lines, err);
    if (result < 0)
        return result;
    result = lull_slot_file_read_lines(lines, file_out, err);
    lull_lines_close(lines);
    return result;
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
