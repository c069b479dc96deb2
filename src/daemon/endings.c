/* Ends leases and notifies clients. SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"

void lull_server_reply(struct lull_connection *connection, uint32_t sequence,
                       const struct lull_error *error)
{
    struct lull_message message = {.type = LULL_MESSAGE_REPLY, .sequence = sequence};

    message.body.reply.code = error->code;
    memcpy(message.body.reply.text, error->text, sizeof(message.body.reply.text));
    lull_connection_send(connection, &message, false);
}

void lull_server_reply_code(struct lull_connection *connection, uint32_t sequence, int code,
                            const char *text)
{
    struct lull_error error;

    lull_error_set(&error, code, "%s", text);
    lull_server_reply(connection, sequence, &error);
}

void lull_server_reply_unrestored(struct lull_server *server, struct lull_connection *connection,
                                  uint32_t sequence, int code)
{
    struct lull_writer_state written = {.trouble = ""};
    struct lull_error error;

    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        lull_writer_state(server->writer, gpu, &written);
        if (written.is_unrestored && written.trouble[0] != '\0')
            break;
        written.trouble[0] = '\0';
    }
    lull_error_set(&error, code, "not every GPU could be restored%s%.140s; lulld keeps trying",
                   written.trouble[0] != '\0' ? ": " : "", written.trouble);
    lull_server_reply(connection, sequence, &error);
}

static void finish_waiting(struct lull_server *server, struct lull_connection *connection)
{
    if (connection->awaited_result == 0)
        lull_server_reply_code(connection, connection->awaited_sequence, 0, "");
    else
        lull_server_reply_unrestored(server, connection, connection->awaited_sequence,
                                     connection->awaited_result);
}

/* Answers a request once the GPUs in the mask are restored; at once if the mask is empty. */
void lull_server_reply_when_settled(struct lull_server *server, struct lull_connection *connection,
                                    uint32_t sequence, uint64_t mask)
{
    if (connection->awaited != 0) {
        lull_server_reply_code(connection, sequence, -EALREADY,
                               "an earlier request of this connection still waits for its answer");
        return;
    }
    connection->awaited = mask;
    connection->awaited_sequence = sequence;
    connection->awaited_result = 0;
    if (mask == 0)
        finish_waiting(server, connection);
}

/* --- leases --- */

struct lull_connection *lull_server_find_connection(struct lull_server *server, uint64_t id)
{
    for (struct lull_connection *c = server->connections; c != NULL; c = c->next)
        if (c->id == id)
            return c;
    return NULL;
}

/* Stops the writer from polling the doorbell of a connection that has no lease left. */
void lull_server_close_idle_doorbell(struct lull_server *server, struct lull_connection *connection)
{
    if (lull_enforcer_leases_of(server->enforcer, connection->id) == 0)
        lull_connection_close_doorbell(connection);
}

static void connection_send_revoked(struct lull_connection *connection, uint32_t gpu, int code)
{
    struct lull_message message = {.type = LULL_MESSAGE_REVOKED};

    message.body.revoked.slot = gpu;
    message.body.revoked.code = code;
    lull_connection_send(connection, &message, false);
}

/* Revokes a lease and notifies its client. */
void lull_server_revoke(struct lull_server *server, uint32_t gpu, int code, const char *why)
{
    struct lull_lease lease;
    struct lull_connection *connection;

    if (!lull_enforcer_find(server->enforcer, gpu, &lease) ||
        !lull_enforcer_end(server->enforcer, gpu))
        return;
    lull_log(LULL_LOG_INFO, "lulld", "GPU %u: lease revoked: %s", gpu, why);
    connection = lull_server_find_connection(server, lease.client);
    if (connection == NULL)
        return;
    lull_server_close_idle_doorbell(server, connection);
    connection_send_revoked(connection, gpu, code);
}

/* Returns what the enforcer has ended meanwhile. */
void lull_server_send_ended(struct lull_server *server)
{
    struct lull_ended_lease ended;

    while (lull_enforcer_take(server->enforcer, &ended)) {
        struct lull_connection *const connection =
            lull_server_find_connection(server, ended.client);

        lull_log(LULL_LOG_INFO, "lulld", "GPU %u: %s", ended.gpu,
                 ended.why == LULL_ENDING_DEAD ? "client gone, its lease ends"
                                               : "lease revoked: no heartbeat");
        if (connection == NULL)
            continue;
        lull_server_close_idle_doorbell(server, connection);
        if (ended.why == LULL_ENDING_OVERDUE)
            connection_send_revoked(connection, ended.gpu, LULL_E_STALE);
    }
}

/* Finds the leases of a connection, a bit for each GPU; slot picks one of them or all. */
uint64_t lull_server_leases_of(const struct lull_server *server,
                               const struct lull_connection *connection, uint32_t slot)
{
    const uint64_t mask = lull_enforcer_leases_of(server->enforcer, connection->id);

    if (slot == LULL_MESSAGE_ALL_SLOTS)
        return mask;
    return slot < LULL_DEVICE_MAX_GPUS ? mask & UINT64_C(1) << slot : 0;
}

void lull_server_end_leases(struct lull_server *server, uint64_t mask)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        if ((mask >> gpu & 1) != 0)
            lull_enforcer_end(server->enforcer, gpu);
}

void lull_server_forget(struct lull_server *server, struct lull_connection *connection)
{
    const uint64_t mask = lull_server_leases_of(server, connection, LULL_MESSAGE_ALL_SLOTS);

    if (mask != 0)
        lull_server_log(server, connection->peer.uid, LULL_LOG_INFO,
                        "client gone, its leases end (pid=%ld gpus=0x%llx)",
                        (long)connection->peer.pid, (unsigned long long)mask);
    lull_server_end_leases(server, mask);
    if (connection->peer.pid_fd >= 0)
        lull_enforcer_unwatch(server->enforcer, connection->peer.pid_fd);
}

void lull_server_settle(struct lull_server *server, uint32_t gpu, int result)
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
            finish_waiting(server, c);
    }
}
