/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/trial_state.h"

#include <errno.h>

int lull_trial_state_init(struct lull_trial_state *scratch, const struct lull_cluster *cluster)
{
    *scratch = (struct lull_trial_state){0};
    if (lull_node_groups_init(&scratch->members, cluster) < 0 ||
        lull_cluster_state_create(cluster, &scratch->state) < 0)
        return -ENOMEM;
    return 0;
}

void lull_trial_state_fini(struct lull_trial_state *scratch)
{
    lull_cluster_state_destroy(scratch->state);
    lull_node_groups_fini(&scratch->members);
}

void lull_trial_state_sync(struct lull_trial_state *scratch, const struct lull_cluster_state *real,
                           uint32_t pool, uint32_t type)
{
    const size_t group = (size_t)pool * lull_cluster_state_cluster(real)->type_count + type;

    for (size_t i = scratch->members.first[group]; i < scratch->members.first[group + 1]; i++) {
        const uint32_t node = scratch->members.nodes[i];
        const uint32_t want = lull_cluster_state_free(real, node);
        const uint32_t have = lull_cluster_state_free(scratch->state, node);

        if (have > want)
            lull_cluster_state_take(scratch->state, &(struct lull_cluster_share){node, have - want},
                                    1);
        else if (have < want)
            lull_cluster_state_give(scratch->state, &(struct lull_cluster_share){node, want - have},
                                    1);
    }
}

void lull_trial_state_give(struct lull_trial_state *scratch,
                           const struct lull_cluster_share *shares, size_t count)
{
    const struct lull_cluster_node *nodes = lull_cluster_state_cluster(scratch->state)->nodes;

    for (size_t i = 0; i < count; i++) {
        const uint32_t taken =
            nodes[shares[i].node].gpus - lull_cluster_state_free(scratch->state, shares[i].node);
        const uint32_t gpus = shares[i].gpus < taken ? shares[i].gpus : taken;

        lull_cluster_state_give(scratch->state, &(struct lull_cluster_share){shares[i].node, gpus},
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
