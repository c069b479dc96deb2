/*
 * Shortest remaining time first, preemptive: SRPT over gangs, with the preemption costs of Helios
 * (Hu et al., SC'21). SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/ranked.h"

static double rank(const struct lull_cluster_job *job, uint32_t gpus, int64_t full_ns,
                   int64_t need_ns)
{
    (void)job;
    (void)gpus;
    (void)full_ns;
    return (double)need_ns;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    static const struct lull_cluster_ranking ranking = {.reason = "had the least time left",
                                                        .rank = rank};

    return lull_cluster_ranked_create(cluster, jobs, &ranking, NULL, policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_srtf = {
    .name = "srtf",
    .summary = "shortest remaining time first; preempts jobs that may be",
    .create = create,
    .destroy = lull_cluster_ranked_destroy,
    .arrive = lull_cluster_ranked_arrive,
    .end = lull_cluster_ranked_end,
    .decide = lull_cluster_ranked_decide,
    .begin = lull_cluster_ranked_begin,
    .pace = lull_cluster_ranked_pace,
    .node = lull_cluster_ranked_node,
};
