/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/cluster.h"

#include <errno.h>

int lull_cluster_check(const struct lull_cluster *cluster, struct lull_error *err)
{
    if (cluster->node_count == 0 || cluster->node_count > LULL_CLUSTER_MOST_NODES)
        return lull_error_set(err, -EINVAL, "a cluster has 1 to %d nodes, not %u",
                              LULL_CLUSTER_MOST_NODES, cluster->node_count);
    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];

        if (node->pool >= cluster->pool_count || node->type >= cluster->type_count)
            return lull_error_set(err, -EINVAL, "node %u has no such pool or type", i);
        if (node->gpus == 0 || node->gpus > LULL_CLUSTER_MOST_NODE_GPUS)
            return lull_error_set(err, -EINVAL, "node %u: 1 to %d GPUs, not %u", i,
                                  LULL_CLUSTER_MOST_NODE_GPUS, node->gpus);
    }
    return 0;
}
