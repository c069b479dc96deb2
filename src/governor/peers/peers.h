/*
 * Peers: this node's governor among those of the job's other nodes. It sends them the clocks that
 * its controller has accepted and rejected, and receives theirs. It holds the controller to the
 * resulting agreement (core/section/agreement.h). The network's thread (peer_network.h) does all
 * network I/O, so these functions never wait.
 *
 * If the key is missing (the first node creates it), the search is retried. The GPUs stay at the
 * reference until all nodes have been heard. If no agreement is reached, because a node is missing
 * or sees another iteration, each node is managed alone after a timeout.
 *
 * Threads: one, the governor's main thread; tick takes the control's lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PEERS_PEERS_H
#define LULL_GOVERNOR_PEERS_PEERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "governor/control/control.h"
#include "governor/peers/peer_network.h"

struct lull_peers_options {
    const char *endpoint; /* NULL: the job has one node */
    const char *key_path;
    const char *secret;      /* NULL: the key is in a file (job_key.h defines a secret) */
    double patience_s;       /* time after which the node is managed alone; > 0 */
    struct lull_nodes nodes; /* count 0: taken from the launcher */
};

/* Parses the number of this node and of all nodes: "I/N", as in 0/2. Errors: -EINVAL. */
int lull_nodes_parse(const char *text, struct lull_nodes *nodes_out);

/*
 * Reads both from the variables of the launcher (Slurm, Open MPI, MPICH and others with PMI).
 * Errors: -ENOENT the variables are not set; the text says what to do.
 */
int lull_nodes_find(struct lull_nodes *nodes_out, struct lull_error *err);

/* Returns a seed that all nodes of the job know without a message, and that differs from job to
 * job; 0: the launcher sets no number of the job. */
uint64_t lull_nodes_seed(void);

/* Result of the agreement, for the report. */
struct lull_peers_summary {
    uint32_t nodes;
    uint32_t received;      /* nodes that have ever sent a message, including this one */
    uint32_t agreed;        /* number of sections for which all nodes apply a lowered clock */
    uint64_t disagreements; /* number of times that the agreement made this node use a higher clock
                             * than its own choice */
    uint64_t refused;       /* number of connections without the job key */
    const char *state;      /* the state at the end, in words */
};

struct lull_peers;

/* *peers_out is NULL if the job has one node. Errors: the reason, with what to do; this node is
 * then managed alone. */
int lull_peers_create(const struct lull_peers_options *options, struct lull_peers **peers_out,
                      struct lull_error *err);

/* Notifies the other nodes that this node leaves, and frees. NULL is allowed. */
void lull_peers_destroy(struct lull_peers *peers);

/* Sends this node's proposals and receives those of others. Call it a few times a second while the
 * job runs. */
void lull_peers_tick(struct lull_peers *peers, struct lull_control *control,
                     struct lull_devices *devices, int64_t now_ns);

void lull_peers_summary(const struct lull_peers *peers, struct lull_peers_summary *summary_out);

#endif
