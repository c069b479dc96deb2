/*
 * Earliest deadline first; jobs without one come last. SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/ordered.h"

static int64_t key(const struct lull_cluster_job *job)
{
    return job->deadline_ns;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    return lull_cluster_ordered_create(cluster, jobs, key, "had the earliest deadline", policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_edf = {
    .name = "edf",
    .summary = "earliest deadline first; the first that does not fit holds up its pool",
    .create = create,
    .destroy = lull_cluster_ordered_destroy,
    .arrive = lull_cluster_ordered_arrive,
    .end = lull_cluster_ordered_end,
    .decide = lull_cluster_ordered_decide,
    .node = lull_cluster_ordered_node,
};
