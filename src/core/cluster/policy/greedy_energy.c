/*
 * Greedy marginal energy: each job, when it comes, gets the mode, type, nodes and start that add
 * least to what the cluster draws, among those that meet its deadline (after Thang, "Online
 * primal-dual algorithms with configuration linear programs", ISAAC'20, arXiv 1408.0965: the least
 * marginal energy). Its GPUs would have drawn idle power meanwhile, which is not added. The knob
 * prices its completion time, so that jobs without deadlines need not wait for the last joule.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/planned.h"

static double cost(const struct lull_cluster_choice *choice, double setting)
{
    return choice->energy_j - choice->type->idle_w * choice->mode->gpus * choice->run_s +
           setting * choice->job->weight * (choice->wait_s + choice->run_s);
}

static const struct lull_cluster_knob knob = {
    .what = "J that a second of completion time of a job of weight 1 is worth; 0: energy alone",
    .least = 0.0,
    .most = 1e9,
    .usual = 400.0,
};

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    static const struct lull_cluster_planning planning = {.reason = "adds least energy in time",
                                                          .cost = cost};

    return lull_cluster_planned_create(cluster, jobs, &planning, knob.usual, policy_out);
}

const struct lull_cluster_policy_ops lull_cluster_policy_greedy_energy = {
    .name = "greedy-energy",
    .summary =
        "each job where, when and at the clock that adds least energy and meets its deadline",
    .create = create,
    .destroy = lull_cluster_planned_destroy,
    .arrive = lull_cluster_planned_arrive,
    .end = lull_cluster_planned_end,
    .decide = lull_cluster_planned_decide,
    .begin = lull_cluster_planned_begin,
    .node = lull_cluster_planned_node,
    .wake_ns = lull_cluster_planned_wake_ns,
    .knob = &knob,
    .turn = lull_cluster_planned_turn,
};
