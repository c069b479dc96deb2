/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"

/* A default, not measured: a file system under load answers within a second, and a job may be
 * delayed by this much for each path. */
enum { ANSWER_MS = 2000 };

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
}

/* The process that looks. Nothing but the pipe may stay open in it: it may outlive the run, whose
 * output, leases and locks must not wait for it. */
_Noreturn static void look_and_end(const char *path, int pipe_fd)
{
    char above[PATH_MAX];

    if (pipe_fd > 0)
        lull_process_close_range(0, (unsigned int)pipe_fd - 1);
    lull_process_close_range((unsigned int)pipe_fd + 1, UINT_MAX);
    look_at(path);
    if (strlen(path) < sizeof(above)) {
        memcpy(above, path, strlen(path) + 1);
        look_at(dirname(above));
    }
    _exit(0);
}

/* Waits until no process has the other end of the pipe any more. */
static bool is_ended(int pipe_fd)
{
    const int64_t until_ns = lull_now_ns() + ANSWER_MS * LULL_NS_PER_MS;
    struct pollfd polled = {.fd = pipe_fd};
    int result;

    do {
        const int64_t left_ns = until_ns - lull_now_ns();

        result = poll(&polled, 1, left_ns > 0 ? (int)(left_ns / LULL_NS_PER_MS) + 1 : 0);
    } while (result < 0 && errno == EINTR);
    return result == 1;
}

int lull_path_check(const char *path, struct lull_error *err)
{
    int ends[2];
    bool has_answered;
    pid_t pid;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return lull_error_set(err, -errno, "%s: cannot look at it: %s", path, strerror(errno));
    pid = fork();
    if (pid == 0)
        look_and_end(path, ends[1]);
    close(ends[1]);
    if (pid < 0) {
        const int code = errno;

        close(ends[0]);
        return lull_error_set(err, -code, "%s: cannot look at it: %s", path, strerror(code));
    }
    has_answered = is_ended(ends[0]);
    close(ends[0]);
    if (!has_answered)
        kill(pid, SIGKILL);
    /* The kernel ends the other one when its call returns. */
    waitpid(pid, NULL, has_answered ? 0 : WNOHANG);
    if (has_answered)
        return 0;
    return lull_error_set(
        err, -ETIMEDOUT, "%s: its file system does not answer; see whether its server is up", path);
}
