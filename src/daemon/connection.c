/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/connection.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "daemon/internal.h"

enum {
    PACKETS_PER_TURN = 16, /* of one client, before the others get their turn */
    PACKETS_OF_PROOF = 20, /* a proof costs as much as some packets */
};

/* A client that exceeds its share and then sends nothing for so long no longer exceeds it. */
#define CALM_NS (50 * LULL_NS_PER_MS)

/* Releases the connection, on any thread: after the subtraction it may be gone. */
static void connection_release(void *context)
{
    struct lull_connection *connection = context;
    struct lull_server *const server = connection->server;

    atomic_fetch_sub(&connection->open_handles, 1);
    lull_server_wake(server);
}

/* A descriptor is closed only when libuv has release it, because its number may be used again at
 * once. */
static void on_handle_closed(uv_handle_t *handle)
{
    struct lull_connection *connection = handle->data;

    if (handle == (uv_handle_t *)&connection->input) {
        lull_peer_close(lull_server_foreign(connection->server), connection->fd, connection_release,
                        connection);
        return;
    }
    close(connection->peer.pid_fd);
    connection_release(connection);
}

static void on_death(uv_poll_t *handle, int status, int events)
{
    (void)status;
    (void)events;
    lull_connection_close(handle->data);
}

static void on_input(uv_poll_t *handle, int status, int events);

static void connection_listen(struct lull_connection *connection)
{
    connection->resumed_ns = lull_now_ns();
    uv_poll_start(&connection->input, UV_READABLE | UV_DISCONNECT, on_input);
}

/* Root has a share for each connection, because its programs serve all users. */
static bool connection_may_ask(struct lull_connection *connection)
{
    const uid_t uid = connection->peer.uid;

    if (uid == 0)
        return lull_bucket_take(&connection->asking, lull_now_ns());
    return lull_quota_allows_packet(&connection->server->quota, uid, lull_now_ns());
}

/* Subtracts packets from the client's share, and pauses a client that has exceeded it. */
static void connection_charge(struct lull_connection *connection, int packets)
{
    for (int i = 0; i < packets; i++)
        if (!connection_may_ask(connection))
            connection->is_heavy = true;
    if (!connection->is_heavy)
        return;
    uv_poll_stop(&connection->input);
    lull_server_pause(connection->server, connection);
}

/* --- on the proof's thread --- */

static void proof_done(void *context)
{
    struct lull_connection *connection = context;

    atomic_store(&connection->is_proof_done, true);
    connection_release(connection);
}

/* --- on the loop's thread again --- */

/* The packet with the descriptors stays for the proof's thread, and so does all behind it. */
static int begin_proof(struct lull_connection *connection)
{
    struct lull_proof proof = {.uid = connection->peer.uid,
                               .sender = connection->peer.pid,
                               .result = &connection->proof,
                               .done = proof_done,
                               .context = connection};
    int result;

    if (!lull_server_prepare_proof(connection->server, &proof))
        return -EACCES;
    atomic_store(&connection->is_proof_done, false);
    atomic_fetch_add(&connection->open_handles, 1);
    result = lull_proof_start(lull_server_foreign(connection->server), connection->fd, &proof);
    if (result < 0) {
        atomic_fetch_sub(&connection->open_handles, 1);
        return result;
    }
    connection->is_proving = true;
    connection->server->proving_count++;
    connection_charge(connection, PACKETS_OF_PROOF);
    uv_poll_stop(&connection->input);
    return 0;
}

