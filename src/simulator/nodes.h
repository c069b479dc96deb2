/*
 * The nodes of one job in virtual time: the messages of each reach all others after a delay
 * (core/section/controller/job_node.h), as through governor/peers, unless they are lost.
 *
 * Deterministic. Threads: one. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_SIMULATOR_NODES_H
#define LULL_SIMULATOR_NODES_H

#include <stdint.h>

#include "core/section/controller/job_node.h"

struct lull_virtual_nodes; /* opaque */

/* Borrows the views' controllers and clock lists. A message takes from 0 to 2 * way_ns to arrive,
 * and one in lost_every is lost (0: none is). 2 <= node_count <= LULL_AGREEMENT_MAX_NODES. NULL:
 * out of memory. */
struct lull_virtual_nodes *lull_virtual_nodes_create(const struct lull_job_node_view *views,
                                                     uint32_t node_count, int64_t way_ns,
                                                     uint32_t lost_every, uint64_t seed);
void lull_virtual_nodes_destroy(struct lull_virtual_nodes *nodes);

/* Exchanges messages up to now. Returns the time of the next call. */
int64_t lull_virtual_nodes_advance(struct lull_virtual_nodes *nodes, int64_t now_ns);

#endif
