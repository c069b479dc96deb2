/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/job_set.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "lab/reproduce/config_map.h"
#include "trace/array.h"

enum { MAX_JOBS = 1 << 20 }; /* of a folder */

struct job_reading {
    const struct lull_job_kind *kind;
    char *jobs;
    size_t count;
};

static int job_set_append(const struct lull_columns *record, void *context, struct lull_error *err)
{
    struct job_reading *const reading = context;
    const struct lull_job_kind *const kind = reading->kind;
    int rc = lull_trace_grow(&reading->jobs, reading->count, kind->size, record->name, err);

    if (rc < 0)
        return rc;
    rc = kind->read(record, reading->jobs + reading->count * kind->size, err);
    if (rc < 0)
        return rc;
    reading->count++;
    return 0;
}

static int job_set_check(const struct lull_columns *record, void *context, struct lull_error *err)
{
    const struct job_reading *const reading = context;

    return reading->kind->check(record, err);
}

static bool is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

/* Returns whether the path ends as the file of one job does. */
static bool has_ending_of_job(const char *path)
{
    static const char *const endings[] = {".json", ".yaml", ".yml"};
    const char *const dot = strrchr(path, '.');

    for (size_t i = 0; dot != NULL && i < sizeof(endings) / sizeof(endings[0]); i++)
        if (strcmp(dot, endings[i]) == 0)
            return true;
    return false;
}

/* ---- one file ----------------------------------------------------------------------------- */

static int job_set_read_file(struct job_reading *reading, const char *path, struct lull_error *err)
{
    struct lull_columns record;
    char *text = NULL;
    size_t size = 0;
    int rc = lull_file_read(path, LULL_CONFIG_MAP_BYTES, &text, &size, err);

    if (rc == -EFBIG)
        return lull_error_set(err, LULL_E_FORMAT,
                              "%s: the file is longer than 64 KiB, too long to describe one job",
                              path);
    if (rc < 0)
        return rc;
    if (strlen(text) != size)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: byte %zu is 0, so that this is no text file",
                            path, strlen(text) + 1);
    if (rc == 0)
        rc = lull_config_map_parse(path, text, reading->kind->known, &record, err);
    if (rc == 0)
        rc = reading->kind->check(&record, err);
    if (rc == 0)
        rc = job_set_append(&record, reading, err);
    free(text);
    return rc;
}

/* ---- a folder of files -------------------------------------------------------------------- */

struct job_numbers {
    int64_t *all;
    size_t count;
};

/* The number in job_<number>.json; -1: the file is another, or the number is written otherwise. */
static int64_t job_set_number_of(const char *name)
{
    char digits[32];
    char again[64];
    int64_t number = -1;
    const size_t length = strlen(name);

    if (length < 10 || length > 34 || strncmp(name, "job_", 4) != 0 ||
        strcmp(name + length - 5, ".json") != 0)
        return -1;
    snprintf(digits, sizeof(digits), "%.*s", (int)(length - 9), name + 4);
    if (lull_text_parse_int(digits, 0, INT64_MAX, &number) < 0)
        return -1;
    snprintf(again, sizeof(again), "job_%lld.json", (long long)number);
    return strcmp(again, name) == 0 ? number : -1;
}

static int job_set_compare(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int job_set_list_numbers(const char *path, struct job_numbers *numbers,
                                struct lull_error *err)
{
    DIR *const folder = opendir(path);
    const struct dirent *entry;
    int rc = 0;

    if (folder == NULL)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    while (rc == 0 && (entry = readdir(folder)) != NULL) {
        const int64_t number = job_set_number_of(entry->d_name);

        if (number < 0)
            continue;
        if (numbers->count == MAX_JOBS)
            rc = lull_error_set(err, LULL_E_FORMAT,
                                "%s: there are more than a million jobs in this folder", path);
        else
            rc = lull_trace_grow(&numbers->all, numbers->count, sizeof(number), path, err);
        if (rc == 0)
            numbers->all[numbers->count++] = number;
    }
    closedir(folder);
    if (rc == 0 && numbers->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT,
                            "%s: there are no files job_0.json, job_1.json ... in this folder",
                            path);
    if (rc == 0)
        qsort(numbers->all, numbers->count, sizeof(*numbers->all), job_set_compare);
    return rc;
}

static int read_folder(struct job_reading *reading, const char *path, struct lull_error *err)
{
    const size_t size = strlen(path) + 40;
    char *const file = malloc(size);
    struct job_numbers numbers = {0};
    int rc = file == NULL ? lull_error_set(err, -ENOMEM, "%s: not enough memory for its name", path)
                          : job_set_list_numbers(path, &numbers, err);

    for (size_t i = 0; rc == 0 && i < numbers.count; i++) {
        snprintf(file, size, "%s/job_%lld.json", path, (long long)numbers.all[i]);
        rc = job_set_read_file(reading, file, err);
    }
    free(numbers.all);
    free(file);
    return rc;
}

/* ---- all of a set ------------------------------------------------------------------------- */

int lull_job_set_read_text(const struct lull_job_kind *kind, const char *name, char *text,
                           void *job_out, struct lull_error *err)
{
    struct lull_columns record;
    int rc = lull_config_map_parse(name, text, kind->known, &record, err);

    if (rc == 0)
        rc = kind->check(&record, err);
    if (rc < 0)
        return rc;
    return kind->read(&record, job_out, err);
}

static int job_set_read_table(struct job_reading *reading, const char *path, struct lull_error *err)
{
    const struct lull_table table = {reading->kind->known, 0, NULL, job_set_check, job_set_append};
    const int rc = lull_columns_read(path, &table, reading, err);

    if (rc == 0 && reading->count == 0)
        return lull_error_set(err, -ENODATA, "%s: there are no %s after the header", path,
                              reading->kind->many);
    return rc;
}

int lull_job_set_read(const struct lull_job_kind *kind, const char *path, void **jobs_out,
                      size_t *count_out, struct lull_error *err)
{
    struct job_reading reading = {.kind = kind};
    int rc;

    if (is_folder(path))
        rc = read_folder(&reading, path, err);
    else if (has_ending_of_job(path))
        rc = job_set_read_file(&reading, path, err);
    else
        rc = job_set_read_table(&reading, path, err);
    if (rc < 0) {
        free(reading.jobs);
        return rc;
    }
    *jobs_out = reading.jobs;
    *count_out = reading.count;
    return 0;
}
