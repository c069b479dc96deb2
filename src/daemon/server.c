/*
 * Serves what a client may ask, and ends its leases when it goes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/internal.h"
#include "daemon/lease.h"

/* A client that is late by five heartbeats has lost its leases; the numbers of connections are
 * bounds that no honest node comes near. Chosen, not measured. */
enum {
    LEASE_TTL_MS = 3000,
    HEARTBEAT_MS = 500,
    MAX_CONNECTIONS = 256,
    MAX_CONNECTIONS_PER_USER = 64,
    STOP_LIMIT_S = 5,
    NO_RESULT = 1, /* results are 0 or negative */
};

struct server {
    uv_loop_t loop;
    uv_poll_t listener;
    uv_timer_t expiry;
    uv_async_t wake;
    uv_signal_t terminate;
    uv_signal_t interrupt;
    int listen_fd;
    int spare_fd; /* is closed for a moment to refuse a client when descriptors run out */
    bool is_stopping;
    char socket_path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct lull_devices *devices;
    struct lull_writer *writer;
    struct lull_lease_table *leases;
    struct lull_connection *connections;
    uint64_t last_connection_id;
    uint64_t refused_senders;
    uint64_t settling; /* a bit per GPU whose lease has ended and that is not restored yet */
    /* What restoring each GPU came to, or NO_RESULT; set by the writer's thread. */
    atomic_int ended[LULL_DEVICE_MAX_GPUS];
};

uv_loop_t *lull_server_loop(struct server *server)
{
    return &server->loop;
}

struct lull_writer *lull_server_writer(struct server *server)
{
    return server->writer;
}

void lull_server_wake(struct server *server)
{
    uv_async_send(&server->wake);
}

static void on_lease_ended(void *context, uint32_t gpu, int result)
{
    struct server *server = context;

    atomic_store(&server->ended[gpu], result);
    lull_server_wake(server);
}

/* --- answers --- */

static void reply(struct lull_connection *connection, uint32_t sequence,
                  const struct lull_error *error)
{
    struct lull_message message = {.type = LULL_MESSAGE_REPLY, .sequence = sequence};

    message.body.reply.code = error->code;
    memcpy(message.body.reply.text, error->text, sizeof(message.body.reply.text));
    lull_connection_send(connection, &message, false);
}

static void reply_code(struct lull_connection *connection, uint32_t sequence, int code,
                       const char *text)
{
    struct lull_error error;

    lull_error_set(&error, code, "%s", text);
    reply(connection, sequence, &error);
}

static void finish_waiting(struct lull_connection *connection)
{
    reply_code(connection, connection->awaited_sequence, connection->awaited_result,
               connection->awaited_result == 0
                   ? ""
                   : "not every GPU could be restored; lulld goes on trying, see its log");
}

/* Answers a request once the GPUs in the mask are restored; at once if the mask is empty. */
static void reply_when_settled(struct lull_connection *connection, uint32_t sequence, uint64_t mask)
{
    if (connection->awaited != 0) {
        reply_code(connection, sequence, -EALREADY,
                   "an earlier request of this connection still waits for its answer");
        return;
    }
    connection->awaited = mask;
    connection->awaited_sequence = sequence;
    connection->awaited_result = 0;
    if (mask == 0)
        finish_waiting(connection);
}

/* --- leases --- */

