/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/trace/point_table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/array.h"
#include "base/file.h"

enum { MAX_BYTES = 16 << 20, MAX_MHZ = 100000 };

static const double max_ratio = 100.0, most_w = 1e5, max_s = 1e8;

struct lull_point_table {
    struct lull_table_row *rows; /* by job, then type */
    size_t count;
    size_t room;
    struct lull_table_gpu *gpus; /* by type */
    size_t gpu_count;
    size_t gpu_room;
};

static int compare_rows(const void *left, const void *right)
{
    const struct lull_table_row *const a = left, *const b = right;
    const int by_job = strcmp(a->job, b->job);

    return by_job != 0 ? by_job : strcmp(a->type, b->type);
}

static int point_table_compare_gpus(const void *left, const void *right)
{
    const struct lull_table_gpu *const a = left, *const b = right;

    return strcmp(a->type, b->type);
}

/* ---- reading ------------------------------------------------------------------------------- */

/* Position of the reader, for messages. */
struct table_place {
    const char *file;
    const char *job;  /* "" before there is one */
    const char *type; /* likewise */
    struct lull_error *err;
};

static int point_table_refuse(const struct table_place *place, const char *text)
{
    return lull_error_set(place->err, LULL_E_FORMAT, "%s: %.64s%s%.64s: %s", place->file,
                          place->job, place->job[0] != '\0' ? " on " : "", place->type, text);
}

/* Copies a name; false: it is empty or too long. */
static bool point_table_copy(char to[LULL_POINT_TABLE_NAME], const char *from)
{
    const size_t length = strlen(from);

    if (length == 0 || length >= LULL_POINT_TABLE_NAME)
        return false;
    memcpy(to, from, length + 1);
    return true;
}

static bool point_table_is_number(const json_t *object, const char *name, double least, double most,
                                  double *value_out)
{
    const json_t *const value = json_object_get(object, name);

    if (!json_is_number(value) || !(json_number_value(value) >= least) ||
        !(json_number_value(value) <= most))
        return false;
    *value_out = json_number_value(value);
    return true;
}

static int read_gpu(struct lull_point_table *table, const char *type, const json_t *object,
                    struct table_place *place)
{
    struct lull_table_gpu gpu;

    place->type = type;
    if (!point_table_copy(gpu.type, type))
        return point_table_refuse(place, "a type of GPU has 1 to 63 characters");
    if (!point_table_is_number(object, "idle_w", 0.0, most_w, &gpu.idle_w) ||
        !point_table_is_number(object, "full_w", gpu.idle_w, most_w, &gpu.full_w))
        return point_table_refuse(place, "missing idle_w, or full_w is below idle_w");
    if (lull_array_reserve(&table->gpus, &table->gpu_room, table->gpu_count, sizeof(gpu)) < 0)
        return lull_error_set(place->err, -ENOMEM, "not enough memory for %s", place->file);
    table->gpus[table->gpu_count++] = gpu;
    return 0;
}

static int point_table_read(const json_t *object, struct lull_table_row *row,
                            const struct table_place *place)
{
    struct lull_table_point *const point = &row->points[row->count];
    const struct lull_table_point *const last = point - 1;
    double mhz;

    if (!point_table_is_number(object, "sm_mhz", 0.0, MAX_MHZ, &mhz) || mhz != floor(mhz) ||
        !point_table_is_number(object, "time_ratio", 1.0, max_ratio, &point->time_ratio) ||
        !point_table_is_number(object, "gpu_w", 1e-3, most_w, &point->gpu_w))
        return point_table_refuse(
            place, "a point has a whole sm_mhz, time_ratio from 1 on, and gpu_w above 0");
    point->sm_mhz = (uint32_t)mhz;
    if (row->count == 0 && (point->sm_mhz != 0 || point->time_ratio != 1.0))
        return point_table_refuse(place,
                                  "the first point is that of full clocks: sm_mhz 0, time_ratio 1");
    if (row->count > 0 && (point->sm_mhz == 0 || point->time_ratio < last->time_ratio ||
                           (last->sm_mhz != 0 && point->sm_mhz >= last->sm_mhz)))
        return point_table_refuse(place,
                                  "clocks fall from point to point, and time_ratio does not");
    row->count++;
    return 0;
}

