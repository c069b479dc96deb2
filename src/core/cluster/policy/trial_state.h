/*
 * A second state of the cluster, on which a policy tries what it might do. Private to policies.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_TRIAL_STATE_H
#define LULL_CORE_CLUSTER_POLICY_TRIAL_STATE_H

#include "core/cluster/model/node_groups.h"
#include "core/cluster/model/state.h"

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