static struct lull_connection *find_connection(struct server *server, uint64_t id)
{
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

static void on_expiry(uv_timer_t *timer);

static void plan_expiry(struct server *server)
{
    const int64_t next_ns = lull_lease_next_expiry_ns(server->leases);
    /* Rounded up, so that the lease has expired when the timer fires. */
    int64_t left_ms = (next_ns - lull_now_ns()) / LULL_NS_PER_MS + 1;

    if (next_ns == INT64_MAX)
        uv_timer_stop(&server->expiry);
    else {
        uv_update_time(&server->loop);
        uv_timer_start(&server->expiry, on_expiry, left_ms > 0 ? (uint64_t)left_ms : 0, 0);
    }
}

static void end_lease(struct server *server, uint32_t gpu)
{
    if (!lull_lease_end(server->leases, gpu))
        return;
    server->settling |= UINT64_C(1) << gpu;
    lull_writer_end(server->writer, gpu);
}

/* Ends a lease against its client's will, and tells it. */
static void revoke_lease(struct server *server, uint32_t gpu, int code, const char *why)
{
    const struct lull_lease *lease = lull_lease_find(server->leases, gpu);
    struct lull_message message = {.type = LULL_MESSAGE_REVOKED};
    struct lull_connection *connection;

    if (lease == NULL)
        return;
    connection = find_connection(server, lease->client);
    end_lease(server, gpu);
    lull_log(LULL_LOG_INFO, "lulld", "GPU %u: lease revoked: %s", gpu, why);
    message.body.revoked.slot = gpu;
    message.body.revoked.code = code;
    if (connection != NULL)
        lull_connection_send(connection, &message, false);
}

static void on_expiry(uv_timer_t *timer)
{
    struct server *server = timer->data;
    int gpu;

    while ((gpu = lull_lease_find_expired(server->leases, lull_now_ns())) >= 0)
        revoke_lease(server, (uint32_t)gpu, LULL_E_STALE, "no heartbeat");
    plan_expiry(server);
}

/* Finds the leases of a connection, a bit for each GPU; slot picks one of them or all. */
static uint64_t leases_of(const struct server *server, const struct lull_connection *connection,
                          uint32_t slot)
{
    uint64_t mask = 0;

    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        const struct lull_lease *lease = lull_lease_find(server->leases, gpu);

        if (lease != NULL && lease->client == connection->id &&
            (slot == LULL_MESSAGE_ALL_SLOTS || slot == gpu))
            mask |= UINT64_C(1) << gpu;
    }
    return mask;
}

static void end_leases(struct server *server, uint64_t mask)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        if ((mask >> gpu & 1) != 0)
            end_lease(server, gpu);
    plan_expiry(server);
}

void lull_server_forget(struct server *server, struct lull_connection *connection)
{
    uint64_t mask = leases_of(server, connection, LULL_MESSAGE_ALL_SLOTS);

    if (mask != 0)
        lull_log(LULL_LOG_INFO, "lulld", "client gone, its leases end (pid=%ld gpus=0x%llx)",
                 (long)connection->peer.pid, (unsigned long long)mask);
    end_leases(server, mask);
}

/* --- requests --- */

static int grant(struct server *server, struct lull_connection *connection,
                 const struct lull_message_lease *wanted, struct lull_message_grant *grant_out,
                 struct lull_error *err)
{
    struct lull_band band = {wanted->min_mhz, wanted->max_mhz, wanted->min_limit_mw,
                             wanted->max_limit_mw};
    int gpu = lull_device_find(server->devices, wanted->uuid);
    int result;

    if (gpu < 0)
        return lull_error_set(err, -ENODEV, "%s: no such GPU on this node; see lull gpus",
                              wanted->uuid);
    result = lull_device_fit_band(lull_device_info(server->devices, (uint32_t)gpu), &band, err);
    if (result < 0)
        return result;
    result = lull_connection_open_table(connection, server->writer, err);
    if (result < 0)
        return result;
    result = lull_lease_grant(server->leases, (uint32_t)gpu, connection->id, &band, lull_now_ns(),
                              LEASE_TTL_MS * LULL_NS_PER_MS, &grant_out->lease_id, err);
    if (result < 0)
        return result;
    lull_writer_grant(server->writer, (uint32_t)gpu, &connection->source, &band);
    plan_expiry(server);
    grant_out->slot = (uint32_t)gpu;
    grant_out->min_mhz = band.min_mhz;
    grant_out->max_mhz = band.max_mhz;
    lull_log(LULL_LOG_INFO, "lulld", "GPU %d: leased (pid=%ld uid=%u band=%u-%u MHz)", gpu,
             (long)connection->peer.pid, (unsigned int)connection->peer.uid, band.min_mhz,
             band.max_mhz);
    return 0;
}

