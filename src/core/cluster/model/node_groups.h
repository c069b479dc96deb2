/*
 * The nodes of each group (pool and type) of a cluster, by number. Pure; any thread once made.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_NODE_GROUPS_H
#define LULL_CORE_CLUSTER_MODEL_NODE_GROUPS_H

#include <stddef.h>
#include <stdint.h>

#include "core/cluster/model/cluster.h"

/* Zero-initialised can be ended, too. */
struct lull_node_groups {
    uint32_t *nodes; /* those of a group from first[group] to first[group + 1] */
    size_t *first;   /* [pool * types + type] */
    uint64_t *gpus;  /* the same: how many they have */
};

/* -ENOMEM. */
int lull_node_groups_init(struct lull_node_groups *groups, const struct lull_cluster *cluster);
void lull_node_groups_fini(struct lull_node_groups *groups);

#endif
