/* Work of the loop in each turn besides reading: reports of other threads, floods, and periodic
 * maintenance. SPDX-License-Identifier: Apache-2.0 */
#include "daemon/internal.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    GREETING_MS = 2000, /* a client that has not greeted by then is closed */
    HOUSEKEEPING_MS = 250,
    RESUME_MS = 1, /* minimum time for which a client that sends too many requests is not read */
    /* In all. One client that sends too many has 1000 messages per second then, and fifty have 40
     * each and 4 % of a core together. Chosen. */
    RESUMES_PER_S = 2000,
    RESUMES_IN_A_ROW = 4, /* an honest client waits for so many of them at most */
};

void lull_server_wake(struct lull_server *server)
{
    uv_async_send(&server->wake);
}

void lull_server_note_flood(struct lull_server *server)
{
    atomic_store(&server->is_flooded, true);
    lull_server_wake(server);
}

void lull_server_note_processes(struct lull_server *server, uint32_t gpu, const pid_t *pids,
                                uint32_t count)
{
    if (!lull_users_note(&server->users, gpu, pids, count))
        return;
    atomic_store(&server->has_new_users, true);
    lull_server_wake(server);
}

/* Logs a line that a user has caused, within the user's quota. */
void lull_server_log(struct lull_server *server, uid_t uid, enum lull_log_level level,
                     const char *format, ...)
{
    char text[384]; /* a refusal with a pod and a long reason */
    va_list args;

    if (!lull_quota_allows_line(&server->quota, uid, lull_now_ns())) {
        lull_server_run_maintenance(server);
        return;
    }
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    lull_log(level, "lulld", "%s", text);
}

static void maintenance_log_left_out(struct lull_server *server)
{
    uid_t uid;
    uint64_t count;

    while (lull_quota_take_left_out(&server->quota, lull_now_ns(), &uid, &count))
        lull_log(LULL_LOG_WARNING, "lulld", "%llu more lines about a client suppressed (uid=%ld)",
                 (unsigned long long)count, (long)(int)uid);
}

void lull_server_reap(struct lull_server *server)
{
    struct lull_connection **link = &server->connections;
    uint32_t closing = server->closing_count;

    while (*link != NULL && closing > 0) {
        struct lull_connection *const next = (*link)->next;
        const uid_t uid = (*link)->peer.uid;

        closing -= (*link)->is_closing;
        if (lull_connection_reap(*link)) {
            *link = next;
            server->closing_count--;
            lull_server_discount(server, uid);
        } else
            link = &(*link)->next;
    }
}

/* --- the loop's turns --- */

void lull_server_on_wake(uv_async_t *async)
{
    struct lull_server *server = async->data;

    if (server->enforcer == NULL)
        return; /* shutdown has begun: there is no enforcer to query any more */
    for (uint32_t gpu = 0; gpu < LULL_DEVICE_MAX_GPUS; gpu++) {
        int result = atomic_exchange(&server->ended[gpu], LULL_SERVER_NO_RESULT);

        if (result != LULL_SERVER_NO_RESULT)
            lull_server_settle(server, gpu, result);
    }
    lull_server_end_proofs(server);
    lull_server_revoke_undrivable(server);
    lull_server_send_ended(server);
    if (atomic_exchange(&server->has_new_users, false))
        lull_server_judge_again(server);
    lull_server_stop_flood(server);
    lull_server_reap(server);
}

/* Between the two, the loop reads from every client that has sent something. */
void lull_server_on_before_poll(uv_prepare_t *prepare)
{
    struct lull_server *const server = prepare->data;

    server->reading_since_ns = lull_enforcer_waits_since_ns(server->enforcer);
    if (server->reading_since_ns != 0)
        lull_server_wake(server); /* so that the poll returns even if no client has sent anything */
}

void lull_server_on_after_poll(uv_check_t *check)
{
    struct lull_server *const server = check->data;

    if (server->reading_since_ns != 0)
        lull_enforcer_has_read(server->enforcer, server->reading_since_ns);
    server->reading_since_ns = 0;
}

static void on_resume(uv_timer_t *timer)
{
    struct lull_server *const server = timer->data;
    struct lull_connection *connection;

    while ((connection = TAILQ_FIRST(&server->paused)) != NULL &&
           lull_bucket_take(&server->resumes, lull_now_ns())) {
        lull_server_unpause(server, connection);
        lull_connection_resume(connection);
    }
    if (connection != NULL)
        uv_timer_start(timer, on_resume, RESUME_MS, 0);
}

void lull_server_init_pauses(struct lull_server *server)
{
    TAILQ_INIT(&server->paused);
    server->resumes = (struct lull_bucket){.interval_ns = LULL_NS_PER_S / RESUMES_PER_S,
                                           .burst = RESUMES_IN_A_ROW};
}

void lull_server_pause(struct lull_server *server, struct lull_connection *connection)
{
    connection->is_paused = true;
    TAILQ_INSERT_TAIL(&server->paused, connection, paused_link);
    if (!uv_is_active((uv_handle_t *)&server->resume))
        uv_timer_start(&server->resume, on_resume, RESUME_MS, 0);
}

void lull_server_unpause(struct lull_server *server, struct lull_connection *connection)
{
    if (!connection->is_paused)
        return;
    connection->is_paused = false;
    TAILQ_REMOVE(&server->paused, connection, paused_link);
}

/* Closes the connections that have not greeted in time. Returns whether others still have time
 * left. */
static bool close_silent(struct lull_server *server)
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
    struct lull_server *const server = timer->data;
    const bool is_waiting = close_silent(server);

    maintenance_log_left_out(server);
    server->is_housekeeping = is_waiting || lull_quota_has_left_out(&server->quota);
    if (!server->is_housekeeping)
        uv_timer_stop(timer);
}

void lull_server_run_maintenance(struct lull_server *server)
{
    if (server->is_housekeeping)
        return;
    server->is_housekeeping = true;
    uv_timer_start(&server->housekeeping, on_housekeeping, HOUSEKEEPING_MS, HOUSEKEEPING_MS);
}