static void on_input(uv_poll_t *handle, int status, int events)
{
    struct lull_connection *connection = handle->data;
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];

    (void)events;
    if (lull_now_ns() - connection->resumed_ns >= CALM_NS)
        connection->is_heavy = false;
    for (int i = 0; i < PACKETS_PER_TURN && status == 0 && !connection->is_closing; i++) {
        pid_t sender = 0;
        const ssize_t size = lull_peer_receive(connection->fd, packet, sizeof(packet), &sender);

        if (size == -EAGAIN || (size == -EACCES && begin_proof(connection) == 0))
            return;
        if (size <= 0)
            status = -1;
        else
            lull_server_serve(connection->server, connection, packet, (size_t)size, sender);
        if (!connection->is_closing && status == 0)
            connection_charge(connection, 1);
        /* Most clients send one packet and wait; looking for another costs as much as reading it.
         * What is queued is read as a whole where the enforcer waits for that. */
        if (connection->is_paused || connection->server->reading_since_ns == 0)
            break;
    }
    if (status != 0)
        lull_connection_close(connection);
}

static int connection_watch_fd(struct lull_connection *connection, uv_poll_t *handle, int fd,
                               uv_poll_cb callback)
{
    int result = uv_poll_init(lull_server_loop(connection->server), handle, fd);

    if (result < 0)
        return result;
    handle->data = connection;
    atomic_fetch_add(&connection->open_handles, 1);
    return uv_poll_start(handle, UV_READABLE | UV_DISCONNECT, callback);
}

struct lull_connection *lull_connection_create(struct lull_server *server, uint64_t id, int fd,
                                               const struct lull_peer *peer)
{
    struct lull_connection *connection = calloc(1, sizeof(*connection));

    if (connection == NULL) {
        lull_peer_close(lull_server_foreign(server), fd, NULL, NULL);
        if (peer->pid_fd >= 0)
            close(peer->pid_fd);
        return NULL;
    }
    connection->server = server;
    connection->id = id;
    connection->fd = fd;
    connection->peer = *peer;
    connection->doorbell_fd = -1;
    connection->since_ns = lull_now_ns();
    connection->asking =
        (struct lull_bucket){.interval_ns = LULL_NS_PER_S / LULL_QUOTA_PACKETS_PER_S,
                             .burst = LULL_QUOTA_PACKETS_IN_A_ROW};
    if (connection_watch_fd(connection, &connection->input, fd, on_input) < 0 ||
        (peer->pid_fd >= 0 &&
         connection_watch_fd(connection, &connection->death, peer->pid_fd, on_death) < 0))
        lull_connection_close(connection);
    return connection;
}

void lull_connection_close(struct lull_connection *connection)
{
    if (connection->is_closing)
        return;
    connection->is_closing = true;
    connection->server->closing_count++;
    lull_server_forget(connection->server, connection);
    lull_server_unpause(connection->server, connection);
    lull_connection_close_doorbell(connection);
    if (connection->input.data != NULL)
        uv_close((uv_handle_t *)&connection->input, on_handle_closed);
    else
        lull_peer_close(lull_server_foreign(connection->server), connection->fd, NULL, NULL);
    if (connection->death.data != NULL)
        uv_close((uv_handle_t *)&connection->death, on_handle_closed);
    else if (connection->peer.pid_fd >= 0)
        close(connection->peer.pid_fd);
}

bool lull_connection_reap(struct lull_connection *connection)
{
    if (!connection->is_closing || atomic_load(&connection->open_handles) > 0 ||
        (connection->source_state != LULL_SOURCE_NONE &&
         !atomic_load(&connection->is_source_released)))
        return false;
    connection->server->proving_count -= connection->is_proving;
    lull_command_table_close(connection->table);
    free(connection->share);
    if (connection->doorbell_fd >= 0)
        close(connection->doorbell_fd);
    free(connection);
    return true;
}

