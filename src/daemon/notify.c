/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/notify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"

/* A writer that was busy at one feeding has three more before the manager's time is over. */
enum { FEEDINGS = 4, US_PER_MS = 1000 };

void lull_notify_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = path == NULL ? 0 : strlen(path);
    int fd;

    if (length == 0 || length >= sizeof(address.sun_path))
        return;
    memcpy(address.sun_path, path, length);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    /* The loop must not wait for a manager whose queue is full. */
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL | MSG_DONTWAIT, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "NOTIFY_SOCKET: %s", strerror(errno));
    close(fd);
}

/* Returns the watchdog period that the manager requests, us; 0: it requests none of this process.
 */
static uint64_t wanted_us(void)
{
    const char *const period = getenv("WATCHDOG_USEC");
    const char *const pid = getenv("WATCHDOG_PID");

    if (period == NULL || (pid != NULL && strtol(pid, NULL, 10) != (long)getpid()))
        return 0;
    return strtoull(period, NULL, 10);
}

static void on_feeding(uv_timer_t *timer)
{
    const struct lull_watchdog *const watchdog = timer->data;

    if (lull_writer_answers(watchdog->writer))
        lull_notify_manager("WATCHDOG=1");
}

void lull_watchdog_start(struct lull_watchdog *watchdog, uv_loop_t *loop,
                         struct lull_writer *writer)
{
    const uint64_t period_ms = wanted_us() / FEEDINGS / US_PER_MS;

    watchdog->writer = writer;
    watchdog->timer.data = watchdog;
    uv_timer_init(loop, &watchdog->timer);
    if (period_ms > 0)
        uv_timer_start(&watchdog->timer, on_feeding, period_ms, period_ms);
}

void lull_watchdog_stop(struct lull_watchdog *watchdog)
{
    uv_timer_stop(&watchdog->timer);
}
