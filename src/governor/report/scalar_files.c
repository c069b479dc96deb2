/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/scalar_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"
#include "trace/event_file.h"

enum { EVENTS, LINES, FILES };

/* Time that the beginning of a job waits for the files to open. */
static const int64_t open_ns = LULL_NS_PER_S;

struct scalar_file {
    int fd;      /* -1: it is not written any more */
    off_t whole; /* end of its last whole row */
    char path[PATH_MAX];
};

struct lull_scalar_files {
    int fd;        /* to the other process: rows there, messages of struct lull_error back */
    double unix_s; /* of the beginning */
    char folder[PATH_MAX];
    struct lull_scalar scalars[LULL_SCALARS_MAX];
    uint32_t count;

    /* the owner's */
    pid_t pid;
    uint64_t lost; /* rows */
    bool is_lost_logged;
    bool is_over;              /* the other process writes no more */
    struct lull_error failure; /* code 0: there is none */

    /* the other process's */
    struct scalar_file files[FILES];
    bool is_described[LULL_SCALARS_MAX]; /* in the event file */
};

/* ---- files, in the other process ----------------------------------------------------------- */

/* Reports to the owner. code 0: the files are open. */
static void scalar_files_send(const struct lull_scalar_files *files, const struct lull_error *err)
{
    send(files->fd, err, sizeof(*err), MSG_NOSIGNAL);
}

static void scalar_files_report(struct lull_scalar_files *files, int code, const char *path)
{
    struct lull_error err = {0};

    lull_error_set(&err, code, "%.200s: %s; the job runs on, and no more scalars are written there",
                   path, strerror(-code));
    scalar_files_send(files, &err);
}

/* Removes an incomplete last row, so that readers do not find it, unless another program has
 * written after it. */
static void scalar_files_truncate(const struct scalar_file *file, size_t done)
{
    struct stat info;

    if (fstat(file->fd, &info) == 0 && info.st_size == file->whole + (off_t)done && done > 0 &&
        ftruncate(file->fd, file->whole) < 0)
        return; /* the full disk is still reported if the file cannot be truncated */
}

static void scalar_files_append(struct lull_scalar_files *files, struct scalar_file *file,
                                const char *text, size_t size)
{
    size_t done = 0;

    while (done < size) {
        const ssize_t written = write(file->fd, text + done, size - done);

        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0) {
            const int code = written < 0 ? -errno : -ENOSPC;

            scalar_files_truncate(file, done);
            close(file->fd);
            file->fd = -1;
            scalar_files_report(files, code, file->path);
            return;
        }
        done += (size_t)written;
    }
    file->whole += (off_t)size;
}

static int scalar_files_write_line(const struct lull_scalar_files *files,
                                   const struct lull_scalar_row *row, FILE *out)
{
    fprintf(out, "{\"time_unix_s\": %.3f, \"step\": %" PRId64, row->unix_s, row->step);
    for (uint32_t i = 0; i < files->count; i++) {
        fprintf(out, ", \"%s\": ", files->scalars[i].name);
        if (isfinite(row->values[i]))
            fprintf(out, "%.9g", row->values[i]);
        else
            fprintf(out, "null");
    }
    fprintf(out, "}\n");
    return 0;
}

static int scalar_files_write_events(struct lull_scalar_files *files,
                                     const struct lull_scalar_row *row, FILE *out)
{
    struct lull_event_scalar known[LULL_SCALARS_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < files->count; i++) {
        if (!isfinite(row->values[i]))
            continue;
        known[count++] = (struct lull_event_scalar){
            .tag = files->scalars[i].name,
            .value = (float)row->values[i],
            .description = files->is_described[i] ? NULL : files->scalars[i].help};
        files->is_described[i] = true;
    }
    return count == 0 ? 0 : lull_event_file_add(out, row->unix_s, row->step, known, count);
}

static void scalar_files_write_row(struct lull_scalar_files *files,
                                   const struct lull_scalar_row *row)
{
    for (int kind = 0; kind < FILES; kind++) {
        struct scalar_file *const file = &files->files[kind];
        char *text = NULL;
        size_t size = 0;
        FILE *const out = file->fd < 0 ? NULL : open_memstream(&text, &size);
        int result;

        if (out == NULL)
            continue;
        result = kind == EVENTS ? scalar_files_write_events(files, row, out)
                                : scalar_files_write_line(files, row, out);
        if (fclose(out) == 0 && result == 0)
            scalar_files_append(files, file, text, size);
        free(text);
    }
}

static int scalar_files_open(struct scalar_file *file, const char *folder, const char *name,
                             struct lull_error *err)
{
    struct stat status;

