/*
 * Connections of lulld; internal to the daemon. Threads: the server's one, except where said.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_DAEMON_CONNECTION_H
#define LULL_DAEMON_CONNECTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <uv.h>

#include "base/bucket.h"
#include "daemon/peer.h"
#include "daemon/proof.h"
#include "daemon/quota.h"
#include "daemon/share.h"
#include "device/writer.h"
#include "wire/command.h"
#include "wire/message.h"

struct lull_server;

/* State of a connection in the device writer. */
enum lull_source_state {
    LULL_SOURCE_NONE,
    LULL_SOURCE_LISTENED, /* the doorbell wakes the writer */
    LULL_SOURCE_LEAVING,  /* until released() */
};

/* One client. It lives until its handles are closed and the device writer has release it. */
struct lull_connection {
    struct lull_server *server;
    struct lull_connection *next;
    uint64_t id;
    int fd;
    struct lull_peer peer;
    int64_t since_ns; /* when it connected */
    bool is_greeted;
    bool is_pod_known;
    char pod[LULL_PEER_POD_BYTES]; /* lull_peer_describe_pod */
    uint16_t version;              /* of its messages, where that is not this program's; else 0 */
    bool is_closing;
    struct lull_bucket asking; /* limits the rate of requests from a client of root */
    /* It, or another client of its user, has sent too many. Each of its next ones waits among those
     * of other such clients, until it is silent for a moment. */
    bool is_heavy;
    bool is_paused; /* it waits, and is not read */
    TAILQ_ENTRY(lull_connection) paused_link;
    int64_t resumed_ns;       /* since when it is read again */
    atomic_uint open_handles; /* and whatever else holds it */
    uv_poll_t input;
    uv_poll_t death; /* watches the pidfd of its process */

    /* The GPUs that it has shown to have opened, and the proof that is being looked at. */
    uint64_t proven;
    bool is_proving;
    atomic_bool is_proof_done; /* set by the proof's thread, after the result */
    struct lull_proof_result proof;

    /* The following members are created with the first lease that is granted. */
    struct lull_command_table *table;
    int doorbell_fd;
    bool is_table_passed;
    struct lull_share *share;
    struct lull_writer_source source;
    enum lull_source_state source_state;
    atomic_bool is_source_released; /* set by the writer's thread */

    /* The answer to RELEASE or RESTORE, which waits until GPUs are restored. */
    uint64_t awaited; /* the GPUs that it waits for, a bit for each */
    uint32_t awaited_sequence;
    int awaited_result;
};

/* Takes over fd and peer.pid_fd and begins to serve them. NULL: no memory; both are closed then. A
 * connection that cannot be watched is returned all the same, and is closing. */
struct lull_connection *lull_connection_create(struct lull_server *server, uint64_t id, int fd,
                                               const struct lull_peer *peer);

/* Ends the leases and begins the end of the connection; more calls are harmless. */
void lull_connection_close(struct lull_connection *connection);

/* Frees the connection and returns true if nothing needs it any more. */
bool lull_connection_reap(struct lull_connection *connection);

/*
 * Sends without waiting, with the table's descriptors if asked; a client that does not read is
 * closed.
 */
void lull_connection_send(struct lull_connection *connection, const struct lull_message *message,
                          bool is_passing_table);

/* Makes table and doorbell if there are none yet, and lets the writer listen to the doorbell.
 * Errors: -EBUSY it is just leaving; -errno. */
int lull_connection_open_table(struct lull_connection *connection, struct lull_writer *writer,
                               struct lull_error *err);

/* Stops the writer from polling the doorbell of a client that has no lease any more. */
void lull_connection_close_doorbell(struct lull_connection *connection);

/* Takes the result of a proof, if one has just ended, and continues reading. Returns whether one
 * had ended. */
bool lull_connection_end_proof(struct lull_connection *connection);

/* Reads again from a client that was paused, and that the caller has taken from the queue. */
void lull_connection_resume(struct lull_connection *connection);

#endif
