/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

/* ---- processes that are left behind -------------------------------------------------------- */

/* A caller that tries again and again must not leave a process behind each time. */
enum { MAX_LATE = 16 };

static struct late {
    pid_t pid; /* 0: none */
    char path[PATH_MAX];
} late[MAX_LATE];

static pthread_mutex_t late_lock = PTHREAD_MUTEX_INITIALIZER;

/* Remembers a process that hangs. One more than fits is forgotten. */
static void late_add(pid_t pid, const char *path)
{
    pthread_mutex_lock(&late_lock);
    for (size_t i = 0; i < MAX_LATE; i++)
        if (late[i].pid == 0) {
            late[i].pid = pid;
            snprintf(late[i].path, sizeof(late[i].path), "%s", path);
            break;
        }
    pthread_mutex_unlock(&late_lock);
}

/* Returns whether a process of this path still hangs, and reaps those that have ended. */
static bool late_has(const char *path)
{
    bool is_late = false;

    pthread_mutex_lock(&late_lock);
    for (size_t i = 0; i < MAX_LATE; i++) {
        if (late[i].pid != 0 && waitpid(late[i].pid, NULL, WNOHANG) != 0)
            late[i].pid = 0;
        if (late[i].pid != 0 && strcmp(late[i].path, path) == 0)
            is_late = true;
    }
    pthread_mutex_unlock(&late_lock);
    return is_late;
}

/* ---- the process --------------------------------------------------------------------------- */

/* In memory that the process shares with its parent. */
struct path_answer {
    bool has_ended;
    int result;
    struct lull_error err;
    _Alignas(max_align_t) char context[];
};

/* Nothing but the pipe may stay open in the process: it may outlive the run, whose output, leases
 * and locks must not wait for it. */
_Noreturn static void path_work_and_end(int pipe_fd,
                                        int (*work)(void *context, struct lull_error *err),
                                        struct path_answer *answer)
{
    lull_process_close_others(pipe_fd);
    answer->result = work(answer->context, &answer->err);
    answer->has_ended = true;
    _exit(0);
}

/* Waits until no process has the other end of the pipe any more. */
static bool is_ended(int pipe_fd, int wait_ms)
{
    const int64_t until_ns = lull_now_ns() + wait_ms * LULL_NS_PER_MS;
    struct pollfd polled = {.fd = pipe_fd};
    int result;

    do {
        const int64_t left_ns = until_ns - lull_now_ns();

        result = poll(&polled, 1, left_ns > 0 ? (int)(left_ns / LULL_NS_PER_MS) + 1 : 0);
    } while (result < 0 && errno == EINTR);
    return result == 1;
}

/* Runs the work in a process. Errors: -ETIMEDOUT; -errno none was started. */
static int path_run(const char *path, int wait_ms,
                    int (*work)(void *context, struct lull_error *err), struct path_answer *answer)
{
    int ends[2];
    bool has_answered;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -errno;
    pid = fork();
    if (pid == 0)
        path_work_and_end(ends[1], work, answer);
    close(ends[1]);
    if (pid < 0) {
        const int code = errno;

        close(ends[0]);
        return -code;
    }
    has_answered = is_ended(ends[0], wait_ms);
    close(ends[0]);
    if (has_answered) {
        waitpid(pid, NULL, 0);
        return 0;
    }
    /* The kernel ends it when its call returns. */
    kill(pid, SIGKILL);
    late_add(pid, path);
    return -ETIMEDOUT;
}

