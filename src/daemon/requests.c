/* Requests of clients. SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

/* Returns the name of the client's pod for the log. It is read once, because requests may be many.
 */
static const char *request_find_pod(struct lull_connection *connection)
{
    if (!connection->is_pod_known)
        lull_peer_describe_pod(&connection->peer, connection->pod);
    connection->is_pod_known = true;
    return connection->pod;
}

/* Narrows the band to what the client may have of the GPU. A refusal is one line of the log. */
static int narrow_to_right(struct lull_server *server, struct lull_connection *connection,
                           uint32_t gpu, struct lull_band *band, struct lull_error *err)
{
    const struct lull_device_info *const info = lull_device_info(server->devices, gpu);
    const char *const uuid = info->uuid;
    struct lull_policy_limits limits;
    int result = lull_server_judge(server, connection, gpu, &limits, err);

    /* The policy may leave no clock or power limit that the device has: whatever is set would then
     * be outside. */
    if (result == 0 &&
        (!lull_policy_fit_band(&limits, band) || lull_device_fit_band(info, band, NULL) < 0))
        result = lull_error_set(
            err, -EACCES,
            "%s: the policy of lulld permits none of the requested clocks or power limits", uuid);
    if (result == 0)
        return 0;
    lull_server_log(server, connection->peer.uid, LULL_LOG_WARNING,
                    "lease refused (uid=%ld pid=%ld%s gpu=%.48s): %.170s",
                    (long)(int)connection->peer.uid, (long)connection->peer.pid,
                    request_find_pod(connection), uuid, err->text);
    return result;
}

static int request_grant(struct lull_server *server, struct lull_connection *connection,
                         const struct lull_message_lease *wanted,
                         struct lull_message_grant *grant_out, struct lull_error *err)
{
    struct lull_band band = {wanted->min_mhz,      wanted->max_mhz,        wanted->min_limit_mw,
                             wanted->max_limit_mw, LULL_POWER_PROFILE_ALL, true};
    int gpu = lull_device_find(server->devices, wanted->uuid);
    int result;

    if (gpu < 0)
        return lull_server_fail_unknown(server, wanted->uuid, err);
    if (lull_quota_is_barred(&server->quota, connection->peer.uid, lull_now_ns()))
        return lull_error_set(err, -EBUSY,
                              "one of your clients overloads lulld; try again in a few seconds");
    result = lull_writer_check(server->writer, (uint32_t)gpu, err);
    if (result == 0)
        result = lull_device_fit_band(lull_device_info(server->devices, (uint32_t)gpu), &band, err);
    if (result == 0)
        result = narrow_to_right(server, connection, (uint32_t)gpu, &band, err);
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
    grant_out->profiles = band.profiles;
    lull_server_log(server, connection->peer.uid, LULL_LOG_INFO,
                    "GPU %d: leased (pid=%ld uid=%u%s band=%u-%u MHz)", gpu,
                    (long)connection->peer.pid, (unsigned int)connection->peer.uid,
                    request_find_pod(connection), band.min_mhz, band.max_mhz);
    return 0;
}

static void serve_hello(struct lull_server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    struct lull_message answer = {.type = LULL_MESSAGE_WELCOME, .sequence = message->sequence};

    connection->is_greeted = true;
    answer.body.welcome.gpu_count = lull_devices_count(server->devices);
    answer.body.welcome.lease_ttl_ms = LULL_SERVER_LEASE_TTL_MS;
    answer.body.welcome.heartbeat_ms = LULL_SERVER_HEARTBEAT_MS;
    lull_connection_send(connection, &answer, false);
}

static void serve_lease(struct lull_server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    struct lull_message answer = {.type = LULL_MESSAGE_GRANT, .sequence = message->sequence};
    struct lull_error error;
    /* One table serves all leases of a connection, so it is passed with the first. */
    const bool is_first = !connection->is_table_passed;

    if (request_grant(server, connection, &message->body.lease, &answer.body.grant, &error) < 0) {
        lull_server_reply(connection, message->sequence, &error);
        return;
    }
    connection->is_table_passed = true;
    lull_connection_send(connection, &answer, is_first);
}

static void serve_renew(struct lull_server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    const uint32_t count = lull_enforcer_renew(server->enforcer, connection->id);

    lull_server_reply_code(connection, message->sequence, (int)count, "");
}

