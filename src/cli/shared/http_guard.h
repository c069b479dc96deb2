/*
 * Limits for the connections of an HTTP server (libmicrohttpd), whose own time limit is renewed by
 * each byte: clients that send a request, or read an answer, a byte at a time would hold all
 * connections.
 * - A request must be complete within a time, and so must be its answer.
 * - Of one address (IPv6: one /64 network), and in all, there are at most so many connections. A
 * new one beyond that replaces the oldest one that has not sent a request yet, else the oldest
 * whose answer is on its way. Streams are never replaced; the server bounds them itself.
 *
 * Threads: create and destroy belong to one thread; the library's threads call the others.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_SHARED_HTTP_GUARD_H
#define LULL_CLI_SHARED_HTTP_GUARD_H

#include <microhttpd.h>
#include <stdint.h>

#include "base/error.h"

struct lull_http_limits {
    uint32_t most; /* connections; the library's own limit must be lull_http_guard_room() */
    uint32_t most_of_address;
    int64_t request_ns; /* from the connection or the answer before to the end of the request */
    int64_t answer_ns;
};

struct lull_http_guard; /* opaque */

enum lull_http_state {
    LULL_HTTP_ASKING,    /* its request is not complete */
    LULL_HTTP_ANSWERED,  /* the answer is on its way */
    LULL_HTTP_STREAMING, /* an answer without end */
};

/* Starts a guard. Errors: -ENOMEM; -errno its thread does not start. */
int lull_http_guard_create(const struct lull_http_limits *limits,
                           struct lull_http_guard **guard_out, struct lull_error *err);

/* Returns the value of MHD_OPTION_CONNECTION_LIMIT: replaced connections close a moment later. */
unsigned int lull_http_guard_room(const struct lull_http_guard *guard);

/* The function of MHD_OPTION_NOTIFY_CONNECTION; the guard is its context. */
void lull_http_guard_notify(void *guard, struct MHD_Connection *connection, void **socket_context,
                            enum MHD_ConnectionNotificationCode code);

/* Notes the present state of a connection. */
void lull_http_guard_note(struct MHD_Connection *connection, enum lull_http_state state);

/* Frees the guard after MHD_stop_daemon(). NULL is allowed. */
void lull_http_guard_destroy(struct lull_http_guard *guard);

#endif
