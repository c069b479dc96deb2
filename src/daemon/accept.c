/* Decides which clients may connect. SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "wire/client.h"

enum {
    MAX_CONNECTIONS_PER_USER = 64,
    MAX_DESCRIPTORS = 4 * LULL_SERVER_MAX_CONNECTIONS + 256,
    DESCRIPTORS_OF_CLIENT = 4, /* socket, pidfd, command table, doorbell */
    DESCRIPTORS_OF_ROOT = 64,  /* and of the driver's libraries */
    MAX_STRAYS = 256,          /* refused clients whose descriptors are still being closed */
};

static bool accept_has_room(const struct lull_server *server, uid_t uid)
{
    const struct lull_admitted *const admitted = &server->admitted;
    uint32_t of_user = 0;

    for (uint32_t i = 0; i < admitted->count; i++)
        of_user += admitted->uids[i] == uid;
    return admitted->count < server->max_connections && of_user < MAX_CONNECTIONS_PER_USER;
}

static void accept_count(struct lull_server *server, uid_t uid)
{
    if (uid != 0)
        server->admitted.uids[server->admitted.count++] = uid;
}

void lull_server_discount(struct lull_server *server, uid_t uid)
{
    struct lull_admitted *const admitted = &server->admitted;
    uint32_t index = 0;

    if (uid == 0)
        return;
    while (index < admitted->count && admitted->uids[index] != uid)
        index++;
    assert(index < admitted->count);
    admitted->uids[index] = admitted->uids[--admitted->count];
}

/* Refuses a client in words. The REPLY has sequence 0, because the greeting may not be there yet.
 */
static void accept_refuse(struct lull_server *server, int fd, uid_t uid)
{
    struct lull_message message = {
        .type = LULL_MESSAGE_REPLY,
        .body.reply = {.code = -EBUSY,
                       .text =
                           "too many connections of this user to lulld; try again in a second"}};
    const uint64_t count = lull_quota_count_refusal(&server->quota, uid, lull_now_ns());
    uint8_t packet[LULL_MESSAGE_MAX_BYTES];
    const int size = lull_message_encode(&message, packet, sizeof(packet));

    if (count > 0)
        lull_server_log(server, uid, LULL_LOG_WARNING,
                        "too many connections, client rejected (uid=%u refused=%llu)",
                        (unsigned int)uid, (unsigned long long)count);
    send(fd, packet, (size_t)size, MSG_DONTWAIT | MSG_NOSIGNAL);
    lull_peer_close(server->foreign, fd, NULL, NULL);
}

/* The user comes first, so that a client of a flood costs no more than its refusal. Root is never
 * refused: it must be able to restore the GPUs at any time. */
static void accept_admit(void *context, int fd)
{
    struct lull_server *const server = context;
    const uid_t uid = lull_peer_uid(fd);
    struct lull_peer peer;
    struct lull_connection *connection;
    struct lull_proof proof = {0};

    if (uid != 0 && (!lull_quota_allows_connect(&server->quota, uid, lull_now_ns()) ||
                     !accept_has_room(server, uid))) {
        accept_refuse(server, fd, uid);
        return;
    }
    if (lull_peer_identify(fd, &peer, NULL) < 0) {
        lull_peer_close(server->foreign, fd, NULL, NULL); /* the process has ended */
        return;
    }
    connection = lull_connection_create(server, ++server->last_connection_id, fd, &peer);
    if (connection == NULL)
        return;
    if (lull_server_prepare_proof(server, &proof))
        lull_peer_accept_descriptors(fd);
    connection->next = server->connections;
    server->connections = connection;
    accept_count(server, uid);
    if (peer.pid_fd >= 0 && lull_enforcer_watch(server->enforcer, connection->id, peer.pid_fd) < 0)
        lull_connection_close(connection);
    lull_server_run_maintenance(server);
}

static bool accept_is_full(void *context)
{
    const struct lull_server *const server = context;

    return lull_foreign_stray_count(server->foreign) >= MAX_STRAYS;
}

static void on_exhausted(void *context, int fd)
{
    struct lull_server *const server = context;

    lull_server_log(server, (uid_t)-1, LULL_LOG_WARNING, "no descriptors left, client refused");
    if (fd >= 0)
        lull_peer_close(server->foreign, fd, NULL, NULL);
}

/* Raises the limit of descriptors as far as it may, and divides them: what root and the driver need
 * stays free whatever others do. */
static void divide_descriptors(struct lull_server *server, uint64_t used)
{
    struct rlimit limit = {.rlim_cur = 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < MAX_DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < MAX_DESCRIPTORS ? limit.rlim_max : MAX_DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    used += DESCRIPTORS_OF_ROOT + MAX_STRAYS;
    server->max_connections = LULL_SERVER_MAX_CONNECTIONS;
    if (limit.rlim_cur < used + (uint64_t)DESCRIPTORS_OF_CLIENT * LULL_SERVER_MAX_CONNECTIONS)
        server->max_connections =
            limit.rlim_cur > used ? (uint32_t)((limit.rlim_cur - used) / DESCRIPTORS_OF_CLIENT) : 1;
}

static int open_one(struct lull_server *server, struct lull_listener *listener,
                    const char *directory, const char *name, struct lull_listener_options *options,
                    struct lull_error *err)
{
    char path[sizeof(listener->path) + 1];

    /* A path that is cut here is still too long for a socket. */
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    options->path = path;
    options->admit = accept_admit;
    options->is_full = accept_is_full;
    options->exhausted = on_exhausted;
    options->context = server;
    return lull_listener_open(listener, options, err);
}

int lull_server_open_listeners(struct lull_server *server,
                               const struct lull_server_options *options, struct lull_error *err)
{
    struct lull_listener_options of_root = {.mode = 0600, .group = (gid_t)-1};
    struct lull_listener_options of_everybody = {
        .mode = options->socket_mode, .group = options->socket_group, .is_bounded = true};
    int result = open_one(server, &server->root, options->runtime_dir, LULL_CLIENT_ROOT_SOCKET,
                          &of_root, err);

    if (result == 0)
        result = open_one(server, &server->everybody, options->runtime_dir, LULL_CLIENT_SOCKET,
                          &of_everybody, err);
    if (result == 0) /* descriptors are given out from the lowest up */
        divide_descriptors(server, (uint64_t)server->everybody.fd);
    return result;
}
