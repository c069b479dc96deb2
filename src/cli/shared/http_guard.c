/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/http_guard.h"

#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/thread.h"

#define LOOK_NS (LULL_NS_PER_S / 4) /* interval of checks for overdue connections */

struct guarded {
    struct lull_http_guard *guard;
    struct guarded *next; /* the newest is first */
    int fd;               /* the library's, and open until the library notes the end */
    uint8_t address[8];   /* of IPv4, or the network of IPv6 */
    enum lull_http_state state;
    int64_t since_ns; /* when the state began */
    bool is_dropped;
};

struct lull_http_guard {
    struct lull_http_limits limits;
    pthread_t thread;
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    bool is_stopping;
    struct guarded *connections;
};

/* --- what is dropped; the caller holds the mutex --- */

/* Ends the connection; the library notices, and closes it. */
static void http_guard_drop(struct guarded *connection)
{
    connection->is_dropped = true;
    shutdown(connection->fd, SHUT_RDWR);
}

static bool is_overdue(const struct guarded *connection, int64_t now_ns)
{
    const struct lull_http_limits *const limits = &connection->guard->limits;

    if (connection->state == LULL_HTTP_ASKING)
        return now_ns - connection->since_ns >= limits->request_ns;
    return connection->state == LULL_HTTP_ANSWERED &&
           now_ns - connection->since_ns >= limits->answer_ns;
}

/* Returns whether a connection counts: one of the same address as another one, or any. */
static bool http_guard_is_counted(const struct guarded *connection, const struct guarded *same)
{
    return !connection->is_dropped &&
           (same == NULL || memcmp(connection->address, same->address, sizeof(same->address)) == 0);
}

/* Returns the connection that has been longest in a state. */
static struct guarded *find_oldest(const struct lull_http_guard *guard, enum lull_http_state state,
                                   const struct guarded *same)
{
    struct guarded *oldest = NULL;

    for (struct guarded *c = guard->connections; c != NULL; c = c->next)
        if (c->state == state && http_guard_is_counted(c, same) &&
            (oldest == NULL || c->since_ns <= oldest->since_ns))
            oldest = c;
    return oldest;
}

/* Drops one connection where there are more than `most`. The new one is asking, so that there is
 * always one to drop. */
static void hold_to(struct lull_http_guard *guard, uint32_t most, struct guarded *newest,
                    const struct guarded *same)
{
    uint32_t count = 0;
    struct guarded *victim;

    for (const struct guarded *c = guard->connections; c != NULL; c = c->next)
        count += http_guard_is_counted(c, same);
    if (count <= most)
        return;
    victim = find_oldest(guard, LULL_HTTP_ASKING, same);
    if (victim == newest && find_oldest(guard, LULL_HTTP_ANSWERED, same) != NULL)
        victim = find_oldest(guard, LULL_HTTP_ANSWERED, same);
    http_guard_drop(victim);
}

/* --- the thread --- */

static void *http_guard_thread(void *argument)
{
    struct lull_http_guard *const guard = argument;

    pthread_mutex_lock(&guard->mutex);
    while (!guard->is_stopping) {
        const int64_t now_ns = lull_now_ns();
        const int64_t next_ns = now_ns + LOOK_NS;
        const struct timespec next = {next_ns / LULL_NS_PER_S, next_ns % LULL_NS_PER_S};

        for (struct guarded *c = guard->connections; c != NULL; c = c->next)
            if (!c->is_dropped && is_overdue(c, now_ns))
                http_guard_drop(c);
        if (guard->connections == NULL)
            pthread_cond_wait(&guard->changed, &guard->mutex);
        else
            pthread_cond_timedwait(&guard->changed, &guard->mutex, &next);
    }
    pthread_mutex_unlock(&guard->mutex);
    return NULL;
}

/* --- what the library calls --- */

