/*
 * A connection to lulld: blocking calls with a time limit for commands and the governor's set-up.
 * Threads: one per connection. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_WIRE_CLIENT_H
#define LULL_WIRE_CLIENT_H

#include <stdint.h>

#include "base/error.h"
#include "wire/message.h"

#define LULL_CLIENT_SOCKET "lulld.sock"
#define LULL_CLIENT_ROOT_SOCKET "lulld-root.sock" /* only root can open it */

enum { LULL_CLIENT_MAX_FDS = 2 };

struct lull_client;

/*
 * Connects to <runtime_dir>/lulld.sock, or as root to root's own socket, and greets. Errors:
 * -ENOENT, -ECONNREFUSED no daemon there; -EACCES no permission; -EPROTONOSUPPORT another version;
 * -errno.
 */
int lull_client_open(const char *runtime_dir, struct lull_client **client_out,
                     struct lull_message_welcome *welcome_out, struct lull_error *err);

/*
 * Connects as lull_client_open does, but also to a daemon of another version, and only for RESTORE:
 * other messages may have another meaning there. Errors: those of lull_client_open except
 * -EPROTONOSUPPORT.
 */
int lull_client_open_any(const char *runtime_dir, struct lull_client **client_out,
                         struct lull_error *err);

/* The two halves of lull_client_open, for a caller that must not wait: the first connects and sends
 * the greeting (-EAGAIN: the daemon accepts no connections now), the second waits at most
 * timeout_ms for the answer, and may be called again after -ETIMEDOUT. */
int lull_client_connect(const char *runtime_dir, struct lull_client **client_out,
                        struct lull_error *err);
int lull_client_greet(struct lull_client *client, int timeout_ms,
                      struct lull_message_welcome *welcome_out, struct lull_error *err);

/* Closes the connection; its leases end. NULL is allowed. */
void lull_client_close(struct lull_client *client);

/* Sends a message without waiting; this function chooses its sequence number. Errors: -EPIPE gone;
 * -errno. */
int lull_client_send(struct lull_client *client, struct lull_message *message,
                     struct lull_error *err);

/*
 * Passes the devices of GPUs that this process can open, as proof that it may use them, and waits
 * for the answer. Use it only if lulld has requested it (-ENOKEY). Errors: -EACCES it can open
 * none, or none that lulld accepts; those of lull_client_call().
 */
int lull_client_prove(struct lull_client *client, int timeout_ms, struct lull_error *err);

/*
 * Waits at most timeout_ms for the next message (0: looks only). fds_out (LULL_CLIENT_MAX_FDS of
 * them, may be NULL) receives the message's descriptors, which the caller then owns, or -1. Errors:
 * -EPIPE the daemon is gone; -ETIMEDOUT; LULL_E_FORMAT.
 */
int lull_client_receive(struct lull_client *client, int timeout_ms,
                        struct lull_message *message_out, int *fds_out, struct lull_error *err);

/*
 * Sends a message and waits for the answer. Other messages in between are dropped. A REPLY with a
 * negative code is returned as an error with its text, and so is an answer of an unexpected type.
 * Errors: those of lull_client_send and lull_client_receive.
 */
int lull_client_call(struct lull_client *client, struct lull_message *message,
                     enum lull_message_type expected, int timeout_ms,
                     struct lull_message *answer_out, int *fds_out, struct lull_error *err);

#endif
