/*
 * Notifications to the service manager that has started lulld, by systemd's protocol: one datagram
 * to the socket that NOTIFY_SOCKET names. Without such a socket nothing is sent. Threads: the
 * server's. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_NOTIFY_H
#define LULL_DAEMON_NOTIFY_H

#include <uv.h>

#include "device/writer.h"

/* Sends a state such as READY=1. A failure is logged. */
void lull_notify_manager(const char *state);

/* Feeds the manager's watchdog. */
struct lull_watchdog {
    uv_timer_t timer;
    struct lull_writer *writer;
};

/*
 * Begins to feed, four times as often as the manager requests (WATCHDOG_USEC), from the loop and
 * only while the writer answers: if either hangs, the manager kills and restarts the daemon. Does
 * nothing where no manager requests it. Borrows writer until stop.
 */
void lull_watchdog_start(struct lull_watchdog *watchdog, uv_loop_t *loop,
                         struct lull_writer *writer);

/* Ends feeding; the timer is closed with the loop's other handles. */
void lull_watchdog_stop(struct lull_watchdog *watchdog);

#endif
