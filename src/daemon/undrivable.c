/* GPUs that cannot be driven, because they are lost or partitioned, or because an administrator
 * needs them free.
 * SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"

int lull_server_fail_unknown(const struct lull_server *server, const char *uuid,
                             struct lull_error *err)
{
    if (strncmp(uuid, "MIG-", 4) == 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "%.48s: a slice of a GPU has no clock of its own: Lull only gives "
                              "advice for it and does not lease it",
                              uuid);
    if (lull_devices_count(server->devices) == 0 &&
        lull_writer_check_driver(server->writer, err) < 0)
        return err->code;
    return lull_error_set(err, -ENODEV, "%s: no such GPU on this node; see lull gpus", uuid);
}

void lull_server_note_undrivable(struct lull_server *server, uint32_t gpu,
                                 enum lull_writer_revocation why)
{
    atomic_fetch_or(&server->to_revoke[why], UINT64_C(1) << gpu);
    lull_server_wake(server);
}

void lull_server_revoke_undrivable(struct lull_server *server)
{
    static const struct {
        int code;
        const char *why;
    } reasons[LULL_WRITER_REVOCATIONS] = {
        [LULL_WRITER_GPU_LOST] = {LULL_E_NO_DEVICE, "the GPU is lost"},
        [LULL_WRITER_REPARTITIONED] = {LULL_E_UNSUPPORTED, "its MIG partitions were changed"},
    };

    for (uint32_t why = 0; why < LULL_WRITER_REVOCATIONS; why++) {
        const uint64_t mask = atomic_exchange(&server->to_revoke[why], 0);

        for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
            if ((mask >> gpu & 1) != 0)
                lull_server_revoke(server, gpu, reasons[why].code, reasons[why].why);
    }
}

void lull_server_describe_driver(int64_t now_ns, const struct lull_writer_state *written,
                                 struct lull_message_state *state)
{
    state->health = (uint32_t)written->health;
    state->last_xid = written->last_xid;
    state->xids = written->xids;
    state->is_partitioned = written->is_partitioned;
    state->age_ms = LULL_MESSAGE_NEVER;
    if (written->seen_ns != 0)
        state->age_ms = (uint32_t)lull_earlier_ns((now_ns - written->seen_ns) / LULL_NS_PER_MS,
                                                  LULL_MESSAGE_NEVER - 1);
}

/* Which GPUs the administrator means; 0: it is no administrator, or there are no such GPUs, and
 * that was said. */
static uint64_t undrivable_pick_gpus(struct lull_server *server, struct lull_connection *connection,
                                     const struct lull_message *message)
{
    const uint32_t count = lull_devices_count(server->devices);
    const uint64_t all = count < 64 ? (UINT64_C(1) << count) - 1 : UINT64_MAX;
    const uint64_t mask = message->body.gpus.mask;

    if (connection->peer.uid != 0)
        lull_server_reply_code(connection, message->sequence, -EPERM,
                               "only root may quiesce GPUs or resume them");
    else if (mask == 0 || (mask & ~all) != 0)
        lull_server_reply_code(connection, message->sequence, -ENODEV, "no such GPU on this node");
    else
        return mask;
    return 0;
}

void lull_server_quiesce(struct lull_server *server, struct lull_connection *connection,
                         const struct lull_message *message)
{
    const uint64_t mask = undrivable_pick_gpus(server, connection, message);

    if (mask == 0)
        return;
    /* The writer refuses new leases from here on. */
    lull_writer_quiesce(server->writer, mask);
    for (uint32_t gpu = 0; gpu < lull_devices_count(server->devices); gpu++)
        if ((mask >> gpu & 1) != 0)
            lull_server_revoke(server, gpu, LULL_E_STALE, "quiesced by the administrator");
    lull_server_reply_code(connection, message->sequence, 0, "");
}

void lull_server_resume(struct lull_server *server, struct lull_connection *connection,
                        const struct lull_message *message)
{
    const uint64_t mask = undrivable_pick_gpus(server, connection, message);

    if (mask == 0)
        return;
    lull_writer_resume(server->writer, mask);
    lull_server_reply_code(connection, message->sequence, 0, "");
}
