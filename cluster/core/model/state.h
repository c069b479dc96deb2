/*
 * State of a cluster: its free GPUs, and the nodes that are on. Nodes of a group (pool and type)
 * are indexed by how many of their GPUs are free, so that placement never walks over the cluster. A
 * node that is not on reports no free GPUs.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_STATE_H
#define LULL_CLUSTER_CORE_MODEL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/cluster.h"

enum lull_cluster_power {
    LULL_CLUSTER_ON,
    LULL_CLUSTER_TURNING_ON,
    LULL_CLUSTER_OFF,
    LULL_CLUSTER_DOWN, /* by a failure */
};

struct lull_cluster_state; /* opaque */

/* Starts with all nodes on and all GPUs free. Borrows the cluster, which has been checked. -ENOMEM.
 */
int lull_cluster_state_create(const struct lull_cluster *cluster,
                              struct lull_cluster_state **state_out);
void lull_cluster_state_destroy(struct lull_cluster_state *state);

const struct lull_cluster *lull_cluster_state_cluster(const struct lull_cluster_state *state);
const struct lull_node_groups *lull_cluster_state_groups(const struct lull_cluster_state *state);

/* Return the number of free GPUs of a node, of free GPUs of a group, and of all GPUs of a group,
 * whether its nodes are on or not. O(1). */
uint32_t lull_cluster_state_free(const struct lull_cluster_state *state, uint32_t node);
uint64_t lull_cluster_state_free_of(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type);
uint64_t lull_cluster_state_gpus_of(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type);

/* The most GPUs that one node of the group has; 0: the group has no nodes. */
uint32_t lull_cluster_state_node_gpus(const struct lull_cluster_state *state, uint32_t pool,
                                      uint32_t type);

/*
 * The first node of a group, in the order of numbers and not below from_node, with exactly
 * free_gpus GPUs free; UINT32_MAX: there is none. O(nodes of the group / 64) at worst.
 */
uint32_t lull_cluster_state_find(const struct lull_cluster_state *state, uint32_t pool,
                                 uint32_t type, uint32_t free_gpus, uint32_t from_node);

/* Returns the number of nodes of a group that have exactly free_gpus free GPUs. O(1). */
uint32_t lull_cluster_state_count(const struct lull_cluster_state *state, uint32_t pool,
                                  uint32_t type, uint32_t free_gpus);

/* Racks that the group has nodes in, by number, ascending. O(1). */
const uint32_t *lull_cluster_state_racks(const struct lull_cluster_state *state, uint32_t pool,
                                         uint32_t type, uint32_t *count_out);

/* Returns the number of nodes of the group in its rack number `at` that have
 * lull_cluster_state_node_gpus() free GPUs. O(1). */
uint32_t lull_cluster_state_whole_of(const struct lull_cluster_state *state, uint32_t pool,
                                     uint32_t type, uint32_t at);

/* Take GPUs, all of which must be free, or return GPUs that were taken; each node occurs in the
 * shares at most once. GPUs can be returned to a node that is not on. O(shares). */
void lull_cluster_state_take(struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count);
void lull_cluster_state_give(struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count);

/* Takes or returns GPUs of a node, which is on, until this many are free. */
void lull_cluster_state_set_free(struct lull_cluster_state *state, uint32_t node, uint32_t gpus);

/* Return and set the power state of a node. O(1). */
enum lull_cluster_power lull_cluster_state_power(const struct lull_cluster_state *state,
                                                 uint32_t node);
void lull_cluster_state_set_power(struct lull_cluster_state *state, uint32_t node,
                                  enum lull_cluster_power power);

/* Returns whether a node is on and has no job. O(1). */
bool lull_cluster_state_is_idle(const struct lull_cluster_state *state, uint32_t node);

#endif