static void serve_hello(struct server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    struct lull_message answer = {.type = LULL_MESSAGE_WELCOME, .sequence = message->sequence};

    connection->is_greeted = true;
    answer.body.welcome.gpu_count = lull_devices_count(server->devices);
    answer.body.welcome.lease_ttl_ms = LEASE_TTL_MS;
    answer.body.welcome.heartbeat_ms = HEARTBEAT_MS;
    lull_connection_send(connection, &answer, false);
}

static void serve_lease(struct server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    struct lull_message answer = {.type = LULL_MESSAGE_GRANT, .sequence = message->sequence};
    struct lull_error error;
    /* One table serves all leases of a connection, so it is passed with the first. */
    const bool is_first = !connection->is_table_passed;

    if (grant(server, connection, &message->body.lease, &answer.body.grant, &error) < 0) {
        reply(connection, message->sequence, &error);
        return;
    }
    connection->is_table_passed = true;
    lull_connection_send(connection, &answer, is_first);
}

static void serve_renew(struct server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    uint32_t count = lull_lease_renew(server->leases, connection->id, lull_now_ns(),
                                      LEASE_TTL_MS * LULL_NS_PER_MS);

    plan_expiry(server);
    reply_code(connection, message->sequence, (int)count, "");
}

static void serve_release(struct server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    const uint64_t mask = leases_of(server, connection, message->body.release.slot);

    end_leases(server, mask);
    reply_when_settled(connection, message->sequence, mask);
}

static void describe_lease(struct server *server, uint32_t gpu, struct lull_message_state *state)
{
    const struct lull_lease *lease = lull_lease_find(server->leases, gpu);
    const struct lull_connection *owner;
    int64_t left_ns;

    if (lease == NULL)
        return;
    owner = find_connection(server, lease->client);
    left_ns = lease->expires_ns - lull_now_ns();
    state->is_leased = 1;
    state->min_mhz = lease->band.min_mhz;
    state->max_mhz = lease->band.max_mhz;
    state->lease_left_ms = left_ns > 0 ? (uint32_t)(left_ns / LULL_NS_PER_MS) : 0;
    if (owner != NULL) {
        state->owner_uid = (uint32_t)owner->peer.uid;
        state->owner_pid = (uint32_t)owner->peer.pid;
    }
}

static void serve_status(struct server *server, struct lull_connection *connection,
                         const struct lull_message *message)
{
    const uint32_t gpu = message->body.status.gpu;
    struct lull_message answer = {.type = LULL_MESSAGE_STATE, .sequence = message->sequence};
    struct lull_message_state *state = &answer.body.state;
    struct lull_writer_state written;

    if (gpu >= lull_devices_count(server->devices)) {
        reply_code(connection, message->sequence, -ENODEV, "no such GPU on this node");
        return;
    }
    lull_writer_state(server->writer, gpu, &written);
    *state = (struct lull_message_state){
        .gpu = gpu,
        .gpu_count = lull_devices_count(server->devices),
        .applied_mhz = written.applied_mhz,
        .observed_mhz = written.observed_mhz,
        .status = written.status,
        .writes = written.writes,
        .dropped = written.dropped,
        .expired = written.expired,
        .failed = written.failed,
        .disobeyed = written.disobeyed,
        .limit_mw = written.limit_mw,
    };
    memcpy(state->uuid, lull_device_info(server->devices, gpu)->uuid, sizeof(state->uuid));
    memcpy(state->name, lull_device_info(server->devices, gpu)->name, sizeof(state->name));
    describe_lease(server, gpu, state);
    lull_connection_send(connection, &answer, false);
}