static void http_guard_set_address(struct guarded *connection, const struct sockaddr *address)
{
    if (address->sa_family == AF_INET)
        memcpy(connection->address, &((const struct sockaddr_in *)(const void *)address)->sin_addr,
               sizeof(struct in_addr));
    else if (address->sa_family == AF_INET6)
        memcpy(connection->address,
               &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr,
               sizeof(connection->address));
}

static void http_guard_begin(struct lull_http_guard *guard,
                             struct MHD_Connection *library_connection, void **socket_context)
{
    const union MHD_ConnectionInfo *const fd =
        MHD_get_connection_info(library_connection, MHD_CONNECTION_INFO_CONNECTION_FD);
    const union MHD_ConnectionInfo *const address =
        MHD_get_connection_info(library_connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    struct guarded *const connection = calloc(1, sizeof(*connection));

    if (connection == NULL || fd == NULL) {
        free(connection); /* the library's own limits remain */
        return;
    }
    connection->guard = guard;
    connection->fd = fd->connect_fd;
    connection->since_ns = lull_now_ns();
    if (address != NULL && address->client_addr != NULL)
        http_guard_set_address(connection, address->client_addr);
    *socket_context = connection;
    pthread_mutex_lock(&guard->mutex);
    connection->next = guard->connections;
    guard->connections = connection;
    hold_to(guard, guard->limits.most_of_address, connection, connection);
    hold_to(guard, guard->limits.most, connection, NULL);
    pthread_cond_signal(&guard->changed);
    pthread_mutex_unlock(&guard->mutex);
}

static void http_guard_forget(struct lull_http_guard *guard, struct guarded *connection)
{
    struct guarded **link = &guard->connections;

    pthread_mutex_lock(&guard->mutex);
    while (*link != NULL && *link != connection)
        link = &(*link)->next;
    if (*link != NULL)
        *link = connection->next;
    pthread_mutex_unlock(&guard->mutex);
    free(connection);
}

void lull_http_guard_notify(void *guard, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code)
{
    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        http_guard_begin(guard, connection, socket_context);
        return;
    }
    if (*socket_context != NULL)
        http_guard_forget(guard, *socket_context);
    *socket_context = NULL;
}

void lull_http_guard_note(struct MHD_Connection *connection, enum lull_http_state state)
{
    const union MHD_ConnectionInfo *const info =
        MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
    struct guarded *const guarded = info != NULL ? info->socket_context : NULL;

    if (guarded == NULL)
        return;
    pthread_mutex_lock(&guarded->guard->mutex);
    guarded->state = state;
    guarded->since_ns = lull_now_ns();
    pthread_mutex_unlock(&guarded->guard->mutex);
}

/* --- start and stop --- */

unsigned int lull_http_guard_room(const struct lull_http_guard *guard)
{
    return 2 * guard->limits.most;
}

int lull_http_guard_create(const struct lull_http_limits *limits,
                           struct lull_http_guard **guard_out, struct lull_error *err)
{
    struct lull_http_guard *const guard = calloc(1, sizeof(*guard));
    int result;

    if (guard == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for the connections of the server");
    guard->limits = *limits;
    pthread_mutex_init(&guard->mutex, NULL);
    lull_thread_init_condition(&guard->changed);
    result = lull_thread_start(&guard->thread, http_guard_thread, guard);
    if (result < 0) {
        pthread_cond_destroy(&guard->changed);
        pthread_mutex_destroy(&guard->mutex);
        free(guard);
        return lull_error_set(err, result, "cannot start a thread for the server: %s",
                              strerror(-result));
    }
    *guard_out = guard;
    return 0;
}

void lull_http_guard_destroy(struct lull_http_guard *guard)
{
    if (guard == NULL)
        return;
    pthread_mutex_lock(&guard->mutex);
    guard->is_stopping = true;
    pthread_cond_signal(&guard->changed);
    pthread_mutex_unlock(&guard->mutex);
    pthread_join(guard->thread, NULL);
    pthread_cond_destroy(&guard->changed);
    pthread_mutex_destroy(&guard->mutex);
    free(guard);
}
