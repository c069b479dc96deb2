/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/cluster.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>

static bool is_type(const struct lull_cluster_type *type)
{
    return type->idle_w >= 0.0 && isfinite(type->idle_w) && type->turn_on_j >= 0.0 &&
           isfinite(type->turn_on_j) && type->off_w >= 0.0 && isfinite(type->off_w) &&
           type->turn_on_ns >= 0 && type->turn_on_ns <= LULL_CLUSTER_MOST_TURN_ON_NS;
}

int lull_cluster_check(const struct lull_cluster *cluster, struct lull_error *err)
{
    if (cluster->node_count == 0 || cluster->node_count > LULL_CLUSTER_MOST_NODES)
        return lull_error_set(err, -EINVAL, "a cluster has 1 to %d nodes, not %u",
                              LULL_CLUSTER_MOST_NODES, cluster->node_count);
    for (uint32_t i = 0; i < cluster->type_count; i++)
        if (!is_type(&cluster->types[i]))
            return lull_error_set(err, -EINVAL,
                                  "GPU type %s: powers, energy and time are finite and not below 0",
                                  cluster->types[i].name);
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