static void serve_restore(struct server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    if (connection->peer.uid != 0) {
        reply_code(connection, message->sequence, -EPERM,
                   "only root may take the GPUs from other clients");
        return;
    }
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++)
        revoke_lease(server, gpu, LULL_E_STALE, "restore asked by the administrator");
    plan_expiry(server);
    /* GPUs whose leases ended earlier are waited for as well: the caller wants all of them back. */
    reply_when_settled(connection, message->sequence, server->settling);
}

typedef void serve_function(struct server *, struct lull_connection *, const struct lull_message *);

static serve_function *const serve_functions[LULL_MESSAGE_TYPE_COUNT] = {
    [LULL_MESSAGE_HELLO] = serve_hello,   [LULL_MESSAGE_LEASE] = serve_lease,
    [LULL_MESSAGE_RENEW] = serve_renew,   [LULL_MESSAGE_RELEASE] = serve_release,
    [LULL_MESSAGE_STATUS] = serve_status, [LULL_MESSAGE_RESTORE] = serve_restore,
};

/* A forked child inherits the descriptor, but must not speak for its parent. */
static void refuse_sender(struct server *server, struct lull_connection *connection,
                          uint32_t sequence, pid_t sender)
{
    server->refused_senders++;
    /* Logged once, because a child that keeps asking would fill the log. */
    if (server->refused_senders == 1)
        lull_log(LULL_LOG_WARNING, "lulld",
                 "message from a process that did not connect refused (pid=%ld connected=%ld)",
                 (long)sender, (long)connection->peer.pid);
    reply_code(connection, sequence, -EPERM, "only the process that connected may ask");
}

void lull_server_serve(struct server *server, struct lull_connection *connection,
                       const uint8_t *packet, size_t size, pid_t sender)
{
    struct lull_message message;

    if (lull_message_decode(packet, size, &message) < 0) {
        lull_log(LULL_LOG_INFO, "lulld", "malformed message, client closed (pid=%ld)",
                 (long)connection->peer.pid);
        lull_connection_close(connection);
        return;
    }
    if (sender != connection->peer.pid) {
        refuse_sender(server, connection, message.sequence, sender);
        return;
    }
    /* A message that only the daemon sends, or one before HELLO, comes from no client of ours. */
    if (serve_functions[message.type] == NULL ||
        (!connection->is_greeted && message.type != LULL_MESSAGE_HELLO)) {
        lull_connection_close(connection);
        return;
    }
    serve_functions[message.type](server, connection, &message);
}

/* --- what the writer's thread reports --- */

static void settle(struct server *server, uint32_t gpu, int result)
{
    const uint64_t bit = UINT64_C(1) << gpu;

    server->settling &= ~bit;
    lull_lease_settle(server->leases, gpu);
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next) {
        if ((c->awaited & bit) == 0)
            continue;
        c->awaited &= ~bit;
        if (result < 0)
            c->awaited_result = result;
        if (c->awaited == 0)
            finish_waiting(c);
    }
}

static void reap_connections(struct server *server)
{
    struct lull_connection **link = &server->connections;

    while (*link != NULL) {
        struct lull_connection *next = (*link)->next;

        if (lull_connection_reap(*link))
            *link = next;
        else
            link = &(*link)->next;
    }
}

static void on_wake(uv_async_t *async)
{
    struct server *server = async->data;

    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        int result = atomic_exchange(&server->ended[gpu], NO_RESULT);

        if (result != NO_RESULT)
            settle(server, gpu, result);
    }
    reap_connections(server);
}

/* --- accepting --- */

static bool has_room(const struct server *server, uid_t uid)
{
    uint32_t total = 0;
    uint32_t of_user = 0;

    for (const struct lull_connection *c = server->connections; c != NULL; c = c->next) {
        total++;
        of_user += c->peer.uid == uid;
    }
    /* Root is never refused: it must be able to restore the GPUs at any time. */
    return uid == 0 || (total < MAX_CONNECTIONS && of_user < MAX_CONNECTIONS_PER_USER);
}