static void serve_release(struct lull_server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    const uint64_t mask = lull_server_leases_of(server, connection, message->body.release.slot);

    lull_server_end_leases(server, mask);
    if (mask != 0)
        lull_server_close_idle_doorbell(server, connection);
    lull_server_reply_when_settled(server, connection, message->sequence, mask);
}

static void describe_lease(struct lull_server *server, uint32_t gpu,
                           struct lull_message_state *state)
{
    struct lull_lease lease;
    const struct lull_connection *owner;
    int64_t left_ns;

    if (!lull_enforcer_find(server->enforcer, gpu, &lease))
        return;
    owner = lull_server_find_connection(server, lease.client);
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

static void describe_device(const struct lull_device_info *info, struct lull_message_state *state)
{
    memcpy(state->uuid, info->uuid, sizeof(state->uuid));
    memcpy(state->name, info->name, sizeof(state->name));
    if (info->sm_clock_count > 0 && (info->capabilities & LULL_CAPABILITY_SM_LOCK) != 0) {
        state->lowest_mhz = info->sm_clocks_mhz[info->sm_clock_count - 1];
        state->highest_mhz = info->sm_clocks_mhz[0];
    }
    if ((info->capabilities & LULL_CAPABILITY_POWER_LIMIT) != 0) {
        state->lowest_limit_mw = info->power_limit_min_mw;
        state->default_limit_mw = info->power_limit_default_mw;
    }
}

static void serve_status(struct lull_server *server, struct lull_connection *connection,
                         const struct lull_message *message)
{
    const uint32_t gpu = message->body.status.gpu;
    struct lull_message answer = {.type = LULL_MESSAGE_STATE, .sequence = message->sequence};
    struct lull_message_state *state = &answer.body.state;
    struct lull_writer_state written;
    struct lull_error error;

    if (gpu >= lull_devices_count(server->devices)) {
        if (lull_writer_check_driver(server->writer, &error) < 0)
            lull_server_reply(connection, message->sequence, &error);
        else
            lull_server_reply_code(connection, message->sequence, -ENODEV,
                                   "no such GPU on this node");
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
        .power_mw = written.power_mw,
        .power_looks = written.power_looks,
        .power_cap_mhz = written.power_cap_mhz,
        .power_profiles = written.power_profiles,
        .cap_mhz = written.cap.max_mhz,
        .cap_limit_mw = written.cap.max_limit_mw,
        .cap_left_ms = lull_server_cap_left_ms(server, gpu),
    };
    describe_device(lull_device_info(server->devices, gpu), state);
    lull_server_describe_driver(lull_now_ns(), &written, state);
    describe_lease(server, gpu, state);
    lull_connection_send(connection, &answer, false);
}

/* Returns whether a GPU without a lease is not restored: it does not answer, or its driver refuses.
 * It is not waited for. */
static bool has_unrestored_gpu(struct lull_server *server)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++) {
        struct lull_writer_state written;

        lull_writer_state(server->writer, gpu, &written);
        if (written.health == LULL_WRITER_SUSPECT || written.health == LULL_WRITER_HUNG ||
            written.is_unrestored)
            return true;
    }
    return false;
}

static void serve_restore(struct lull_server *server, struct lull_connection *connection,
                          const struct lull_message *message)
{
    uint64_t settling;

    if (!lull_server_is_administrator(server, connection)) {
        lull_server_reply_code(connection, message->sequence, -EPERM,
                               "only an administrator may take the GPUs from other clients");
        return;
    }
    lull_server_lift_caps(server);
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++)
        lull_server_revoke(server, gpu, LULL_E_STALE, "restore requested by the administrator");
    /* GPUs whose leases ended earlier are waited for as well: the caller wants all of them back. */
    settling = lull_enforcer_settling(server->enforcer);
    if (settling == 0 && has_unrestored_gpu(server))
        lull_server_reply_unrestored(server, connection, message->sequence, -ETIMEDOUT);
    else
        lull_server_reply_when_settled(server, connection, message->sequence, settling);
}

typedef void serve_function(struct lull_server *, struct lull_connection *,
                            const struct lull_message *);

