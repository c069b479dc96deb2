/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/output.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/file.h"

enum { SIDECAR_MAX = 1 << 24 }; /* bytes of a sidecar that are read */

static int sweep_output_fail(const char *path, int code, struct lull_error *err)
{
    return lull_error_set(err, code, "%s: %s", path, strerror(-code));
}

int lull_sweep_sidecar_path(const char *path, char path_out[PATH_MAX], struct lull_error *err)
{
    if ((size_t)snprintf(path_out, PATH_MAX, "%s.json", path) >= PATH_MAX)
        return lull_error_set(err, -ENAMETOOLONG, "%.80s...: the path is too long", path);
    return 0;
}

/* ---- the table ----------------------------------------------------------------------------- */

/* Writes all of a text at the end of the file and syncs it; else the file is as long as before. */
static int write_whole(struct lull_sweep_output *output, const char *text, size_t size,
                       struct lull_error *err)
{
    const off_t end = lseek(output->fd, 0, SEEK_END);
    size_t done = 0;
    int code = end < 0 ? -errno : 0;

    while (done < size && code == 0) {
        const ssize_t count = write(output->fd, text + done, size - done);

        if (count >= 0)
            done += (size_t)count;
        else if (errno != EINTR)
            code = -errno;
    }
    if (code == 0 && fdatasync(output->fd) < 0 && errno != EINVAL)
        code = -errno;
    if (code == 0)
        return 0;
    if (end >= 0 && ftruncate(output->fd, end) < 0)
        return sweep_output_fail(output->path, code, err);
    return sweep_output_fail(output->path, code, err);
}

static int sweep_output_write_header(struct lull_sweep_output *output, struct lull_error *err)
{
    char line[LULL_SWEEP_LINE];
    const int length = snprintf(line, sizeof(line), "%s\n", lull_sweep_table_header());

    return write_whole(output, line, (size_t)length, err);
}

/* Finds where the last whole line ends. */
static int find_end(struct lull_sweep_output *output, off_t *end_out, struct lull_error *err)
{
    off_t at = lseek(output->fd, 0, SEEK_END);

    while (at > 0) {
        char part[4096];
        const off_t begin = at > (off_t)sizeof(part) ? at - (off_t)sizeof(part) : 0;
        const ssize_t count = pread(output->fd, part, (size_t)(at - begin), begin);
        const char *newline;

        if (count < 0)
            return sweep_output_fail(output->path, -errno, err);
        newline = memrchr(part, '\n', (size_t)count);
        if (newline != NULL) {
            *end_out = begin + (newline - part) + 1;
            return 0;
        }
        at = begin;
    }
    *end_out = 0;
    return 0;
}

static int sweep_output_check_header(struct lull_sweep_output *output, struct lull_error *err)
{
    const char *const header = lull_sweep_table_header();
    const size_t length = strlen(header);
    char line[LULL_SWEEP_LINE];
    const ssize_t count = pread(output->fd, line, length + 1, 0);

    if (count == (ssize_t)length + 1 && strncmp(line, header, length) == 0 && line[length] == '\n')
        return 0;
    return lull_error_set(err, LULL_E_FORMAT,
                          "%s: line 1: these are not the columns of a sweep of this version; "
                          "choose another file",
                          output->path);
}

/* Takes off the line that a sweep was writing when it was killed. */
static int sweep_output_repair(struct lull_sweep_output *output, struct lull_error *err)
{
    off_t end = 0;
    int result = find_end(output, &end, err);

    if (result < 0)
        return result;
    if (ftruncate(output->fd, end) < 0)
        return sweep_output_fail(output->path, -errno, err);
    return end == 0 ? sweep_output_write_header(output, err)
                    : sweep_output_check_header(output, err);
}

static int sweep_output_open_file(struct lull_sweep_output *output, bool is_resuming,
                                  struct lull_error *err)
{
    const int flags = is_resuming ? O_RDWR : O_RDWR | O_CREAT | O_EXCL;

    output->fd = open(output->path, flags | O_CLOEXEC, 0644);
    if (output->fd >= 0)
        return 0;
    if (errno == EEXIST)
        return lull_error_set(
            err, -EEXIST, "%s: exists already; use --resume to continue it, or choose another file",
            output->path);
    return sweep_output_fail(output->path, -errno, err);
}

int lull_sweep_output_open(const char *path, bool is_resuming, struct lull_sweep_output *output_out,
                           struct lull_error *err)
{
    struct lull_sweep_output output = {.fd = -1};
    int result = lull_sweep_sidecar_path(path, output.sidecar_path, err);

    if (result < 0)
        return result;
    snprintf(output.path, sizeof(output.path), "%s", path);
    result = sweep_output_open_file(&output, is_resuming, err);
    if (result < 0)
        return result;
    if (flock(output.fd, LOCK_EX | LOCK_NB) < 0)
        result = lull_error_set(err, -EBUSY, "%s: another sweep is writing to it", path);
    else
        result = is_resuming ? sweep_output_repair(&output, err)
                             : sweep_output_write_header(&output, err);
    if (result < 0) {
        close(output.fd);
        return result;
    }
    *output_out = output;
    return 0;
}

void lull_sweep_output_close(struct lull_sweep_output *output)
{
    if (output->fd >= 0)
        close(output->fd);
    output->fd = -1;
}

bool lull_sweep_output_has_rows(const struct lull_sweep_output *output)
{
    return lseek(output->fd, 0, SEEK_END) > (off_t)strlen(lull_sweep_table_header()) + 1;
}

int lull_sweep_output_append(struct lull_sweep_output *output, const struct lull_sweep_row *row,
                             struct lull_error *err)
{
    char line[LULL_SWEEP_LINE];
    const size_t length = lull_sweep_row_write(row, line);

    return write_whole(output, line, length, err);
}

/* ---- the sidecar --------------------------------------------------------------------------- */

int lull_sweep_sidecar_write(const char *path, const json_t *sidecar, struct lull_error *err)
{
    char *const text = json_dumps(sidecar, JSON_INDENT(2));
    int result;

    if (text == NULL)
        return lull_error_set(err, -ENOMEM, "%s: not enough memory to write it", path);
    result = lull_file_write_atomic(path, text, strlen(text), 0644, err);
    free(text);
    return result;
}

int lull_sweep_sidecar_read(const char *path, json_t **sidecar_out, struct lull_error *err)
{
    json_error_t error;
    json_t *sidecar;
    const char *schema;
    char *text;
    size_t size;
    const int result = lull_file_read(path, SIDECAR_MAX, &text, &size, err);

    if (result < 0)
        return result;
    sidecar = json_loadb(text, size, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (sidecar == NULL)
        return lull_error_set(err, LULL_E_FORMAT, "%s: line %d: %s", path, error.line, error.text);
    schema = json_string_value(json_object_get(sidecar, "schema"));
    if (schema == NULL || strcmp(schema, LULL_SWEEP_SCHEMA) != 0) {
        json_decref(sidecar);
        return lull_error_set(err, LULL_E_FORMAT, "%s: schema: it is not \"%s\"", path,
                              LULL_SWEEP_SCHEMA);
    }
    *sidecar_out = sidecar;
    return 0;
}
