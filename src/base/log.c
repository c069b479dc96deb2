/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/output.h"
#include "base/printable.h"

static const char *const level_names[] = {"error", "warning", "info", "debug"};

/* The filter of the whole process, which is written at the start and read everywhere. */
static atomic_int enabled_level = LULL_LOG_WARNING;

/* Standard error, opened again: O_NONBLOCK on descriptor 2 itself would hold for all processes
 * that share it, and the job's own output would be lost. */
static atomic_int own_fd = -1;
static atomic_bool is_socket;
static atomic_uint_fast64_t lost; /* messages */

static void open_own(void)
{
    struct stat status;
    int fd = atomic_exchange(&own_fd, -1);

    if (fd >= 0)
        close(fd);
    if (fstat(STDERR_FILENO, &status) < 0)
        return;
    atomic_store(&is_socket, S_ISSOCK(status.st_mode));
    if (!S_ISFIFO(status.st_mode) && isatty(STDERR_FILENO) != 1)
        return;
    fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (fd >= 0)
        atomic_store(&own_fd, fd);
}

void lull_log_init(enum lull_log_level fallback)
{
    const char *wanted = getenv("LULL_LOG");

    lull_output_reserve();
    atomic_store(&enabled_level, (int)fallback);
    for (int i = 0; wanted != NULL && i <= LULL_LOG_DEBUG; i++)
        if (strcmp(wanted, level_names[i]) == 0)
            atomic_store(&enabled_level, i);
    open_own();
}

static bool is_writable(int fd, int64_t wait_ns)
{
    struct pollfd polled = {.fd = fd, .events = POLLOUT};

    return poll(&polled, 1, (int)(wait_ns / LULL_NS_PER_MS)) == 1 &&
           (polled.revents & POLLOUT) != 0;
}

/* Writes what is taken now of at most PIPE_BUF bytes. Errors: -errno, nothing was. */
static ssize_t write_now(const char *text, size_t size)
{
    const int fd = atomic_load(&own_fd);
    ssize_t written;

    if (fd >= 0) {
        written = write(fd, text, size);
    } else if (atomic_load(&is_socket)) {
        written = send(STDERR_FILENO, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    } else {
        /* A descriptor that could not be reopened accepts this much if it is writable, unless
         * another program writes to it at the same moment. */
        if (!is_writable(STDERR_FILENO, 0))
            return -EAGAIN;
        written = write(STDERR_FILENO, text, size);
    }
    return written < 0 ? -errno : written;
}

/* Says how many messages were lost. False: that cannot be said now either. */
static bool log_report_lost(void)
{
    const uint64_t count = atomic_exchange(&lost, 0);
    char line[96];
    int length;

    if (count == 0)
        return true;
    length =
        snprintf(line, sizeof(line),
                 "lull: %" PRIu64 " messages were lost: the log was not read in time\n", count);
    if (write_now(line, (size_t)length) > 0)
        return true;
    atomic_fetch_add(&lost, count);
    return false;
}

void lull_log(enum lull_log_level level, const char *object, const char *format, ...)
{
    char text[400];
    char shown[480];
    char line[512];
    va_list args;
    int length;

    if ((int)level > atomic_load(&enabled_level))
        return;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lull_printable_write(text, shown, sizeof(shown));
    length =
        snprintf(line, sizeof(line), "%s%s: %s: %s\n",
                 strncmp(object, "lull", 4) == 0 ? "" : "lull ", object, level_names[level], shown);
    if (length > (int)sizeof(line) - 1)
        length = (int)sizeof(line) - 1;
    /* The line is one write, so that lines of several processes do not mix. */
    if (!log_report_lost() || write_now(line, (size_t)length) < 0)
        atomic_fetch_add(&lost, 1);
}

void lull_log_text(const char *text, size_t size, int64_t until_ns)
{
    const int fd = atomic_load(&own_fd) >= 0 ? atomic_load(&own_fd) : STDERR_FILENO;

    while (size > 0) {
        /* A pipe that has room at all takes this much. */
        const size_t piece = size < PIPE_BUF ? size : PIPE_BUF;
        const ssize_t written = write_now(text, piece);
        const int64_t now_ns = lull_now_ns();

        if (written > 0) {
            text += written;
            size -= (size_t)written;
        } else if ((written != -EAGAIN && written != -EINTR) || now_ns >= until_ns ||
                   !is_writable(fd, until_ns - now_ns)) {
            return;
        }
    }
}
