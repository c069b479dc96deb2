/*
 * PD-RATS: least energy, and what a second of completion time is worth, at posted prices of GPU
 * time (docs/competitive.md). Where all jobs that are known when the first one comes may be
 * preempted and have to run, jobs are ranked, and their GPUs and clocks change while they run
 * (pd_rats_ranked.c); else they get reservations (pd_rats_reserved.c).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/pd_rats.h"

#include <errno.h>
#include <stdlib.h>

struct lull_cluster_policy {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    double second_j;
    struct lull_cluster_decider inner; /* ops NULL: no job has come yet */
};

static const struct lull_cluster_knob knob = {
    .what = "what a second of a job's completion time is worth, J",
    .least = 0.0,
    .most = 1e9,
    .usual = 500.0,
};

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    struct lull_cluster_policy *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    policy->second_j = knob.usual;
    *policy_out = policy;
    return 0;
}

static void destroy(struct lull_cluster_policy *policy)
{
    if (policy == NULL)
        return;
    if (policy->inner.ops != NULL)
        policy->inner.ops->destroy(policy->inner.policy);
    free(policy);
}

static void turn(struct lull_cluster_policy *policy, double setting)
{
    policy->second_j = setting;
}

static bool can_be_ranked(const struct lull_cluster_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (!jobs->all[i].is_preemptible || jobs->all[i].value_j > 0.0)
            return false;
    return true;
}

static int choose(struct lull_cluster_policy *policy)
{
    const struct lull_cluster_policy_ops *const ops =
        can_be_ranked(policy->jobs) ? &lull_pd_rats_ranked : &lull_pd_rats_reserved;
    const int rc = ops->create(policy->cluster, policy->jobs, &policy->inner.policy);

    if (rc < 0)
        return rc;
    policy->inner.ops = ops;
    ops->turn(policy->inner.policy, policy->second_j);
    return 0;
}

static int arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    const int rc = policy->inner.ops == NULL ? choose(policy) : 0;

    return rc < 0 ? rc : policy->inner.ops->arrive(policy->inner.policy, job, now_ns);
}

static void end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    policy->inner.ops->end(policy->inner.policy, job, now_ns);
}

static bool decide(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    return policy->inner.ops != NULL &&
           policy->inner.ops->decide(policy->inner.policy, state, now_ns, decision);
}

static void begin(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode, int64_t now_ns)
{
    if (policy->inner.ops->begin != NULL)
        policy->inner.ops->begin(policy->inner.policy, job, mode, now_ns);
}

static void pace(struct lull_cluster_policy *policy, uint32_t job, double its_pace, int64_t end_ns,
                 int64_t now_ns)
{
    policy->inner.ops->pace(policy->inner.policy, job, its_pace, end_ns, now_ns);
}

static void node(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                 uint32_t node, int64_t now_ns)
{
    if (policy->inner.ops != NULL)
        policy->inner.ops->node(policy->inner.policy, state, node, now_ns);
}

static int64_t wake_ns(const struct lull_cluster_policy *policy, int64_t now_ns)
{
    const struct lull_cluster_policy_ops *ops = policy->inner.ops;

    return ops != NULL && ops->wake_ns != NULL ? ops->wake_ns(policy->inner.policy, now_ns)
                                               : LULL_CLUSTER_NEVER;
}

const struct lull_cluster_policy_ops lull_cluster_policy_pd_rats = {
    .name = "pd-rats",
    .summary = "least energy and time at posted prices; reservations, or preemption and resizing",
    .create = create,
    .destroy = destroy,
    .arrive = arrive,
    .end = end,
    .decide = decide,
    .begin = begin,
    .pace = pace,
    .knob = &knob,
    .turn = turn,
    .node = node,
    .wake_ns = wake_ns,
};
