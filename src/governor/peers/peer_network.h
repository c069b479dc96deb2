/*
 * Peer network: the connection of this node's governor to those of the job's other nodes, over
 * ZeroMQ with CURVE. Node 0 listens and forwards messages; the others connect to it. All share the
 * job key (job_key.h): a peer without it is refused, and so is plain text.
 *
 * A thread of its own does all network I/O. Proposals go in and out through bounded
 * queues without locks; a full queue drops, as the network may. So the network cannot block or slow
 * the callers.
 *
 * Threads: open, say, hear, close belong to one thread, which is not the library's own.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_PEER_NETWORK_H
#define LULL_GOVERNOR_PEERS_PEER_NETWORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/section/agreement.h"
#include "governor/peers/job_key.h"

/* The number of this node in the job, and the number of nodes. One `lull run` has been started on
 * each. */
struct lull_nodes {
    uint32_t self; /* from 0 */
    uint32_t count;
};

struct lull_peer_network;

/* Statistics of the network, for reports. */
struct lull_peer_network_counts {
    uint64_t received;
    uint64_t malformed; /* messages that are not a proposal, or are of another version */
    uint64_t refused;   /* connections without the job key */
    uint64_t dropped;   /* proposals that found a queue full, or the network */
};

/*
 * Listens or connects. endpoint: "tcp://HOST:PORT"; on node 0 HOST may be *. Errors: -errno with
 * the endpoint; LULL_E_UNSUPPORTED no ZeroMQ with CURVE. Missing peers are not an error.
 */
int lull_peer_network_open(const char *endpoint, const struct lull_nodes *nodes,
                           const struct lull_job_key *key, struct lull_peer_network **network_out,
                           struct lull_error *err);

/* Sends the queued messages, with a short time limit, and closes. NULL is allowed. */
void lull_peer_network_close(struct lull_peer_network *network);

/* Queues a proposal for all other nodes. */
void lull_peer_network_send(struct lull_peer_network *network,
                            const struct lull_proposal *proposal);

/* Takes the next proposal from another node; false: there is none. It never waits. */
bool lull_peer_network_receive(struct lull_peer_network *network,
                               struct lull_proposal *proposal_out);

void lull_peer_network_counts(const struct lull_peer_network *network,
                              struct lull_peer_network_counts *counts_out);

#endif
