/*
 * A cluster of GPU nodes as schedulers see it. The nodes of one type in one pool (a virtual cluster
 * or partition) form a group, within which nodes differ only in what runs on them.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_CLUSTER_H
#define LULL_CLUSTER_CORE_MODEL_CLUSTER_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_CLUSTER_MAX_NODES = 1 << 20,
    LULL_CLUSTER_MAX_NODE_GPUS = 64,
};

#define LULL_CLUSTER_MAX_TURN_ON_NS INT64_C(1000000000000000) /* 11 days */

/* A type of node, by its GPUs. */
struct lull_cluster_type {
    const char *name;    /* e.g. "A100-SXM4-40GB"; borrowed */
    uint32_t memory_mib; /* of one GPU; 0: not known, everything fits */
    double idle_w;       /* of one GPU without a job, its share of the node included; >= 0 */
    double turn_on_j;    /* of one node; >= 0 */
    int64_t turn_on_ns;  /* of one node; >= 0 */
    double off_w;        /* of one node that is off; >= 0 */
};

struct lull_cluster_node {
    uint32_t pool; /* < pool_count */
    uint32_t type; /* < type_count */
    uint32_t gpus; /* 1 to LULL_CLUSTER_MAX_NODE_GPUS */
    uint32_t rack;
};

struct lull_cluster {
    const struct lull_cluster_type *types;
    uint32_t type_count;
    const struct lull_cluster_node *nodes;
    uint32_t node_count;
    uint32_t pool_count;
};

/* GPUs of one node that are or will be assigned to a job. */
struct lull_cluster_share {
    uint32_t node;
    uint32_t gpus;
};

/* The number of groups, and the number of a pool's and a type's group. Arrays of groups are indexed
 * by it: [pool * type_count + type]. */
static inline size_t lull_cluster_group_count(const struct lull_cluster *cluster)
{
    return (size_t)cluster->pool_count * cluster->type_count;
}

static inline size_t lull_cluster_group(const struct lull_cluster *cluster, uint32_t pool,
                                        uint32_t type)
{
    return (size_t)pool * cluster->type_count + type;
}

/* Checks that all numbers are within their ranges. Errors: -EINVAL, with the node. */
int lull_cluster_check(const struct lull_cluster *cluster, struct lull_error *err);

/* ---- groups ---------------------------------------------------------------------------------- */

/* The nodes of each group, by lull_cluster_group(). Zero-initialised it is empty. */
struct lull_node_groups {
    uint32_t *nodes; /* of a group from first[group] to first[group + 1], ascending */
    size_t *first;   /* [group], and one more */
    uint64_t *gpus;  /* [group]: GPUs of all its nodes */
    uint32_t *most;  /* [group]: the most GPUs that one node has; 0: the group has no nodes */
};

/* -ENOMEM. */
int lull_node_groups_init(struct lull_node_groups *groups, const struct lull_cluster *cluster);
void lull_node_groups_fini(struct lull_node_groups *groups);

/* Compares two uint32_t, for qsort() and bsearch(). */
int lull_cluster_by_number(const void *left, const void *right);

#endif
