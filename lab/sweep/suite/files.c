/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/files.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/file.h"
#include "lab/sweep/suite/description.h"

enum { MAX_SOURCE = 1 << 20 }; /* bytes */

/* A file of the folder that has been read. */
struct own_file {
    char *name;
    char *text;
    size_t size;
};

struct lull_suite_files {
    char *path;   /* of the description; NULL: all is built in */
    char *folder; /* NULL: all is built in */
    struct own_file *own;
    size_t own_count;
    struct lull_suite_file description;
    struct lull_suite_file headers[LULL_SUITE_MAX_HEADERS];
    uint32_t header_count;
};

static const struct lull_suite_file *find_built_in(const char *name)
{
    for (uint32_t i = 0; i < lull_suite_built_in_count; i++)
        if (strcmp(lull_suite_built_in[i].name, name) == 0)
            return &lull_suite_built_in[i];
    return NULL;
}

static int fail_memory(struct lull_error *err)
{
    return lull_error_set(err, -ENOMEM, "not enough memory for the suite");
}

/* Reads a file of the folder and keeps it. */
static int suite_file_read_own(struct lull_suite_files *files, const char *path, const char *name,
                               struct lull_suite_file *file_out, struct lull_error *err)
{
    struct own_file own = {0};
    int result;

    if (lull_array_grow(&files->own, files->own_count, sizeof(*files->own)) < 0)
        return fail_memory(err);
    result = lull_file_read(path, MAX_SOURCE, &own.text, &own.size, err);
    if (result < 0)
        return result;
    own.name = strdup(name);
    if (own.name == NULL) {
        free(own.text);
        return fail_memory(err);
    }
    files->own[files->own_count++] = own;
    *file_out = (struct lull_suite_file){own.name, own.text, own.size};
    return 0;
}

static int read_in_folder(struct lull_suite_files *files, const char *name,
                          struct lull_suite_file *file_out, struct lull_error *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof(path), "%s/%s", files->folder, name) >= (int)sizeof(path))
        return lull_error_set(err, -ENAMETOOLONG, "%.100s: the path is too long", files->folder);
    return suite_file_read_own(files, path, name, file_out, err);
}

static bool is_header(const char *name)
{
    const size_t length = strlen(name);

    return length > 4 && strcmp(name + length - 4, ".cuh") == 0;
}

/* A header of the folder replaces a built-in one of the same name. */
static int add_header(struct lull_suite_files *files, const struct lull_suite_file *file,
                      struct lull_error *err)
{
    for (uint32_t i = 0; i < files->header_count; i++)
        if (strcmp(files->headers[i].name, file->name) == 0) {
            files->headers[i] = *file;
            return 0;
        }
    if (files->header_count == LULL_SUITE_MAX_HEADERS)
        return lull_error_set(err, -E2BIG, "%.100s: there are more than %d headers", files->folder,
                              LULL_SUITE_MAX_HEADERS);
    files->headers[files->header_count++] = *file;
    return 0;
}

static int add_built_in(struct lull_suite_files *files, struct lull_error *err)
{
    for (uint32_t i = 0; i < lull_suite_built_in_count; i++) {
        int result;

        if (!is_header(lull_suite_built_in[i].name))
            continue;
        result = add_header(files, &lull_suite_built_in[i], err);
        if (result < 0)
            return result;
    }
    return 0;
}

static int add_headers_of_folder(struct lull_suite_files *files, struct lull_error *err)
{
    DIR *const folder = opendir(files->folder);
    struct dirent *entry;
    int result = 0;

    if (folder == NULL)
        return lull_error_set(err, -errno, "%.150s: %s", files->folder, strerror(errno));
    while (result == 0 && (entry = readdir(folder)) != NULL) {
        struct lull_suite_file header;

        if (!is_header(entry->d_name))
            continue;
        result = read_in_folder(files, entry->d_name, &header, err);
        if (result == 0)
            result = add_header(files, &header, err);
    }
    closedir(folder);
    return result;
}

static int open_folder(struct lull_suite_files *files, const char *path, struct lull_error *err)
{
    const char *const slash = strrchr(path, '/');

    files->path = strdup(path);
    files->folder = slash != NULL ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
    if (files->path == NULL || files->folder == NULL)
        return fail_memory(err);
    const int result = suite_file_read_own(files, path, path, &files->description, err);

    if (result < 0)
        return result;
    return add_headers_of_folder(files, err);
}

int lull_suite_files_open(const char *path, struct lull_suite_files **files_out,
                          struct lull_error *err)
{
    struct lull_suite_files *const files = calloc(1, sizeof(*files));
    int result;

    if (files == NULL)
        return fail_memory(err);
    result = add_built_in(files, err);
    if (result == 0 && path != NULL)
        result = open_folder(files, path, err);
    else if (result == 0)
        files->description = *find_built_in(LULL_SUITE_DESCRIPTION);
    if (result < 0) {
        lull_suite_files_close(files);
        return result;
    }
    *files_out = files;
    return 0;
}

void lull_suite_files_close(struct lull_suite_files *files)
{
    if (files == NULL)
        return;
    for (size_t i = 0; i < files->own_count; i++) {
        free(files->own[i].name);
        free(files->own[i].text);
    }
    free(files->own);
    free(files->folder);
    free(files->path);
    free(files);
}

struct lull_suite_file lull_suite_files_description(const struct lull_suite_files *files)
{
    return files->description;
}

int lull_suite_files_source(struct lull_suite_files *files, const char *name,
                            struct lull_suite_file *source_out, struct lull_error *err)
{
    const struct lull_suite_file *const built_in = find_built_in(name);

    for (size_t i = 0; i < files->own_count; i++)
        if (strcmp(files->own[i].name, name) == 0) {
            *source_out = (struct lull_suite_file){name, files->own[i].text, files->own[i].size};
            return 0;
        }
    if (files->folder != NULL) {
        const int result = read_in_folder(files, name, source_out, err);

        if (result != -ENOENT || built_in == NULL)
            return result;
    }
    if (built_in == NULL)
        return lull_error_set(err, -ENOENT, "%s: the built-in suite has no such source", name);
    *source_out = *built_in;
    return 0;
}

const struct lull_suite_file *lull_suite_files_headers(const struct lull_suite_files *files,
                                                       uint32_t *count_out)
{
    *count_out = files->header_count;
    return files->headers;
}
