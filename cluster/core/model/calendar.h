/*
 * Calendar of the free GPUs of each node: gangs are reserved on concrete nodes, and the earliest
 * time and place for another gang is found. Because nodes are known, the GPUs of a reservation lie
 * on as few nodes as it needs when its time comes.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_CALENDAR_H
#define LULL_CLUSTER_CORE_MODEL_CALENDAR_H

#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/cluster.h"
#include "cluster/core/model/state.h"

struct lull_calendar; /* opaque */

/* Creates a calendar in which all GPUs are free. Borrows the cluster, which has been checked.
 * -ENOMEM. */
int lull_calendar_create(const struct lull_cluster *cluster, struct lull_calendar **calendar_out);
void lull_calendar_destroy(struct lull_calendar *calendar);

/* A search for room: this many GPUs (> 0) of a pool and type for time_ns (> 0). */
struct lull_calendar_request {
    uint32_t pool;
    uint32_t type;
    uint32_t gpus;
    int64_t time_ns;
};

/*
 * The earliest time from now_ns on, but before before_ns, at which the request is free from begin
 * to end. A gang that fits into one node goes to the node with the fewest free GPUs at that time; a
 * larger one to wholly free nodes, and one more for the rest. Of equal nodes the one with the
 * lowest number is taken. At now_ns the GPUs must be free in `real`, too (NULL: not checked).
 * Writes the shares (room for node_count). Returns LULL_CLUSTER_NEVER where there is no such time.
 * Entries before now_ns are dropped. O(nodes and reservations of the group); log of those more for
 * gangs over several nodes. Returns LULL_CLUSTER_NEVER if out of memory.
 */
int64_t lull_calendar_find(struct lull_calendar *calendar,
                           const struct lull_calendar_request *request, int64_t now_ns,
                           int64_t before_ns, const struct lull_cluster_state *real,
                           struct lull_cluster_share *shares_out, size_t *share_count_out);

/* Reserve shares that are free all that time, or free shares that are reserved all that time.
 * Errors: -ENOMEM; nothing has changed then. */
int lull_calendar_add(struct lull_calendar *calendar, const struct lull_cluster_share *shares,
                      size_t count, int64_t from_ns, int64_t until_ns);
int lull_calendar_remove(struct lull_calendar *calendar, const struct lull_cluster_share *shares,
                         size_t count, int64_t from_ns, int64_t until_ns);

#endif
