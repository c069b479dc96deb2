/*
 * Serves what a client may ask, and ends its leases when it goes.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "daemon/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/enforcer.h"
#include "daemon/flood.h"
#include "daemon/internal.h"
#include "daemon/listener.h"
#include "daemon/notify.h"
#include "daemon/quota.h"
#include "wire/client.h"

/* A client that is late by five heartbeats has lost its leases. Chosen, not measured, as the rest
 * of these. */
enum {
    LEASE_TTL_MS = 3000,
    HEARTBEAT_MS = 500,
    PATIENCE_MS = 1000, /* with this loop, before overdue leases end although it reads nothing */
    GREETING_MS = 2000, /* a client that has not greeted by then is closed */
    HOUSEKEEPING_MS = 250,
    RESUME_MS = 20, /* a client that asks too often is not read for so long */
    BAR_MS = 5000,  /* a user who has kept the writer busy may not lease for so long */
    MAX_CONNECTIONS = 4096,
    MAX_CONNECTIONS_PER_USER = 64,
    MAX_DESCRIPTORS = 4 * MAX_CONNECTIONS + 256,
    DESCRIPTORS_OF_CLIENT = 4, /* socket, pidfd, command table, doorbell */
    DESCRIPTORS_OF_ROOT = 64,  /* and of the driver's libraries */
    STOP_LIMIT_S = 5,
    NO_RESULT = 1, /* results are 0 or negative */
};

/* Every signal that would end a process and can be caught. Each stops the daemon in order, because
 * a GPU must not stay low whatever was meant by the signal. */
static const int stop_signals[] = {SIGTERM, SIGINT,  SIGHUP,  SIGQUIT,   SIGUSR1,
                                   SIGUSR2, SIGALRM, SIGPROF, SIGVTALRM, SIGSTKFLT,
                                   SIGIO,   SIGPWR,  SIGXCPU};

enum { STOP_SIGNALS = sizeof(stop_signals) / sizeof(stop_signals[0]) };

