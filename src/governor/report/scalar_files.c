/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/report/scalar_files.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/thread.h"
#include "trace/event_file.h"

/* Rows that may wait: half a minute of them, at one a second. */
enum { QUEUE_ROWS = 32 };
enum { EVENTS, LINES, FILES };

/* How long the beginning of a job waits for the files to open. */
static const int64_t open_ns = LULL_NS_PER_S;

struct scalar_file {
    int fd;      /* -1: it is not written any more */
    off_t whole; /* where its last whole row ends */
    char path[PATH_MAX];
};

struct lull_scalar_files {
    pthread_mutex_t lock; /* guards the queue, the complaint and the flags, not the files */
    pthread_cond_t changed;
    pthread_t thread;
    struct lull_scalar_row rows[QUEUE_ROWS];
    uint32_t first; /* of the rows that wait */
    uint32_t waiting;
    uint64_t lost;
    struct lull_error failure; /* code 0: there is none */
    bool is_lost_logged;
    bool is_ending;
    bool is_over;
    bool is_given_up; /* the thread frees this */
    int opened;       /* 0: not yet; 1; -errno, and the complaint says why */

    double unix_s; /* of the beginning */
    char folder[PATH_MAX];
    struct scalar_file files[FILES]; /* the thread's */
    struct lull_scalar scalars[LULL_SCALARS_MAX];
    bool is_described[LULL_SCALARS_MAX]; /* in the event file */
    uint32_t count;
};

/* ---- files ------------------------------------------------------------------------------- */

static void scalar_files_report(struct lull_scalar_files *files, int code, const char *path)
{
    pthread_mutex_lock(&files->lock);
    lull_error_set(&files->failure, code,
                   "%.200s: %s; the job runs on, and no more scalars are written there", path,
                   strerror(-code));
    pthread_mutex_unlock(&files->lock);
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

/* ---- the thread -------------------------------------------------------------------------- */

static void scalar_files_finish(struct lull_scalar_files *files)
{
    for (int kind = 0; kind < FILES; kind++)
        if (files->files[kind].fd >= 0)
            close(files->files[kind].fd);
    pthread_cond_destroy(&files->changed);
    pthread_mutex_destroy(&files->lock);
    free(files);
}

static void *scalar_files_thread(void *argument)
{
    struct lull_scalar_files *const files = argument;
    struct lull_error err = {0};
    bool is_given_up;
    int opened;

    pthread_setname_np(pthread_self(), "lull-scalars");
    opened = open_files(files, &err);
    pthread_mutex_lock(&files->lock);
    files->opened = opened < 0 ? opened : 1;
    if (opened < 0)
        files->failure = err;
    pthread_cond_broadcast(&files->changed);
    for (;;) {
        struct lull_scalar_row row;

        while (files->waiting == 0 && !files->is_ending)
            pthread_cond_wait(&files->changed, &files->lock);
        if (files->waiting == 0)
            break;
        row = files->rows[files->first];
        files->first = (files->first + 1) % QUEUE_ROWS;
        files->waiting--;
        pthread_mutex_unlock(&files->lock);
        scalar_files_write_row(files, &row);
        pthread_mutex_lock(&files->lock);
    }
    files->is_over = true;
    is_given_up = files->is_given_up;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
    if (is_given_up)
        scalar_files_finish(files);
    return NULL;
}

/* ---- the owner --------------------------------------------------------------------------- */

static struct lull_scalar_files *scalar_files_create(void)
{
    struct lull_scalar_files *const files = calloc(1, sizeof(*files));

    if (files == NULL)
        return NULL;
    pthread_mutex_init(&files->lock, NULL);
    lull_thread_init_condition(&files->changed);
    for (int kind = 0; kind < FILES; kind++)
        files->files[kind].fd = -1;
    return files;
}

/* Waits for the thread to open the files. A file system that hangs does not hold up the job. */
static int wait_until_open(struct lull_scalar_files *files, struct lull_error *err)
{
    const struct timespec until = lull_timespec_from_ns(lull_now_ns() + open_ns);
    int opened;

    pthread_mutex_lock(&files->lock);
    while (files->opened == 0)
        if (pthread_cond_timedwait(&files->changed, &files->lock, &until) == ETIMEDOUT)
            break;
    opened = files->opened;
    if (opened < 0) {
        *err = files->failure;
        files->is_ending = true;
        pthread_cond_broadcast(&files->changed);
    }
    pthread_mutex_unlock(&files->lock);
    return opened < 0 ? opened : 0;
}

int lull_scalar_files_open(const char *folder, const struct lull_scalar *scalars, uint32_t count,
                           double unix_s, struct lull_scalar_files **files_out,
                           struct lull_error *err)
{
    struct lull_scalar_files *files;
    int result;

    if (strlen(folder) >= sizeof(files->folder))
        return lull_error_set(err, -ENAMETOOLONG, "%s: the path is too long", folder);
    files = scalar_files_create();
    if (files == NULL)
        return lull_error_set(err, -ENOMEM, "%s: no memory for scalars", folder);
    files->count = count;
    files->unix_s = unix_s;
    memcpy(files->folder, folder, strlen(folder) + 1);
    memcpy(files->scalars, scalars, count * sizeof(*scalars));
    result = lull_thread_start(&files->thread, scalar_files_thread, files);
    if (result < 0) {
        scalar_files_finish(files);
        return lull_error_set(err, result, "%s: no thread to write scalars: %s", folder,
                              strerror(-result));
    }
    result = wait_until_open(files, err);
    if (result < 0) {
        pthread_join(files->thread, NULL);
        scalar_files_finish(files);
        return result;
    }
    *files_out = files;
    return 0;
}

void lull_scalar_files_add(struct lull_scalar_files *files, const struct lull_scalar_row *row)
{
    pthread_mutex_lock(&files->lock);
    if (files->waiting < QUEUE_ROWS)
        files->rows[(files->first + files->waiting++) % QUEUE_ROWS] = *row;
    else
        files->lost++;
    pthread_cond_broadcast(&files->changed);
    pthread_mutex_unlock(&files->lock);
}

bool lull_scalar_files_take_error(struct lull_scalar_files *files, struct lull_error *text_out)
{
    bool is_logged = true;

    pthread_mutex_lock(&files->lock);
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
    pthread_mutex_unlock(&files->lock);
    return is_logged;
}

void lull_scalar_files_close(struct lull_scalar_files *files, int64_t until_ns,
                             struct lull_error *text_out)
{
    const struct timespec until = lull_timespec_from_ns(until_ns);
    bool is_over;

    if (files == NULL)
        return;
    pthread_mutex_lock(&files->lock);
    files->is_ending = true;
    pthread_cond_broadcast(&files->changed);
    while (!files->is_over)
        if (pthread_cond_timedwait(&files->changed, &files->lock, &until) == ETIMEDOUT)
            break;
    is_over = files->is_over;
    files->is_given_up = !is_over;
    if (!is_over) {
        lull_error_set(text_out, -ETIMEDOUT, "%.200s: the disk does not answer; its end is missing",
                       files->folder);
        pthread_detach(files->thread);
    }
    pthread_mutex_unlock(&files->lock);
    if (!is_over)
        return;
    pthread_join(files->thread, NULL);
    lull_scalar_files_take_error(files, text_out);
    scalar_files_finish(files);
}
