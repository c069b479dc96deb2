/*
 * Conservative backfill (Mu'alem and Feitelson, TPDS 2001): each job gets the earliest place that
 * delays nobody who came before it. Jobs run in the first mode of each type.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/planned.h"

static double cost(const struct lull_cluster_choice *choice, double setting)
{
    (void)setting;
    return choice->wait_s + choice->run_s;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    static const struct lull_cluster_planning planning = {.reason = "delays nobody who came before",
                                                          .cost = cost,
                                                          .is_first_mode_only = true,
                                                          .ignores_deadlines = true};

    return lull_cluster_planned_create(cluster, jobs, &planning, 0.0, policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_backfill_conservative = {
    .name = "backfill-conservative",
    .summary = "each job at the earliest time and place that delays nobody who came before it",
    .create = create,
    .destroy = lull_cluster_planned_destroy,
    .arrive = lull_cluster_planned_arrive,
    .end = lull_cluster_planned_end,
    .decide = lull_cluster_planned_decide,
    .begin = lull_cluster_planned_begin,
    .node = lull_cluster_planned_node,
    .wake_ns = lull_cluster_planned_wake_ns,
};