struct server {
    uv_loop_t loop;
    uv_prepare_t before_poll;
    uv_check_t after_poll;
    uv_timer_t housekeeping;
    uv_timer_t resume;
    uv_async_t wake;
    struct lull_watchdog watchdog;
    uv_signal_t signals[STOP_SIGNALS];
    struct lull_listener everybody;
    struct lull_listener root;
    bool is_stopping;
    bool is_housekeeping;
    uint32_t max_connections; /* of others than root */
    struct lull_devices *devices;
    struct lull_writer *writer;
    struct lull_enforcer *enforcer;
    int64_t reading_since_ns; /* what the enforcer waits for is being read; 0: nothing */
    struct lull_quota quota;
    atomic_bool is_flooded; /* set by the writer's thread */
    struct lull_connection *connections;
    uint64_t last_connection_id;
    uint64_t refused_senders;
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

static void wake_up(void *context)
{
    lull_server_wake(context);
}

void lull_server_note_flood(struct server *server)
{
    atomic_store(&server->is_flooded, true);
    lull_server_wake(server);
}

static void on_lease_ended(void *context, uint32_t gpu, int result)
{
    struct server *server = context;

    atomic_store(&server->ended[gpu], result);
    lull_server_wake(server);
}

/* --- what is logged about clients --- */

static void keep_house(struct server *server);

/* Logs a line that a user has caused, within the user's quota. */
__attribute__((format(printf, 4, 5))) static void
say(struct server *server, uid_t uid, enum lull_log_level level, const char *format, ...)
{
    char text[256];
    va_list args;

    if (!lull_quota_allows_line(&server->quota, uid, lull_now_ns())) {
        keep_house(server);
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lull_log(level, "lulld", "%s", text);
}

static void tell_left_out(struct server *server)
{
    uid_t uid;
    uint64_t count;

    while (lull_quota_take_left_out(&server->quota, lull_now_ns(), &uid, &count))
        lull_log(LULL_LOG_WARNING, "lulld", "%llu more lines about a client left out (uid=%ld)",
                 (unsigned long long)count, (long)(int)uid);
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

static const char not_restored[] =
    "not every GPU could be restored; lulld goes on trying, see lull status";

static void finish_waiting(struct lull_connection *connection)
{
    reply_code(connection, connection->awaited_sequence, connection->awaited_result,
               connection->awaited_result == 0 ? "" : not_restored);
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

/* Makes the writer deaf to a connection that has no lease left. */
static void close_idle_doorbell(struct server *server, struct lull_connection *connection)
{
    if (lull_enforcer_leases_of(server->enforcer, connection->id) == 0)
        lull_connection_close_doorbell(connection);
}

static void tell_revoked(struct lull_connection *connection, uint32_t gpu, int code)
{
    struct lull_message message = {.type = LULL_MESSAGE_REVOKED};

    message.body.revoked.slot = gpu;
    message.body.revoked.code = code;
    lull_connection_send(connection, &message, false);
}

/* Ends a lease against its client's will, and tells it. */
static void revoke_lease(struct server *server, uint32_t gpu, int code, const char *why)
{
    struct lull_lease lease;
    struct lull_connection *connection;

    if (!lull_enforcer_find(server->enforcer, gpu, &lease) ||
        !lull_enforcer_end(server->enforcer, gpu))
        return;
    lull_log(LULL_LOG_INFO, "lulld", "GPU %u: lease revoked: %s", gpu, why);
    connection = find_connection(server, lease.client);
    if (connection == NULL)
        return;
    close_idle_doorbell(server, connection);
    tell_revoked(connection, gpu, code);
}

/* Tells what the enforcer has ended meanwhile. */
static void tell_ended(struct server *server)
{
    struct lull_ended_lease ended;

    while (lull_enforcer_take(server->enforcer, &ended)) {
        struct lull_connection *const connection = find_connection(server, ended.client);

        lull_log(LULL_LOG_INFO, "lulld", "GPU %u: %s", ended.gpu,
                 ended.why == LULL_ENDING_DEAD ? "client gone, its lease ends"
                                               : "lease revoked: no heartbeat");
        if (connection == NULL)
            continue;
        close_idle_doorbell(server, connection);
        if (ended.why == LULL_ENDING_OVERDUE)
            tell_revoked(connection, ended.gpu, LULL_E_STALE);
    }
}

/* Finds the leases of a connection, a bit for each GPU; slot picks one of them or all. */
static uint64_t leases_of(const struct server *server, const struct lull_connection *connection,
                          uint32_t slot)
{
    const uint64_t mask = lull_enforcer_leases_of(server->enforcer, connection->id);

    if (slot == LULL_MESSAGE_ALL_SLOTS)
        return mask;
    return slot < LULL_DEVICE_MAX_GPUS ? mask & UINT64_C(1) << slot : 0;
}

static void end_leases(struct server *server, uint64_t mask)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        if ((mask >> gpu & 1) != 0)
            lull_enforcer_end(server->enforcer, gpu);
}

void lull_server_forget(struct server *server, struct lull_connection *connection)
{
    const uint64_t mask = leases_of(server, connection, LULL_MESSAGE_ALL_SLOTS);

    if (mask != 0)
        say(server, connection->peer.uid, LULL_LOG_INFO,
            "client gone, its leases end (pid=%ld gpus=0x%llx)", (long)connection->peer.pid,
            (unsigned long long)mask);
    end_leases(server, mask);
    if (connection->peer.pid_fd >= 0)
        lull_enforcer_unwatch(server->enforcer, connection->peer.pid_fd);
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
    if (lull_quota_is_barred(&server->quota, connection->peer.uid, lull_now_ns()))
        return lull_error_set(err, -EBUSY,
                              "a client of yours has kept lulld busy; try again in some seconds");
    result = lull_device_fit_band(lull_device_info(server->devices, (uint32_t)gpu), &band, err);
    /* Nothing is made for a lease that is refused. */
    if (result == 0)
        result = lull_enforcer_check(server->enforcer, (uint32_t)gpu, err);
    if (result < 0)
        return result;
    result = lull_connection_open_table(connection, server->writer, err);
    if (result < 0)
        return result;
    result = lull_enforcer_grant(server->enforcer, (uint32_t)gpu, connection->id, &band,
                                 &connection->source, &grant_out->lease_id, err);
    if (result < 0)
        return result;
    grant_out->slot = (uint32_t)gpu;
    grant_out->min_mhz = band.min_mhz;
    grant_out->max_mhz = band.max_mhz;
    say(server, connection->peer.uid, LULL_LOG_INFO,
        "GPU %d: leased (pid=%ld uid=%u band=%u-%u MHz)", gpu, (long)connection->peer.pid,
        (unsigned int)connection->peer.uid, band.min_mhz, band.max_mhz);
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
    const uint32_t count = lull_enforcer_renew(server->enforcer, connection->id);

    reply_code(connection, message->sequence, (int)count, "");
}

static void serve_release(struct server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    const uint64_t mask = leases_of(server, connection, message->body.release.slot);

    end_leases(server, mask);
    if (mask != 0)
        close_idle_doorbell(server, connection);
    reply_when_settled(connection, message->sequence, mask);
}

static void describe_lease(struct server *server, uint32_t gpu, struct lull_message_state *state)
{
    struct lull_lease lease;
    const struct lull_connection *owner;
    int64_t left_ns;

    if (!lull_enforcer_find(server->enforcer, gpu, &lease))
        return;
    owner = find_connection(server, lease.client);
    left_ns = lease.expires_ns - lull_now_ns();
    state->is_leased = 1;
    state->min_mhz = lease.band.min_mhz;
    state->max_mhz = lease.band.max_mhz;
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
        .health = (uint32_t)written.health,
    };
    memcpy(state->uuid, lull_device_info(server->devices, gpu)->uuid, sizeof(state->uuid));
    memcpy(state->name, lull_device_info(server->devices, gpu)->name, sizeof(state->name));
    describe_lease(server, gpu, state);
    lull_connection_send(connection, &answer, false);
}

/* Whether a GPU does not answer; nobody waits for it, and it is not restored either. */
static bool has_hung_gpu(struct server *server)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        struct lull_writer_state written;

        lull_writer_state(server->writer, gpu, &written);
        if (written.health == LULL_WRITER_SUSPECT || written.health == LULL_WRITER_HUNG)
            return true;
    }
    return false;
}

