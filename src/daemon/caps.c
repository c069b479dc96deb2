/*
 * Caps: upper limits that an administrator sets on GPUs for a time. The device writer applies them.
 * This file only checks who may set them, and lifts a cap that was not renewed in time.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "daemon/internal.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"

uint32_t lull_server_cap_left_ms(const struct lull_server *server, uint32_t gpu)
{
    const int64_t left_ns = server->capped_until_ns[gpu] - lull_now_ns();

    if (server->capped_until_ns[gpu] == 0)
        return 0;
    return left_ns > LULL_NS_PER_MS ? (uint32_t)(left_ns / LULL_NS_PER_MS) : 1;
}

/* Sets the timer to the end of the cap that ends first. */
static void await_next_end(struct lull_server *server)
{
    uint32_t min_ms = UINT32_MAX;

    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++) {
        const uint32_t left_ms = lull_server_cap_left_ms(server, gpu);

        if (left_ms != 0 && left_ms < min_ms)
            min_ms = left_ms;
    }
    uv_update_time(&server->loop); /* the timer counts from the loop's time */
    if (min_ms == UINT32_MAX)
        uv_timer_stop(&server->caps_end);
    else
        uv_timer_start(&server->caps_end, lull_server_on_caps_end, min_ms + 1, 0);
}

static void caps_lift(struct lull_server *server, uint32_t gpu)
{
    if (server->capped_until_ns[gpu] == 0)
        return;
    server->capped_until_ns[gpu] = 0;
    lull_writer_cap(server->writer, gpu, &(struct lull_cap){0});
}

void lull_server_lift_caps(struct lull_server *server)
{
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        caps_lift(server, gpu);
    await_next_end(server);
}

void lull_server_on_caps_end(uv_timer_t *timer)
{
    struct lull_server *const server = timer->data;
    const int64_t now_ns = lull_now_ns();
    uint32_t count = 0;

    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++)
        if (server->capped_until_ns[gpu] != 0 && server->capped_until_ns[gpu] <= now_ns) {
            caps_lift(server, gpu);
            count++;
        }
    if (count > 0)
        lull_log(LULL_LOG_WARNING, "lulld",
                 "the caps of %u GPUs have expired, because they were not renewed", count);
    await_next_end(server);
}

void lull_server_serve_cap(struct lull_server *server, struct lull_connection *connection,
                           const struct lull_message *message)
{
    const struct lull_message_cap *const wanted = &message->body.cap;
    const struct lull_cap cap = {wanted->max_mhz, wanted->max_limit_mw};

    if (!lull_server_admit_administrator(server, connection, message))
        return;
    if (wanted->gpu >= lull_devices_count(server->devices)) {
        lull_server_reply_code(connection, message->sequence, -ENODEV, "no such GPU on this node");
        return;
    }
    if (wanted->ttl_ms > LULL_MESSAGE_MAX_CAP_MS) {
        lull_server_reply_code(connection, message->sequence, -EINVAL,
                               "a cap lasts an hour at most, and is to be renewed");
        return;
    }
    if ((cap.max_mhz == 0 && cap.max_limit_mw == 0) || wanted->ttl_ms == 0) {
        caps_lift(server, wanted->gpu);
    } else {
        if (server->capped_until_ns[wanted->gpu] == 0)
            lull_log(LULL_LOG_INFO, "lulld", "GPU %u: capped (uid=%ld pid=%ld)", wanted->gpu,
                     (long)(int)connection->peer.uid, (long)connection->peer.pid);
        server->capped_until_ns[wanted->gpu] = lull_now_ns() + wanted->ttl_ms * LULL_NS_PER_MS;
        lull_writer_cap(server->writer, wanted->gpu, &cap);
    }
    await_next_end(server);
    lull_server_reply_code(connection, message->sequence, 0, "");
}
