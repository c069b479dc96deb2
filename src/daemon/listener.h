/*
 * A socket that lulld listens on. There are two. One is for all users, and its rate of connections
 * is bounded. The other one can be opened by root only, so that an administrator's `lull restore`
 * never waits behind other users' connections. Threads: the loop's.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_LISTENER_H
#define LULL_DAEMON_LISTENER_H

#include <stdbool.h>
#include <sys/types.h>
#include <sys/un.h>
#include <uv.h>

#include "base/bucket.h"
#include "base/error.h"
#include "daemon/quota.h"

struct lull_listener_options {
    const char *path;
    mode_t mode;
    gid_t group; /* (gid_t)-1: the one that the socket is created with */
    bool is_bounded;
    /* Takes over a connected socket. */
    void (*admit)(void *context, int fd);
    /* Returns whether no connection may be accepted for now. */
    bool (*is_full)(void *context);
    /* Takes over the socket of a client that is refused because descriptors ran out. -1: it could
     * not be accepted either. */
    void (*exhausted)(void *context, int fd);
    void *context;
};

/* All zero but fd and spare_fd (-1) before open. */
struct lull_listener {
    struct lull_listener_options options;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int fd;
    int spare_fd; /* is closed for a moment to refuse a client when descriptors run out */
    uv_poll_t input;
    uv_timer_t pause;
    struct lull_bucket accepts;
};

/* Listens; options.path is copied. A socket that a dead daemon left is replaced. Errors: -errno;
 * -ENAMETOOLONG. */
int lull_listener_open(struct lull_listener *listener, const struct lull_listener_options *options,
                       struct lull_error *err);

/* Accepts on loop from now on. Errors: those of libuv; the handles are closed with the loop. */
int lull_listener_start(struct lull_listener *listener, uv_loop_t *loop);

/* Removes the socket's file, so that new clients fail at once. */
void lull_listener_hide(const struct lull_listener *listener);

/* Closes what open has opened; harmless twice. The handles must be closed already. */
void lull_listener_close(struct lull_listener *listener);

#endif
