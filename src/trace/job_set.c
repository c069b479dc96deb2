/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/job_set.h"

#include <errno.h>
#include <stdlib.h>

#include "trace/config_map.h"
#include "trace/job_folder.h"

struct reading {
    const struct lull_job_kind *kind;
    char *jobs;
    size_t count;
    size_t room;
};

static int make_room(struct reading *reading, const char *name, struct lull_error *err)
{
    const size_t room = reading->room > 0 ? 2 * reading->room : 256;
    char *jobs;

    if (reading->count < reading->room)
        return 0;
    jobs = reallocarray(reading->jobs, room, reading->kind->size);
    if (jobs == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for %zu %s", name, room,
                              reading->kind->many);
    reading->jobs = jobs;
    reading->room = room;
    return 0;
}

static int append(void *context, const struct lull_columns *record, struct lull_error *err)
{
    struct reading *const reading = context;
    const struct lull_job_kind *kind = reading->kind;
    int rc = record->lines == NULL ? kind->check(record, err) : 0;

    if (rc == 0)
        rc = make_room(reading, record->name, err);
    if (rc == 0)
        rc = kind->read(record, reading->jobs + reading->count * kind->size, err);
    reading->count += rc == 0;
    return rc;
}

static int finish(struct reading *reading, int rc, void **jobs_out, size_t *count_out)
{
    if (rc < 0) {
        free(reading->jobs);
        return rc;
    }
    *jobs_out = reading->jobs;
    *count_out = reading->count;
    return 0;
}

int lull_job_set_read_lines(const struct lull_job_kind *kind, struct lull_lines *lines,
                            void **jobs_out, size_t *count_out, struct lull_error *err)
{
    struct reading reading = {.kind = kind};
    struct lull_columns columns;
    int rc = lull_columns_open(&columns, kind->known, lines, err);

    if (rc == 0)
        rc = kind->check(&columns, err);
    while (rc >= 0 && (rc = lull_columns_next(&columns, err)) > 0)
        rc = append(&reading, &columns, err);
    if (rc == 0 && reading.count == 0)
        rc = lull_error_set(err, -ENODATA, "%s: a header and no %s", lull_lines_name(lines),
                            kind->many);
    return finish(&reading, rc, jobs_out, count_out);
}

int lull_job_set_read_text(const struct lull_job_kind *kind, const char *name, char *text,
                           void *job_out, struct lull_error *err)
{
    struct lull_columns record;
    int rc = lull_config_map_parse(name, text, kind->known, &record, err);

    if (rc == 0)
        rc = kind->check(&record, err);
    return rc == 0 ? kind->read(&record, job_out, err) : rc;
}

int lull_job_set_read(const struct lull_job_kind *kind, const char *path, void **jobs_out,
                      size_t *count_out, struct lull_error *err)
{
    struct reading reading = {.kind = kind};
    struct lull_lines *lines = NULL;
    int rc;

    if (lull_job_folder_is(path)) {
        rc = lull_job_folder_read(path, kind->known, append, &reading, err);
        return finish(&reading, rc, jobs_out, count_out);
    }
    rc = lull_lines_open(path, &lines, err);
    if (rc == 0)
        rc = lull_job_set_read_lines(kind, lines, jobs_out, count_out, err);
    lull_lines_close(lines);
    return rc;
}