static serve_function *const serve_functions[LULL_MESSAGE_TYPE_COUNT] = {
    [LULL_MESSAGE_HELLO] = serve_hello,
    [LULL_MESSAGE_LEASE] = serve_lease,
    [LULL_MESSAGE_RENEW] = serve_renew,
    [LULL_MESSAGE_RELEASE] = serve_release,
    [LULL_MESSAGE_STATUS] = serve_status,
    [LULL_MESSAGE_RESTORE] = serve_restore,
    [LULL_MESSAGE_RELOAD] = lull_server_serve_reload,
    [LULL_MESSAGE_REVOKE] = lull_server_serve_revoke,
    [LULL_MESSAGE_JOB_ADD] = lull_server_serve_job_add,
    [LULL_MESSAGE_JOB_REMOVE] = lull_server_serve_job_remove,
    [LULL_MESSAGE_JOB_NEXT] = lull_server_serve_job_next,
    [LULL_MESSAGE_QUIESCE] = lull_server_quiesce,
    [LULL_MESSAGE_RESUME] = lull_server_resume,
    [LULL_MESSAGE_CAP] = lull_server_serve_cap,
};

/* A forked child inherits the descriptor, but must not speak for its parent. */
static void refuse_sender(struct lull_server *server, struct lull_connection *connection,
                          uint32_t sequence, pid_t sender)
{
    server->refused_senders++;
    /* Logged once, because a child that keeps asking would fill the log. */
    if (server->refused_senders == 1)
        lull_log(LULL_LOG_WARNING, "lulld",
                 "message from a process that did not connect refused (pid=%ld connected=%ld)",
                 (long)sender, (long)connection->peer.pid);
    lull_server_reply_code(connection, sequence, -EPERM,
                           "only the process that connected may send requests");
}

/* Serves what is frozen for all versions, so that a client of another one learns why, and an
 * administrator can restore the GPUs before an update. */
static void serve_other_version(struct lull_server *server, struct lull_connection *connection,
                                const struct lull_message *message)
{
    char text[sizeof(message->body.reply.text)];

    if (message->type == LULL_MESSAGE_REPLY) {
        lull_connection_close(connection);
        return;
    }
    connection->version = message->version;
    if (message->type == LULL_MESSAGE_RESTORE && connection->is_greeted) {
        serve_restore(server, connection, message);
        return;
    }
    connection->is_greeted = true;
    snprintf(text, sizeof(text),
             "lulld speaks version %d of its protocol and this program version %u: install the "
             "same release of both, then restart lulld (systemctl restart lulld)",
             LULL_MESSAGE_VERSION, message->version);
    lull_server_log(server, connection->peer.uid, LULL_LOG_WARNING,
                    "client of protocol version %u refused, this is version %d (pid=%ld uid=%u)",
                    message->version, LULL_MESSAGE_VERSION, (long)connection->peer.pid,
                    (unsigned int)connection->peer.uid);
    lull_server_reply_code(connection, message->sequence, -EPROTONOSUPPORT, text);
}

static void serve_own_version(struct lull_server *server, struct lull_connection *connection,
                              const struct lull_message *message)
{
    /* A message that only the daemon sends, or one before HELLO, comes from no client of ours. */
    if (serve_functions[message->type] == NULL || connection->version != 0 ||
        (!connection->is_greeted && message->type != LULL_MESSAGE_HELLO)) {
        lull_connection_close(connection);
        return;
    }
    serve_functions[message->type](server, connection, message);
}

void lull_server_serve(struct lull_server *server, struct lull_connection *connection,
                       const uint8_t *packet, size_t size, pid_t sender)
{
    struct lull_message message;
    const int result = lull_message_decode(packet, size, &message);

    if (result < 0 && result != -EPROTONOSUPPORT) {
        lull_server_log(server, connection->peer.uid, LULL_LOG_INFO,
                        "malformed message, client closed (pid=%ld uid=%u)",
                        (long)connection->peer.pid, (unsigned int)connection->peer.uid);
        lull_connection_close(connection);
        return;
    }
    if (sender != connection->peer.pid) {
        refuse_sender(server, connection, message.sequence, sender);
        return;
    }
    if (message.version != LULL_MESSAGE_VERSION)
        serve_other_version(server, connection, &message);
    else
        serve_own_version(server, connection, &message);
}
