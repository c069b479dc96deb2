/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/trial_state.h"

#include <errno.h>

int lull_trial_state_init(struct lull_trial_state *trial, const struct lull_cluster *cluster)
{
    *trial = (struct lull_trial_state){0};
    if (lull_node_groups_init(&trial->groups, cluster) < 0 ||
        lull_cluster_state_create(cluster, &trial->state) < 0)
        return -ENOMEM;
    return 0;
}

void lull_trial_state_fini(struct lull_trial_state *trial)
{
    lull_cluster_state_destroy(trial->state);
    lull_node_groups_fini(&trial->groups);
}

void lull_trial_state_sync(struct lull_trial_state *trial, const struct lull_cluster_state *real,
                           uint32_t pool, uint32_t type)
{
    const size_t group = (size_t)pool * lull_cluster_state_cluster(real)->type_count + type;

    for (size_t i = trial->groups.first[group]; i < trial->groups.first[group + 1]; i++) {
        const uint32_t node = trial->groups.nodes[i];
        const uint32_t want = lull_cluster_state_free(real, node);
        const uint32_t have = lull_cluster_state_free(trial->state, node);

        if (have > want)
            lull_cluster_state_take(trial->state, &(struct lull_cluster_share){node, have - want},
                                    1);
        else if (have < want)
            lull_cluster_state_give(trial->state, &(struct lull_cluster_share){node, want - have},
                                    1);
    }
}

void lull_trial_state_give(struct lull_trial_state *trial, const struct lull_cluster_share *shares,
                           size_t count)
{
    const struct lull_cluster_node *nodes = lull_cluster_state_cluster(trial->state)->nodes;

    for (size_t i = 0; i < count; i++) {
        const uint32_t taken =
            nodes[shares[i].node].gpus - lull_cluster_state_free(trial->state, shares[i].node);
        const uint32_t gpus = shares[i].gpus < taken ? shares[i].gpus : taken;

        lull_cluster_state_give(trial->state, &(struct lull_cluster_share){shares[i].node, gpus},
                                1);
    }
}

bool lull_cluster_shares_fit(const struct lull_cluster_state *state,
                             const struct lull_cluster_share *shares, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (shares[i].gpus > lull_cluster_state_free(state, shares[i].node))
            return false;
    return true;
}
