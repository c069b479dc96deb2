/*
 * Placement of gangs. Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_PLACEMENT_H
#define LULL_CLUSTER_CORE_MODEL_PLACEMENT_H

#include "cluster/core/model/state.h"

/*
 * Consolidated, as clusters place in practice (Helios, SC'21, section 2.1): a gang that fits into
 * one node takes the node with the fewest free GPUs that still fits, which keeps whole nodes free
 * for others; a larger one takes completely free nodes and puts its rest on the node with the most
 * free GPUs. The free nodes are taken from the rack that has enough of them and the fewest; where
 * no rack has enough, from as few racks as that takes, the emptiest first. Of equals, the one with
 * the lowest number is taken. gpus > 0. shares_out has room for node_count shares, and gets them in
 * the order of choice. Returns how many there are; 0: the gang does not fit.
 */
size_t lull_cluster_place_consolidated(const struct lull_cluster_state *state, uint32_t pool,
                                       uint32_t type, uint32_t gpus,
                                       struct lull_cluster_share *shares_out);

/* ---- a copy to try placements on ------------------------------------------------------------ */

/* Copies a group from the real state of the same cluster. O(nodes of the group).
 */
void lull_cluster_copy_group(struct lull_cluster_state *copy, const struct lull_cluster_state *real,
                             uint32_t pool, uint32_t type);

/* Frees the shares in the copy as far as they are taken there: a rule around the policy may have
 * put the job elsewhere than the policy decided. */
void lull_cluster_copy_give(struct lull_cluster_state *copy,
                            const struct lull_cluster_share *shares, size_t count);

/* Returns whether all of the shares are free. */
bool lull_cluster_shares_fit(const struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count);

#endif
