/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/placement.h"

static size_t place_within_node(const struct lull_cluster_state *state, uint32_t pool,
                                uint32_t type, uint32_t gpus, struct lull_cluster_share *shares_out)
{
    const uint32_t most = lull_cluster_state_node_gpus(state, pool, type);

    for (uint32_t free = gpus; free <= most; free++) {
        const uint32_t node = lull_cluster_state_find(state, pool, type, free, 0);

        if (node != UINT32_MAX) {
            shares_out[0] = (struct lull_cluster_share){node, gpus};
            return 1;
        }
    }
    return 0;
}

/* The node with the most free GPUs, but for the free nodes below after_full, which are taken. */
static uint32_t emptiest(const struct lull_cluster_state *state, uint32_t pool, uint32_t type,
                         uint32_t gpus, uint32_t after_full)
{
    const uint32_t most = lull_cluster_state_node_gpus(state, pool, type);

    for (uint32_t free = most; free >= gpus; free--) {
        const uint32_t node =
            lull_cluster_state_find(state, pool, type, free, free == most ? after_full : 0);

        if (node != UINT32_MAX)
            return node;
    }
    return UINT32_MAX;
}

size_t lull_cluster_place_consolidated(const struct lull_cluster_state *state, uint32_t pool,
                                       uint32_t type, uint32_t gpus,
                                       struct lull_cluster_share *shares_out)
{
    const uint32_t most = lull_cluster_state_node_gpus(state, pool, type);
    uint32_t from = 0;
    size_t count = 0;

    if (gpus > lull_cluster_state_free_of(state, pool, type))
        return 0;
    if (gpus <= most)
        return place_within_node(state, pool, type, gpus, shares_out);
    for (; gpus >= most; gpus -= most) {
        const uint32_t node = lull_cluster_state_find(state, pool, type, most, from);

        if (node == UINT32_MAX)
            return 0;
        shares_out[count++] = (struct lull_cluster_share){node, most};
        from = node + 1;
    }
    if (gpus > 0) {
        const uint32_t node = emptiest(state, pool, type, gpus, from);

        if (node == UINT32_MAX)
            return 0;
        shares_out[count++] = (struct lull_cluster_share){node, gpus};
    }
    return count;
}

size_t lull_cluster_place_scattered(const struct lull_cluster_state *state, uint32_t pool,
                                    uint32_t type, uint32_t gpus,
                                    struct lull_cluster_share *shares_out)
{
    size_t count = 0;

    if (gpus > lull_cluster_state_free_of(state, pool, type))
        return 0;
    for (uint32_t free = lull_cluster_state_node_gpus(state, pool, type); free > 0; free--) {
        uint32_t node = lull_cluster_state_find(state, pool, type, free, 0);

        for (; gpus > 0 && node != UINT32_MAX;
             node = lull_cluster_state_find(state, pool, type, free, node + 1)) {
            const uint32_t taken = gpus < free ? gpus : free;

            shares_out[count++] = (struct lull_cluster_share){node, taken};
            gpus -= taken;
        }
    }
    return gpus == 0 ? count : 0;
}
