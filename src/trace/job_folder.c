/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/job_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/text.h"
#include "trace/config_map.h"

static bool is_folder(const char *path)
{
    struct stat status;

    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

bool lull_job_folder_is(const char *path)
{
    static const char *const endings[] = {".json", ".yaml", ".yml"};
    const char *const dot = strrchr(path, '.');

    for (size_t i = 0; dot != NULL && i < sizeof(endings) / sizeof(endings[0]); i++)
        if (strcmp(dot, endings[i]) == 0)
            return true;
    return is_folder(path);
}

/* ---- one file ----------------------------------------------------------------------------- */

static int read_file(const char *path, const struct lull_column *known, lull_job_folder_fn take,
                     void *context, struct lull_error *err)
{
    struct lull_columns record;
    char *text = NULL;
    size_t size = 0;
    int rc = lull_file_read(path, LULL_CONFIG_MAP_BYTES, &text, &size, err);

    if (rc == -EFBIG)
        return lull_error_set(err, LULL_E_FORMAT, "%s: longer than 64 KiB; is this a job?", path);
    if (rc < 0)
        return rc;
    if (strlen(text) != size)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: byte %zu: a NUL byte; is this a text file?",
                            path, strlen(text) + 1);
    if (rc == 0)
        rc = lull_config_map_parse(path, text, known, &record, err);
    if (rc == 0)
        rc = take(context, &record, err);
    free(text);
    return rc;
}

/* ---- a folder ----------------------------------------------------------------------------- */

struct numbers {
    int64_t *all;
    size_t count;
    size_t room;
};

/* The number in job_<number>.json; -1: another file, or a number that is written otherwise. */
static int64_t number_of(const char *name)
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

static int add_number(struct numbers *numbers, int64_t number)
{
    if (numbers->count == numbers->room) {
        const size_t room = numbers->room > 0 ? 2 * numbers->room : 256;
        int64_t *const all = realloc(numbers->all, room * sizeof(*all));

        if (all == NULL)
            return -ENOMEM;
        numbers->all = all;
        numbers->room = room;
    }
    numbers->all[numbers->count++] = number;
    return 0;
}

static int compare(const void *left, const void *right)
{
    const int64_t a = *(const int64_t *)left;
    const int64_t b = *(const int64_t *)right;

    return (a > b) - (a < b);
}

static int list_numbers(const char *path, struct numbers *numbers, struct lull_error *err)
{
    DIR *const folder = opendir(path);
    const struct dirent *entry;
    int rc = 0;

    if (folder == NULL)
        return lull_error_set(err, -errno, "%s: %s", path, strerror(errno));
    while (rc == 0 && (entry = readdir(folder)) != NULL) {
        const int64_t number = number_of(entry->d_name);

        if (number < 0)
            continue;
        if (numbers->count == LULL_JOB_FOLDER_MAX)
            rc = lull_error_set(err, LULL_E_FORMAT, "%s: more than a million jobs", path);
        else if (add_number(numbers, number) < 0)
            rc = lull_error_set(err, -ENOMEM, "%s: no memory to list its jobs", path);
    }
    closedir(folder);
    if (rc == 0 && numbers->count == 0)
        rc = lull_error_set(err, LULL_E_FORMAT, "%s: no files job_0.json, job_1.json ... in it",
                            path);
    if (rc == 0)
        qsort(numbers->all, numbers->count, sizeof(*numbers->all), compare);
    return rc;
}

static int read_folder(const char *path, const struct lull_column *known, lull_job_folder_fn take,
                       void *context, struct lull_error *err)
{
    const size_t size = strlen(path) + 40;
    char *const file = malloc(size);
    struct numbers numbers = {0};
    int rc = file == NULL ? lull_error_set(err, -ENOMEM, "%s: no memory for its name", path)
                          : list_numbers(path, &numbers, err);

    for (size_t i = 0; rc == 0 && i < numbers.count; i++) {
        snprintf(file, size, "%s/job_%lld.json", path, (long long)numbers.all[i]);
        rc = read_file(file, known, take, context, err);
    }
    free(numbers.all);
    free(file);
    return rc;
}

int lull_job_folder_read(const char *path, const struct lull_column *known, lull_job_folder_fn take,
                         void *context, struct lull_error *err)
{
    return is_folder(path) ? read_folder(path, known, take, context, err)
                           : read_file(path, known, take, context, err);
}