static int point_table_read_row(struct lull_point_table *table, const char *type,
                                const json_t *points, double time_s, struct table_place *place)
{
    struct lull_table_row row = {.time_s = time_s};

    place->type = type;
    if (!point_table_copy(row.job, place->job) || !point_table_copy(row.type, type))
        return point_table_refuse(place, "a name has 1 to 63 characters");
    if (!json_is_array(points) || json_array_size(points) == 0 ||
        json_array_size(points) > LULL_POINT_TABLE_MAX)
        return point_table_refuse(place, "give a list of 1 to 16 points");
    for (size_t i = 0; i < json_array_size(points); i++) {
        const int rc = point_table_read(json_array_get(points, i), &row, place);

        if (rc < 0)
            return rc;
    }
    if (lull_array_reserve(&table->rows, &table->room, table->count, sizeof(row)) < 0)
        return lull_error_set(place->err, -ENOMEM, "not enough memory for %s", place->file);
    table->rows[table->count++] = row;
    return 0;
}

static int point_table_read_job(struct lull_point_table *table, const char *job, json_t *object,
                                struct table_place *place)
{
    json_t *const gpus = json_object_get(object, "gpus");
    double time_s = 0.0;
    const char *type;
    json_t *points;

    place->job = job;
    place->type = "any GPU";
    if (json_object_get(object, "time_s") != NULL &&
        !point_table_is_number(object, "time_s", 1e-3, max_s, &time_s))
        return point_table_refuse(place, "time_s is a number of seconds above 0");
    if (!json_is_object(gpus))
        return point_table_refuse(place,
                                  "give \"gpus\", an object with a list of points for each type");
    json_object_foreach(gpus, type, points)
    {
        const int rc = point_table_read_row(table, type, points, time_s, place);

        if (rc < 0)
            return rc;
    }
    return 0;
}

static int read_document(struct lull_point_table *table, const json_t *document,
                         struct table_place *place)
{
    json_t *const gpus = json_object_get(document, "gpus");
    json_t *const jobs = json_object_get(document, "jobs");
    const char *name;
    json_t *object;

    if (!json_is_object(jobs) || (gpus != NULL && !json_is_object(gpus)))
        return point_table_refuse(place,
                                  "an object with \"jobs\", and perhaps \"gpus\", is wanted");
    json_object_foreach(gpus, name, object)
    {
        const int rc = read_gpu(table, name, object, place);

        if (rc < 0)
            return rc;
    }
    json_object_foreach(jobs, name, object)
    {
        const int rc = point_table_read_job(table, name, object, place);

        if (rc < 0)
            return rc;
    }
    return 0;
}

int lull_point_table_parse(const char *text, size_t size, const char *name,
                           struct lull_point_table **table_out, struct lull_error *err)
{
    struct table_place place = {.file = name, .job = "", .type = "the document", .err = err};
    struct lull_point_table *table;
    json_error_t problem;
    json_t *const document = json_loadb(text, size, JSON_REJECT_DUPLICATES, &problem);
    int rc;

    if (document == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s, line %d: %s", name, problem.line,
                              problem.text);
    table = calloc(1, sizeof(*table));
    rc = table != NULL ? read_document(table, document, &place)
                       : lull_error_set(err, -ENOMEM, "not enough memory for %s", name);
    json_decref(document);
    if (rc < 0) {
        lull_point_table_destroy(table);
        return rc;
    }
    if (table->count > 0)
        qsort(table->rows, table->count, sizeof(*table->rows), compare_rows);
    if (table->gpu_count > 0)
        qsort(table->gpus, table->gpu_count, sizeof(*table->gpus), point_table_compare_gpus);
    *table_out = table;
    return 0;
}

int lull_point_table_read(const char *path, struct lull_point_table **table_out,
                          struct lull_error *err)
{
    char *text;
    size_t size;
    int rc = lull_file_read(path, MAX_BYTES, &text, &size, err);

    if (rc < 0)
        return rc;
    rc = lull_point_table_parse(text, size, path, table_out, err);
    free(text);
    return rc;
}

void lull_point_table_destroy(struct lull_point_table *table)
{
    if (table == NULL)
        return;
    free(table->rows);
    free(table->gpus);
    free(table);
}

/* ---- looking up ---------------------------------------------------------------------------- */

const struct lull_table_row *lull_point_table_find(const struct lull_point_table *table,
                                                   const char *job, const char *type)
{
    struct lull_table_row key;

    if (table == NULL || table->count == 0 || !point_table_copy(key.job, job) ||
        !point_table_copy(key.type, type))
        return NULL;
    return bsearch(&key, table->rows, table->count, sizeof(key), compare_rows);
}

const struct lull_table_gpu *lull_point_table_gpu(const struct lull_point_table *table,
                                                  const char *type)
{
    struct lull_table_gpu key;

    if (table == NULL || table->gpu_count == 0 || !point_table_copy(key.type, type))
        return NULL;
    return bsearch(&key, table->gpus, table->gpu_count, sizeof(key), point_table_compare_gpus);
}

const struct lull_table_gpu *lull_point_table_only_gpu(const struct lull_point_table *table)
{
    return table->gpu_count == 1 ? &table->gpus[0] : NULL;
}