static void serve_restore(struct server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    uint64_t settling;

    if (connection->peer.uid != 0) {
        reply_code(connection, message->sequence, -EPERM,
                   "only root may take the GPUs from other clients");
        return;
    }
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++)
        revoke_lease(server, gpu, LULL_E_STALE, "restore asked by the administrator");
    /* GPUs whose leases ended earlier are waited for as well: the caller wants all of them back. */
    settling = lull_enforcer_settling(server->enforcer);
    if (settling == 0 && has_hung_gpu(server))
        reply_code(connection, message->sequence, -ETIMEDOUT, not_restored);
    else
        reply_when_settled(connection, message->sequence, settling);
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
        say(server, connection->peer.uid, LULL_LOG_INFO,
            "malformed message, client closed (pid=%ld uid=%u)", (long)connection->peer.pid,
            (unsigned int)connection->peer.uid);
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

    lull_enforcer_settle(server->enforcer, gpu);
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

/* --- who keeps the writer busy --- */

/* Finds the client that rings most, if it rings in a loop. */
static struct lull_connection *find_ringer(struct server *server)
{
    struct lull_connection *ringers[LULL_DEVICE_MAX_GPUS]; /* each has a GPU of its own */
    int doorbells[LULL_DEVICE_MAX_GPUS];
    uint32_t count = 0;
    int found;

    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        if (c->source_state == LULL_SOURCE_LISTENED && count < LULL_DEVICE_MAX_GPUS) {
            doorbells[count] = c->doorbell_fd;
            ringers[count++] = c;
        }
    found = lull_flood_find(doorbells, count);
    return found >= 0 ? ringers[found] : NULL;
}