static void admit(struct server *server, int fd)
{
    struct lull_peer peer;
    struct lull_connection *connection;

    if (lull_peer_identify(fd, &peer, NULL) < 0) {
        close(fd); /* the process has ended before it was heard */
        return;
    }
    if (!has_room(server, peer.uid)) {
        lull_log(LULL_LOG_WARNING, "lulld", "too many connections, client refused (uid=%u)",
                 (unsigned int)peer.uid);
        close(fd);
        if (peer.pid_fd >= 0)
            close(peer.pid_fd);
        return;
    }
    connection = lull_connection_create(server, ++server->last_connection_id, fd, &peer);
    if (connection == NULL)
        return;
    connection->next = server->connections;
    server->connections = connection;
}

/* Without a free descriptor the waiting client would wake the loop for ever: refuse it. */
static void refuse_one(struct server *server)
{
    int fd;

    close(server->spare_fd);
    fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC);
    if (fd >= 0)
        close(fd);
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    lull_log(LULL_LOG_WARNING, "lulld", "no descriptors left, client refused");
}

static void on_connect(uv_poll_t *handle, int status, int events)
{
    struct server *server = handle->data;
    int fd;

    (void)status;
    (void)events;
    fd = accept4(server->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0)
        admit(server, fd);
    else if (errno == EMFILE || errno == ENFILE)
        refuse_one(server);
}

static int bind_socket(struct server *server, const struct lull_server_options *options)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int on = 1;
    const mode_t before = umask(0177); /* nobody else may connect until the mode is set */
    int result;

    memcpy(address.sun_path, server->socket_path, sizeof(address.sun_path));
    unlink(server->socket_path); /* this process holds the lock, so the socket is a dead daemon's */
    result = bind(server->listen_fd, (struct sockaddr *)&address, sizeof(address)) < 0 ? -errno : 0;
    umask(before);
    if (result < 0)
        return result;
    if (chown(server->socket_path, (uid_t)-1, options->socket_group) < 0 ||
        chmod(server->socket_path, options->socket_mode) < 0)
        return -errno;
    /* This comes before anyone can connect, because accepted sockets inherit it. */
    if (setsockopt(server->listen_fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) < 0 ||
        listen(server->listen_fd, 64) < 0)
        return -errno;
    return 0;
}

static int open_socket(struct server *server, const struct lull_server_options *options,
                       struct lull_error *err)
{
    int result;

    if ((size_t)snprintf(server->socket_path, sizeof(server->socket_path), "%s/lulld.sock",
                         options->runtime_dir) >= sizeof(server->socket_path))
        return lull_error_set(err, -ENAMETOOLONG, "%s: too long for a socket's path",
                              options->runtime_dir);
    server->spare_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    server->listen_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    result = server->listen_fd < 0 ? -errno : bind_socket(server, options);
    if (result < 0)
        return lull_error_set(err, result, "%s: cannot listen: %s", server->socket_path,
                              strerror(-result));
    return 0;
}

/* --- start and stop --- */

/* Tells systemd that the daemon is ready, by its protocol: one datagram to the socket that it
 * names. */
static void notify_manager(void)
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
    if (sendto(fd, "READY=1", 7, MSG_NOSIGNAL, (struct sockaddr *)&address,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length)) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "NOTIFY_SOCKET: %s", strerror(errno));
    close(fd);
}

static void announce(const struct server *server, const struct lull_server_options *options)
{
    lull_log(LULL_LOG_INFO, "lulld", "serving %u GPUs (socket=%s)",
             lull_devices_count(server->devices), server->socket_path);
    notify_manager();
    if (options->ready_fd < 0)
        return;
    if (write(options->ready_fd, "\n", 1) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "--ready-fd: %s", strerror(errno));
    close(options->ready_fd);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;

    (void)number;
    if (server->is_stopping)
        return;
    server->is_stopping = true;
    lull_log(LULL_LOG_INFO, "lulld", "stopping: raising and restoring every GPU");
    /* New clients fail at once from here on, instead of waiting for a daemon that ends. */
    unlink(server->socket_path);
    uv_stop(&server->loop);
}

