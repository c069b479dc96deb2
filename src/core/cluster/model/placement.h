/*
 * Where a gang goes. Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_PLACEMENT_H
#define LULL_CORE_CLUSTER_MODEL_PLACEMENT_H

#include "core/cluster/model/state.h"

/*
 * Consolidated, as clusters place in practice (Helios, SC'21, section 2.1): a gang that fits into
 * one node takes the node with the fewest free GPUs that still fits, which keeps whole nodes free
 * for others; a larger one takes completely free nodes and puts its rest on the node with the most
 * free GPUs. The free nodes are those of the rack with the fewest that has enough of them; else of
 * as few racks as that takes, the emptiest first. Of equals the lowest number. gpus > 0.
 * shares_out: room for node_count, in the order of choice. Returns how many shares; 0: it does not
 * fit.
 */
size_t lull_cluster_place_consolidated(const struct lull_cluster_state *state, uint32_t pool,
                                       uint32_t type, uint32_t gpus,
                                       struct lull_cluster_share *shares_out);

/*
 * Wherever GPUs are free, on as few nodes as that takes: the emptiest nodes first, of equals the
 * lowest number. As lull_cluster_place_consolidated() otherwise; 0: fewer are free.
 */
size_t lull_cluster_place_scattered(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type, uint32_t gpus,
                                    struct lull_cluster_share *shares_out);

/* ---- a state to try placements on ------------------------------------------------------------ */

struct lull_trial_state {
    struct lull_cluster_state *state;
    struct lull_node_groups groups;
};

/* Zero-initialised can be ended, too. -ENOMEM. */
int lull_trial_state_init(struct lull_trial_state *trial, const struct lull_cluster *cluster);
void lull_trial_state_fini(struct lull_trial_state *trial);

/* A group of the trial is as it is in a real state of the same cluster. O(nodes of the group). */
void lull_trial_state_sync(struct lull_trial_state *trial, const struct lull_cluster_state *real,
                           uint32_t pool, uint32_t type);

/* Shares come free in the trial, as far as they were taken: somebody around the policy may have
   put the job elsewhere. */
void lull_trial_state_give(struct lull_trial_state *trial, const struct lull_cluster_share *shares,
                           size_t count);

/* Whether all of the shares are free. */
bool lull_cluster_shares_fit(const struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count);

#endif