static void stop_flood(struct server *server)
{
    struct lull_connection *const ringer = find_ringer(server);

    if (ringer == NULL)
        return;
    say(server, ringer->peer.uid, LULL_LOG_WARNING,
        "client closed, because it rings its doorbell without end (pid=%ld uid=%u)",
        (long)ringer->peer.pid, (unsigned int)ringer->peer.uid);
    lull_quota_bar(&server->quota, ringer->peer.uid, lull_now_ns() + BAR_MS * LULL_NS_PER_MS);
    lull_connection_close(ringer);
}

/* --- the loop's turns --- */

static void on_wake(uv_async_t *async)
{
    struct server *server = async->data;

    if (server->enforcer == NULL)
        return; /* the end has begun, and asks nobody */
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        int result = atomic_exchange(&server->ended[gpu], NO_RESULT);

        if (result != NO_RESULT)
            settle(server, gpu, result);
    }
    tell_ended(server);
    if (atomic_exchange(&server->is_flooded, false))
        stop_flood(server);
    reap_connections(server);
}

/* Between the two, the loop reads from every client that has sent something. */
static void on_before_poll(uv_prepare_t *prepare)
{
    struct server *const server = prepare->data;

    server->reading_since_ns = lull_enforcer_waits_since_ns(server->enforcer);
    if (server->reading_since_ns != 0)
        lull_server_wake(server); /* so that the turn ends even if nobody has sent anything */
}

static void on_after_poll(uv_check_t *check)
{
    struct server *const server = check->data;

    if (server->reading_since_ns != 0)
        lull_enforcer_has_read(server->enforcer, server->reading_since_ns);
    server->reading_since_ns = 0;
}

static void on_resume(uv_timer_t *timer)
{
    const struct server *const server = timer->data;

    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        lull_connection_resume(c);
}

void lull_server_note_pause(struct server *server)
{
    if (!uv_is_active((uv_handle_t *)&server->resume))
        uv_timer_start(&server->resume, on_resume, RESUME_MS, 0);
}

/* Closes who has not greeted in time; returns whether somebody still may. */
static bool close_silent(struct server *server)
{
    const int64_t since_ns = lull_now_ns() - GREETING_MS * LULL_NS_PER_MS;
    bool is_waiting = false;

    for (struct lull_connection *c = server->connections; c != NULL; c = c->next) {
        if (c->is_greeted || c->is_closing)
            continue;
        if (c->since_ns <= since_ns)
            lull_connection_close(c);
        else
            is_waiting = true;
    }
    return is_waiting;
}

static void on_housekeeping(uv_timer_t *timer)
{
    struct server *const server = timer->data;
    const bool is_waiting = close_silent(server);

    tell_left_out(server);
    server->is_housekeeping = is_waiting || lull_quota_has_left_out(&server->quota);
    if (!server->is_housekeeping)
        uv_timer_stop(timer);
}

static void keep_house(struct server *server)
{
    if (server->is_housekeeping)
        return;
    server->is_housekeeping = true;
    uv_timer_start(&server->housekeeping, on_housekeeping, HOUSEKEEPING_MS, HOUSEKEEPING_MS);
}

/* --- accepting --- */

static bool has_room(const struct server *server, uid_t uid)
{
    uint32_t total = 0;
    uint32_t of_user = 0;

    for (const struct lull_connection *c = server->connections; c != NULL; c = c->next) {
        total += c->peer.uid != 0;
        of_user += c->peer.uid == uid;
    }
    /* Root is never refused: it must be able to restore the GPUs at any time. */
    return uid == 0 || (total < server->max_connections && of_user < MAX_CONNECTIONS_PER_USER);
}

static void admit(void *context, int fd)
{
    struct server *const server = context;
    struct lull_peer peer;
    struct lull_connection *connection;

    if (lull_peer_identify(fd, &peer, NULL) < 0) {
        lull_peer_close(fd, NULL, NULL); /* the process has ended before it was heard */
        return;
    }
    if (!has_room(server, peer.uid)) {
        say(server, peer.uid, LULL_LOG_WARNING, "too many connections, client refused (uid=%u)",
            (unsigned int)peer.uid);
        lull_peer_close(fd, NULL, NULL);
        if (peer.pid_fd >= 0)
            close(peer.pid_fd);
        return;
    }
    connection = lull_connection_create(server, ++server->last_connection_id, fd, &peer);
    if (connection == NULL)
        return;
    connection->next = server->connections;
    server->connections = connection;
    if (peer.pid_fd >= 0 && lull_enforcer_watch(server->enforcer, connection->id, peer.pid_fd) < 0)
        lull_connection_close(connection);
    keep_house(server);
}