static int start_handles(struct server *server)
{
    int result = uv_poll_init(&server->loop, &server->listener, server->listen_fd);

    server->listener.data = server;
    if (result < 0)
        return result;
    result = uv_poll_start(&server->listener, UV_READABLE, on_connect);
    if (result < 0)
        return result;
    result = uv_signal_start(&server->terminate, on_signal, SIGTERM);
    if (result < 0)
        return result;
    return uv_signal_start(&server->interrupt, on_signal, SIGINT);
}

static int init_loop(struct server *server)
{
    int result = uv_loop_init(&server->loop);

    if (result < 0)
        return result;
    uv_timer_init(&server->loop, &server->expiry);
    uv_signal_init(&server->loop, &server->terminate);
    uv_signal_init(&server->loop, &server->interrupt);
    result = uv_async_init(&server->loop, &server->wake, on_wake);
    server->expiry.data = server;
    server->terminate.data = server;
    server->interrupt.data = server;
    server->wake.data = server;
    return result;
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/* After the writer has stopped nothing holds a connection, which stop_serving() has closed, but its
 * own handles. */
static void fini_loop(struct server *server)
{
    while (server->connections != NULL) {
        uv_run(&server->loop, UV_RUN_NOWAIT);
        reap_connections(server);
    }
    uv_walk(&server->loop, close_handle, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
}

/* Puts all GPUs back and stops the writer. What a writer that is stuck in the driver uses is never
 * freed. */
static int stop_serving(struct server *server, struct lull_error *err)
{
    int result;

    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        lull_connection_close(c);
    result = lull_writer_stop(server->writer, STOP_LIMIT_S * LULL_NS_PER_S);
    if (result < 0)
        lull_error_set(err, result,
                       "not every GPU could be restored in %d s; the next start of lulld or "
                       "`lull restore` tries again",
                       STOP_LIMIT_S);
    return result;
}

static int serve_until_stopped(struct server *server, struct lull_journal *journal,
                               const struct lull_server_options *options, struct lull_error *err)
{
    struct lull_writer_options writer_options = lull_writer_defaults;
    int result;

    writer_options.keeper = options->keeper;
    writer_options.context = server;
    writer_options.ended = on_lease_ended;
    result = lull_writer_start(server->devices, journal, &writer_options, &server->writer, err);
    if (result < 0)
        return result;
    result = open_socket(server, options, err);
    if (result < 0)
        goto stop_writer;
    result = start_handles(server);
    if (result < 0) {
        lull_error_set(err, result, "event loop: %s", uv_strerror(result));
        goto stop_writer;
    }
    announce(server, options);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    return stop_serving(server, err);
stop_writer:
    lull_writer_stop(server->writer, LULL_NS_PER_S);
    return result;
}

int lull_server_run(struct lull_devices *devices, struct lull_journal *journal,
                    const struct lull_server_options *options, struct lull_error *err)
{
    struct server *server = calloc(1, sizeof(*server));
    int result;

    if (server == NULL)
        return lull_error_set(err, -ENOMEM, "there is no memory for the server");
    server->devices = devices;
    server->listen_fd = -1;
    server->spare_fd = -1;
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_init(&server->ended[gpu], NO_RESULT);
    server->leases = lull_lease_table_create(lull_devices_count(devices));
    result = server->leases == NULL ? -ENOMEM : init_loop(server);
    if (result < 0) {
        lull_lease_table_destroy(server->leases);
        free(server);
        return lull_error_set(err, result, "there is no memory for the event loop");
    }
    result = serve_until_stopped(server, journal, options, err);
    if (result == -EINPROGRESS)
        return result; /* the writer's thread may still use all of it */
    fini_loop(server);
    if (server->listen_fd >= 0)
        close(server->listen_fd);
    if (server->spare_fd >= 0)
        close(server->spare_fd);
    lull_lease_table_destroy(server->leases);
    free(server);
    return result;
}