int lull_path_do(const char *path, int wait_ms, int (*work)(void *context, struct lull_error *err),
                 void *context, size_t size, struct lull_error *err)
{
    const size_t bytes = sizeof(struct path_answer) + size;
    struct path_answer *answer;
    int result = -ETIMEDOUT;

    answer = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (answer == MAP_FAILED)
        return lull_error_set(err, -errno, "%s: not enough memory to access it", path);
    if (size > 0)
        memcpy(answer->context, context, size);
    if (!late_has(path))
        result = path_run(path, wait_ms, work, answer);
    if (result == -ETIMEDOUT) {
        lull_error_set(err, result,
                       "%s: its file system does not answer; see whether its server is up", path);
    } else if (result < 0) {
        lull_error_set(err, result, "%s: cannot start a process that accesses it: %s", path,
                       strerror(-result));
    } else if (!answer->has_ended) {
        result = lull_error_set(err, -EIO, "%s: the process that accessed it was killed", path);
    } else {
        result = answer->result;
        if (result < 0 && err != NULL)
            *err = answer->err;
        if (size > 0)
            memcpy(context, answer->context, size);
    }
    munmap(answer, bytes);
    return result;
}

/* ---- to look ------------------------------------------------------------------------------- */

/* Opens a path, if it is a file or a directory, and reads a byte of it. */
static void look_at(const char *path)
{
    struct stat status;
    char byte;
    int fd;

    if (stat(path, &status) < 0 || (!S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode)))
        return;
    fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0 && read(fd, &byte, 1) < 0)
        errno = 0; /* an error is an answer as well */
    if (fd >= 0)
        close(fd);
}

static int path_look(void *context, struct lull_error *err)
{
    const char *const path = *(const char **)context;
    char above[PATH_MAX];

    (void)err;
    look_at(path);
    if (strlen(path) < sizeof(above)) {
        memcpy(above, path, strlen(path) + 1);
        look_at(dirname(above));
    }
    return 0;
}

int lull_path_check(const char *path, struct lull_error *err)
{
    return lull_path_do(path, LULL_PATH_LOOK_MS, path_look, (void *)&path, sizeof(path), err);
}

/* ---- to read ------------------------------------------------------------------------------- */

struct path_reading {
    const char *path;
    char *shared; /* of limit + 1 bytes */
    size_t limit;
    size_t size;
};

static int path_read_file(void *context, struct lull_error *err)
{
    struct path_reading *const reading = context;
    char *data;
    const int result = lull_file_read(reading->path, reading->limit, &data, &reading->size, err);

    if (result < 0)
        return result;
    assert(reading->size <= reading->limit);
    memcpy(reading->shared, data, reading->size);
    free(data);
    return 0;
}

int lull_path_read(const char *path, size_t limit, int wait_ms, char **data_out, size_t *size_out,
                   struct lull_error *err)
{
    struct path_reading reading = {.path = path, .limit = limit};
    char *data = NULL;
    int result;

    reading.shared =
        mmap(NULL, limit + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (reading.shared == MAP_FAILED)
        return lull_error_set(err, -errno, "%s: not enough memory to read it", path);
    result = lull_path_do(path, wait_ms, path_read_file, &reading, sizeof(reading), err);
    if (result == 0) {
        data = malloc(reading.size + 1);
        if (data == NULL)
            result = lull_error_set(err, -ENOMEM, "%s: not enough memory to read it", path);
    }
    if (data != NULL) {
        memcpy(data, reading.shared, reading.size);
        data[reading.size] = '\0';
        *data_out = data;
        *size_out = reading.size;
    }
    munmap(reading.shared, limit + 1);
    return result;
}

/* ---- to write ------------------------------------------------------------------------------ */

struct path_writing {
    const char *path;
    const char *data;
    size_t size;
    mode_t mode;
};

static int path_write_file(void *context, struct lull_error *err)
{
    const struct path_writing *const writing = context;

    return lull_file_write_atomic(writing->path, writing->data, writing->size, writing->mode, err);
}

int lull_path_write(const char *path, const char *data, size_t size, mode_t mode, int wait_ms,
                    struct lull_error *err)
{
    struct path_writing writing = {path, data, size, mode};

    /* The process has no standard output, and devices are on no file system of a user. */
    if (strncmp(path, "/dev/", strlen("/dev/")) == 0)
        return path_write_file(&writing, err);
    return lull_path_do(path, wait_ms, path_write_file, &writing, sizeof(writing), err);
}
