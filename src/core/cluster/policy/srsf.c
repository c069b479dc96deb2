/*
 * Shortest remaining service first, preemptive: time times GPUs (Tiresias, NSDI'19, with known
 * durations). SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/ranked.h"

static double rank(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                   int64_t need_ns)
{
    (void)job;
    (void)full_ns;
    return (double)need_ns * gpus;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    static const struct lull_cluster_ranking ranking = {.reason = "had the least service left",
                                                        .rank = rank};

    return lull_cluster_ranked_create(cluster, jobs, &ranking, NULL, policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_srsf = {
    .name = "srsf",
    .summary = "shortest remaining service (time x GPUs) first; preempts jobs that may be",
    .create = create,
    .destroy = lull_cluster_ranked_destroy,
    .arrive = lull_cluster_ranked_arrive,
    .end = lull_cluster_ranked_end,
    .decide = lull_cluster_ranked_decide,
    .begin = lull_cluster_ranked_begin,
    .pace = lull_cluster_ranked_pace,
    .node = lull_cluster_ranked_node,
};