    if ((size_t)snprintf(file->path, sizeof(file->path), "%s/%s", folder, name) >=
        sizeof(file->path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder);
    file->fd =
        open(file->path, O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0644);
    if (file->fd < 0)
        return lull_error_set(err, -errno, "%s: %s", file->path, strerror(errno));
    if (fstat(file->fd, &status) < 0 || (!S_ISREG(status.st_mode) && !S_ISCHR(status.st_mode))) {
        close(file->fd);
        file->fd = -1;
        return lull_error_set(err, -EINVAL,
                              "%s: neither a file nor a device; choose another folder", file->path);
    }
    file->whole = lseek(file->fd, 0, SEEK_END);
    return 0;
}

/* TensorBoard looks for "tfevents" and shows files of one folder as one run, by the time in their
 * names. */
static int open_files(struct lull_scalar_files *files, struct lull_error *err)
{
    const char *const folder = files->folder;
    char host[64] = "node";
    char name[160];
    char *text = NULL;
    size_t size = 0;
    FILE *out;
    int result = lull_file_make_directory(folder, 0777, err);

    if (result < 0)
        return result;
    gethostname(host, sizeof(host) - 1);
    snprintf(name, sizeof(name), "events.out.tfevents.%010.0f.%s.%d.lull", files->unix_s, host,
             (int)getpid());
    result = scalar_files_open(&files->files[LINES], folder, "scalars.jsonl", err);
    if (result == 0)
        result = scalar_files_open(&files->files[EVENTS], folder, name, err);
    if (result < 0)
        return result;
    out = open_memstream(&text, &size);
    if (out == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for scalars", folder);
    result = lull_event_file_begin(out, files->unix_s);
    if (fclose(out) == 0 && result == 0)
        scalar_files_append(files, &files->files[EVENTS], text, size);
    free(text);
    return result;
}

static _Noreturn void scalar_files_serve(struct lull_scalar_files *files)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    struct lull_scalar_row row;
    struct lull_error err = {0};

    lull_process_close_others(files->fd);
    /* A signal to the whole process group ends the job; the rows up to its end are still written.
     */
    for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++)
        signal(signals[i], SIG_IGN);
    open_files(files, &err);
    scalar_files_send(files, &err);
    while (err.code == 0 && recv(files->fd, &row, sizeof(row), 0) == (ssize_t)sizeof(row))
        scalar_files_write_row(files, &row);
    for (int kind = 0; kind < FILES; kind++)
        if (files->files[kind].fd >= 0)
            close(files->files[kind].fd);
    _exit(0);
}

/* ---- the owner --------------------------------------------------------------------------- */

/* Takes messages of the other process until one has arrived, it has ended, or until_ns has passed.
 * Returns whether it was one of the first two. */
static bool scalar_files_hear(struct lull_scalar_files *files, int64_t until_ns)
{
    struct pollfd polled = {.fd = files->fd, .events = POLLIN};
    struct lull_error err;
    ssize_t got;
    int result;

    do {
        const int64_t left_ns = until_ns - lull_now_ns();

        result = poll(&polled, 1, left_ns > 0 ? (int)(left_ns / LULL_NS_PER_MS) + 1 : 0);
    } while (result < 0 && errno == EINTR);
    if (result <= 0)
        return false;
    got = recv(files->fd, &err, sizeof(err), MSG_DONTWAIT);
    if (got != (ssize_t)sizeof(err))
        files->is_over = true;
    else if (err.code != 0 && files->failure.code == 0)
        files->failure = err;
    return true;
}

/* Ends the owner's side. A process that hangs ends when its call returns. */
static void scalar_files_destroy(struct lull_scalar_files *files)
{
    close(files->fd);
    if (!files->is_over)
        kill(files->pid, SIGKILL);
    waitpid(files->pid, NULL, files->is_over ? 0 : WNOHANG);
    free(files);
}

/* Starts the other process. */
static int scalar_files_start(struct lull_scalar_files *files)
{
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) < 0)
        return -errno;
    files->pid = fork();
    if (files->pid == 0) {
        files->fd = ends[1];
        scalar_files_serve(files);
    }
    close(ends[1]);
    if (files->pid < 0) {
        const int code = errno;

        close(ends[0]);
        return -code;
    }
    files->fd = ends[0];
    return 0;
}

int lull_scalar_files_open(const char *folder, const struct lull_scalar *scalars, uint32_t count,
                           double unix_s, struct lull_scalar_files **files_out,
                           struct lull_error *err)
{
    struct lull_scalar_files *files;
    int result;

    if (strlen(folder) >= sizeof(files->folder))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder);
    files = calloc(1, sizeof(*files));
    if (files == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for scalars", folder);
    for (int kind = 0; kind < FILES; kind++)
        files->files[kind].fd = -1;
    files->count = count;
    files->unix_s = unix_s;
    memcpy(files->folder, folder, strlen(folder) + 1);
    memcpy(files->scalars, scalars, count * sizeof(*scalars));
    result = scalar_files_start(files);
    if (result < 0) {
        free(files);
        return lull_error_set(err, result, "%s: no process to write scalars: %s", folder,
                              strerror(-result));
    }
    scalar_files_hear(files, lull_now_ns() + open_ns);
    if (files->failure.code < 0) {
        result = files->failure.code;
        if (err != NULL)
            *err = files->failure;
        files->is_over = true;
        scalar_files_destroy(files);
        return result;
    }
    *files_out = files;
    return 0;
}

void lull_scalar_files_add(struct lull_scalar_files *files, const struct lull_scalar_row *row)
{
    if (!files->is_over &&
        send(files->fd, row, sizeof(*row), MSG_DONTWAIT | MSG_NOSIGNAL) != (ssize_t)sizeof(*row))
        files->lost++;
}

bool lull_scalar_files_take_error(struct lull_scalar_files *files, struct lull_error *text_out)
{
    bool is_logged = true;

    while (!files->is_over && scalar_files_hear(files, 0))
        continue;
    if (files->failure.code != 0) {
        *text_out = files->failure;
        files->failure.code = 0;
    } else if (files->lost > 0 && !files->is_lost_logged) {
        lull_error_set(text_out, -EAGAIN,
                       "%.200s: the disk is too slow; some scalars are missing, the job continues",
                       files->folder);
        files->is_lost_logged = true;
    } else {
        is_logged = false;
    }
    return is_logged;
}

void lull_scalar_files_close(struct lull_scalar_files *files, int64_t until_ns,
                             struct lull_error *text_out)
{
    if (files == NULL)
        return;
    shutdown(files->fd, SHUT_WR);
    while (!files->is_over && scalar_files_hear(files, until_ns))
        continue;
    if (files->is_over)
        lull_scalar_files_take_error(files, text_out);
    else
        lull_error_set(text_out, -ETIMEDOUT, "%.200s: the disk does not answer; its end is missing",
                       files->folder);
    scalar_files_destroy(files);
}
