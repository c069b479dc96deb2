/*
 * What server and connections know of each other. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_INTERNAL_H
#define LULL_DAEMON_INTERNAL_H

#include "daemon/connection.h"

/* Serves a packet of size bytes that sender has sent. */
void lull_server_serve(struct server *server, struct lull_connection *connection,
                       const uint8_t *packet, size_t size, pid_t sender);

/* Ends every lease of a connection that closes. */
void lull_server_forget(struct server *server, struct lull_connection *connection);

/* Wakes the server's loop, from the writer's thread. */
void lull_server_wake(struct server *server);

/* Notes that a client was paused: it is to be resumed after a moment. */
void lull_server_note_pause(struct server *server);

/* Notes, on the writer's thread, that somebody keeps the writer busy. */
void lull_server_note_flood(struct server *server);

/* Return the loop and the writer that a connection uses. */
uv_loop_t *lull_server_loop(struct server *server);
struct lull_writer *lull_server_writer(struct server *server);

#endif