void lull_connection_send(struct lull_connection *connection, const struct lull_message *message,
                          bool is_passing_table)
{
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    _Alignas(struct cmsghdr) char control_bytes[CMSG_SPACE(2 * sizeof(int))] = {0};
    struct lull_message versioned = *message;
    int size;
    struct iovec part = {.iov_base = packet};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};

    versioned.version = connection->version;
    size = lull_message_encode(&versioned, packet, sizeof(packet));
    part.iov_len = (size_t)size;
    if (connection->is_closing || size < 0)
        return;
    if (is_passing_table) {
        const int fds[] = {lull_command_table_fd(connection->table), connection->doorbell_fd};
        struct cmsghdr *control = (struct cmsghdr *)control_bytes;

        header.msg_control = control_bytes;
        header.msg_controllen = sizeof(control_bytes);
        control->cmsg_level = SOL_SOCKET;
        control->cmsg_type = SCM_RIGHTS;
        control->cmsg_len = CMSG_LEN(sizeof(fds));
        memcpy(CMSG_DATA(control), fds, sizeof(fds));
    }
    /* Waiting for a client that does not read would hold up all others. */
    if (sendmsg(connection->fd, &header, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        lull_connection_close(connection);
}

/* --- on the writer's thread --- */

static void connection_on_release(void *context)
{
    struct lull_connection *connection = context;
    struct lull_server *server = connection->server;

    /* After this store the server may free the connection, so nothing of it is used below. */
    atomic_store(&connection->is_source_released, true);
    lull_server_wake(server);
}

static void connection_on_flood(void *context)
{
    lull_server_note_flood(((struct lull_connection *)context)->server);
}

/* --- on the loop's thread again --- */

static int create_share(struct lull_connection *connection, struct lull_error *err)
{
    const struct lull_switch_channel inner = lull_command_channel(connection->table);

    connection->share = malloc(sizeof(*connection->share));
    if (connection->share == NULL)
        return lull_error_set(err, -ENOMEM, "client: no memory for its leases");
    lull_share_init(connection->share, &inner, connection_on_flood, connection);
    return 0;
}

static int create_table(struct lull_connection *connection, struct lull_error *err)
{
    int result = 0;

    if (connection->table == NULL)
        result = lull_command_table_create(&connection->table, err);
    if (result == 0 && connection->doorbell_fd < 0) {
        connection->doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        if (connection->doorbell_fd < 0)
            result = lull_error_set(
                err, -errno, "client: cannot create an eventfd to wake the device writer: %s",
                strerror(errno));
    }
    if (result == 0 && connection->share == NULL)
        result = create_share(connection, err);
    return result;
}

int lull_connection_open_table(struct lull_connection *connection, struct lull_writer *writer,
                               struct lull_error *err)
{
    int result;

    if (connection->source_state == LULL_SOURCE_LEAVING &&
        !atomic_load(&connection->is_source_released))
        return lull_error_set(err, -EBUSY, "your former lease is just ending; try again");
    result = create_table(connection, err);
    if (result < 0 || connection->source_state == LULL_SOURCE_LISTENED)
        return result;
    connection->source = (struct lull_writer_source){
        .doorbell_fd = connection->doorbell_fd,
        .channel = lull_share_channel(connection->share),
        .context = connection,
        .released = connection_on_release,
    };
    atomic_store(&connection->is_source_released, false);
    result = lull_writer_add_source(writer, &connection->source, err);
    connection->source_state = result == 0 ? LULL_SOURCE_LISTENED : LULL_SOURCE_NONE;
    return result;
}

void lull_connection_close_doorbell(struct lull_connection *connection)
{
    if (connection->source_state != LULL_SOURCE_LISTENED)
        return;
    connection->source_state = LULL_SOURCE_LEAVING;
    lull_writer_remove_source(lull_server_writer(connection->server), &connection->source);
}

void lull_connection_resume(struct lull_connection *connection)
{
    if (!connection->is_proving)
        connection_listen(connection);
}

bool lull_connection_end_proof(struct lull_connection *connection)
{
    if (!connection->is_proving || !atomic_load(&connection->is_proof_done))
        return false;
    connection->is_proving = false;
    connection->server->proving_count--;
    if (connection->is_closing)
        return false;
    connection->proven |= connection->proof.gpus;
    if (!connection->is_paused)
        connection_listen(connection);
    return true;
}