static void on_exhausted(void *context)
{
    struct server *const server = context;

    say(server, (uid_t)-1, LULL_LOG_WARNING, "no descriptors left, client refused");
}

/* Raises the limit of descriptors as far as it may, and divides them: what root and the driver need
 * stays free whatever others do. */
static void divide_descriptors(struct server *server, uint64_t used)
{
    struct rlimit limit = {.rlim_cur = 0};

    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur < MAX_DESCRIPTORS) {
        limit.rlim_cur = limit.rlim_max < MAX_DESCRIPTORS ? limit.rlim_max : MAX_DESCRIPTORS;
        setrlimit(RLIMIT_NOFILE, &limit);
        getrlimit(RLIMIT_NOFILE, &limit);
    }
    used += DESCRIPTORS_OF_ROOT;
    server->max_connections = MAX_CONNECTIONS;
    if (limit.rlim_cur < used + (uint64_t)DESCRIPTORS_OF_CLIENT * MAX_CONNECTIONS)
        server->max_connections =
            limit.rlim_cur > used ? (uint32_t)((limit.rlim_cur - used) / DESCRIPTORS_OF_CLIENT) : 1;
}

static int open_one(struct server *server, struct lull_listener *listener, const char *directory,
                    const char *name, struct lull_listener_options *options, struct lull_error *err)
{
    char path[sizeof(listener->path) + 1];

    /* A path that is cut here is still too long for a socket. */
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    options->path = path;
    options->admit = admit;
    options->exhausted = on_exhausted;
    options->context = server;
    return lull_listener_open(listener, options, err);
}

static int open_listeners(struct server *server, const struct lull_server_options *options,
                          struct lull_error *err)
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

static int start_enforcer(struct server *server, struct lull_error *err)
{
    const struct lull_enforcer_options options = {
        .gpu_count = lull_devices_count(server->devices),
        .ttl_ns = LEASE_TTL_MS * LULL_NS_PER_MS,
        .patience_ns = PATIENCE_MS * LULL_NS_PER_MS,
        .wake = wake_up,
        .context = server,
    };

    return lull_enforcer_start(server->writer, &options, &server->enforcer, err);
}

/* --- start and stop --- */

static void announce(const struct server *server, const struct lull_server_options *options)
{
    lull_log(LULL_LOG_INFO, "lulld", "serving %u GPUs (socket=%s)",
             lull_devices_count(server->devices), server->everybody.path);
    lull_notify_manager("READY=1");
    if (options->ready_fd < 0)
        return;
    if (write(options->ready_fd, "\n", 1) < 0)
        lull_log(LULL_LOG_WARNING, "lulld", "--ready-fd: %s", strerror(errno));
    close(options->ready_fd);
}

static void on_signal(uv_signal_t *handle, int number)
{
    struct server *server = handle->data;

    if (server->is_stopping)
        return;
    server->is_stopping = true;
    lull_log(LULL_LOG_INFO, "lulld", "stopping: raising and restoring every GPU (signal=%d)",
             number);
    /* New clients fail at once from here on, instead of waiting for a daemon that ends. */
    lull_listener_hide(&server->everybody);
    lull_listener_hide(&server->root);
    uv_stop(&server->loop);
}

