/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/listener.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/peer.h"

/* All clients wait in one queue, and the kernel reports a client's user only after it was accepted.
 * A flood is therefore accepted fast enough that thousands of clients in front of an honest one
 * delay it by less than the 2 s that it waits, and not faster: clients of the flood wait for the
 * queue, and each accept lets one of them use a processor again. Connected clients wait for one
 * turn of accepts at most. Chosen; docs/research/measurements/attacks.md has the measurement. */
enum {
    ACCEPTS_PER_S = 5000,
    ACCEPTS_IN_A_ROW = 400,
    ACCEPTS_PER_TURN = 4, /* before the clients that are connected get their turn */
    BACKLOG = 1024,
    PAUSE_MS = 1,
    EXHAUSTED_MS = 200,
};

static int bind_socket(struct lull_listener *listener)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int on = 1;
    const mode_t before = umask(0177); /* no other process may connect until the mode is set */
    int result;

    memcpy(address.sun_path, listener->path, sizeof(address.sun_path));
    unlink(listener->path); /* this process holds the lock, so the socket is a dead daemon's */
    result = bind(listener->fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    umask(before);
    if (result < 0)
        return result;
    if (chown(listener->path, (uid_t)-1, listener->options.group) < 0 ||
        chmod(listener->path, listener->options.mode) < 0)
        return -errno;
    /* These come before anyone can connect, because accepted sockets inherit them. */
    if (setsockopt(listener->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0)
        return -errno;
    lull_peer_refuse_descriptors(listener->fd);
    return listen(listener->fd, BACKLOG) < 0 ? -errno : 0;
}

int lull_listener_open(struct lull_listener *listener, const struct lull_listener_options *options,
                       struct lull_error *err)
{
    int result;

    listener->options = *options;
    listener->accepts = (struct lull_bucket){.interval_ns = LULL_NS_PER_S / ACCEPTS_PER_S,
                                             .burst = ACCEPTS_IN_A_ROW};
    if ((size_t)snprintf(listener->path, sizeof(listener->path), "%s", options->path) >=
        sizeof(listener->path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: too long for a socket's path",
                              options->path);
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    listener->fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    result = listener->fd < 0 ? -errno : bind_socket(listener);
    if (result < 0)
        return lull_error_set(err, result, "%s: cannot listen: %s", listener->path,
                              strerror(-result));
    return 0;
}

static void on_connect(uv_poll_t *handle, int status, int events);

static void on_pause_over(uv_timer_t *timer)
{
    struct lull_listener *const listener = timer->data;

    uv_poll_start(&listener->input, UV_READABLE, on_connect);
}

static void pause_accepting(struct lull_listener *listener, uint64_t pause_ms)
{
    uv_poll_stop(&listener->input);
    uv_timer_start(&listener->pause, on_pause_over, pause_ms, 0);
}

/* Without a free descriptor the waiting client would wake the loop for ever, so it is refused. */
static void refuse_one(struct lull_listener *listener)
{
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->options.exhausted(listener->options.context,
                                accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC));
    listener->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pause_accepting(listener, EXHAUSTED_MS);
}

/* Accepts a client; returns whether there may be another one to accept now. */
static bool accept_one(struct lull_listener *listener)
{
    int fd;

    if (listener->options.is_bounded && (listener->options.is_full(listener->options.context) ||
                                         !lull_bucket_take(&listener->accepts, lull_now_ns()))) {
        pause_accepting(listener, PAUSE_MS);
        return false;
    }
    fd = accept4(listener->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) {
        listener->options.admit(listener->options.context, fd);
        return true;
    }
    if (errno == EMFILE || errno == ENFILE)
        refuse_one(listener);
    return false;
}

static void on_connect(uv_poll_t *handle, int status, int events)
{
    struct lull_listener *const listener = handle->data;
    uint32_t count = 0;

    (void)status;
    (void)events;
    while (count < ACCEPTS_PER_TURN && accept_one(listener))
        count++;
}

int lull_listener_start(struct lull_listener *listener, uv_loop_t *loop)
{
    int result = uv_timer_init(loop, &listener->pause);

    listener->pause.data = listener;
    if (result == 0)
        result = uv_poll_init(loop, &listener->input, listener->fd);
    listener->input.data = listener;
    if (result == 0)
        result = uv_poll_start(&listener->input, UV_READABLE, on_connect);
    return result;
}

void lull_listener_hide(const struct lull_listener *listener)
{
    unlink(listener->path);
}

void lull_listener_close(struct lull_listener *listener)
{
    if (listener->fd >= 0)
        close(listener->fd);
    if (listener->spare_fd >= 0)
        close(listener->spare_fd);
    listener->fd = listener->spare_fd = -1;
}
