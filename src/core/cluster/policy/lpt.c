/*
 * Longest job first (longest processing time), by the run time of its first mode.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/ordered.h"

static int64_t key(const struct lull_cluster_job *job)
{
    return -job->modes[0].time_ns;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    return lull_cluster_ordered_create(cluster, jobs, key, "was the longest", policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_lpt = {
    .name = "lpt",
    .summary = "longest job first; the first that does not fit holds up its pool",
    .create = create,
    .destroy = lull_cluster_ordered_destroy,
    .arrive = lull_cluster_ordered_arrive,
    .end = lull_cluster_ordered_end,
    .decide = lull_cluster_ordered_decide,
    .node = lull_cluster_ordered_node,
};