static bool is_ignored(int number)
{
    struct sigaction action;

    return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

static int watch_signals(struct server *server)
{
    int result = 0;

    /* A reader of standard error that has gone, or a limit on the size of files, is told by the
     * call that fails. */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
    for (size_t i = 0; i < STOP_SIGNALS && result == 0; i++)
        /* Under nohup the daemon is to outlive its terminal. */
        if (stop_signals[i] != SIGHUP || !is_ignored(SIGHUP))
            result = uv_signal_start(&server->signals[i], on_signal, stop_signals[i]);
    return result;
}

static int start_handles(struct server *server)
{
    int result = lull_listener_start(&server->root, &server->loop);

    if (result == 0)
        result = lull_listener_start(&server->everybody, &server->loop);
    if (result == 0)
        result = uv_prepare_start(&server->before_poll, on_before_poll);
    if (result == 0)
        result = uv_check_start(&server->after_poll, on_after_poll);
    return result == 0 ? watch_signals(server) : result;
}

static int init_loop(struct server *server)
{
    int result = uv_loop_init(&server->loop);

    if (result < 0)
        return result;
    uv_prepare_init(&server->loop, &server->before_poll);
    uv_check_init(&server->loop, &server->after_poll);
    uv_timer_init(&server->loop, &server->housekeeping);
    uv_timer_init(&server->loop, &server->resume);
    for (size_t i = 0; i < STOP_SIGNALS; i++) {
        uv_signal_init(&server->loop, &server->signals[i]);
        server->signals[i].data = server;
    }
    result = uv_async_init(&server->loop, &server->wake, on_wake);
    server->before_poll.data = server;
    server->after_poll.data = server;
    server->housekeeping.data = server;
    server->resume.data = server;
    server->wake.data = server;
    return result;
}

static void close_handle(uv_handle_t *handle, void *unused)
{
    (void)unused;
    if (!uv_is_closing(handle))
        uv_close(handle, NULL);
}

/*
 * After the writer has stopped nothing holds a connection, which stop_serving() has closed, but its
 * own handles, and a thread that closes a lingering descriptor of its client. Returns false where
 * such a thread takes longer, and still uses the server.
 */
static bool fini_loop(struct server *server)
{
    const int64_t until_ns = lull_now_ns() + LULL_NS_PER_S / 2;

    while (server->connections != NULL) {
        if (lull_now_ns() > until_ns)
            return false;
        uv_run(&server->loop, UV_RUN_NOWAIT);
        reap_connections(server);
    }
    uv_walk(&server->loop, close_handle, NULL);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    uv_loop_close(&server->loop);
    return true;
}

/* Puts all GPUs back and stops the writer. What a writer that is stuck in the driver uses is never
 * freed. */
static int stop_serving(struct server *server, struct lull_error *err)
{
    int result;

    lull_watchdog_stop(&server->watchdog);
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        lull_connection_close(c);
    uv_prepare_stop(&server->before_poll);
    uv_check_stop(&server->after_poll);
    lull_enforcer_stop(server->enforcer);
    server->enforcer = NULL;
    result = lull_writer_stop(server->writer, STOP_LIMIT_S * LULL_NS_PER_S);
    if (result < 0)
        lull_error_set(err, result,
                       "not every GPU could be restored; the next start of lulld or `lull restore` "
                       "tries again");
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
    result = start_enforcer(server, err);
    if (result < 0)
        goto stop_writer;
    result = open_listeners(server, options, err);
    if (result < 0)
        goto stop_enforcer;
    result = start_handles(server);
    if (result < 0) {
        lull_error_set(err, result, "event loop: %s", uv_strerror(result));
        goto stop_enforcer;
    }
    lull_watchdog_start(&server->watchdog, &server->loop, server->writer);
    announce(server, options);
    uv_run(&server->loop, UV_RUN_DEFAULT);
    return stop_serving(server, err);
stop_enforcer:
    lull_enforcer_stop(server->enforcer);
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
    server->everybody.fd = server->everybody.spare_fd = -1;
    server->root.fd = server->root.spare_fd = -1;
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        atomic_init(&server->ended[gpu], NO_RESULT);
    result = init_loop(server);
    if (result < 0) {
        free(server);
        return lull_error_set(err, result, "there is no memory for the event loop");
    }
    result = serve_until_stopped(server, journal, options, err);
    lull_listener_close(&server->root);
    lull_listener_close(&server->everybody);
    if (result == -EINPROGRESS)
        return result; /* the writer's thread may still use all of it */
    if (fini_loop(server))
        free(server);
    return result;
}
