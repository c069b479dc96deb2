/*
 * PD-RATS: least energy, and what a second of completion time is worth, at posted prices of GPU
 * time (docs/competitive.md). Where all jobs that are known when the first one comes may be
 * preempted and have to run, jobs are ranked, and their GPUs and clocks change while they run
 * (pd_rats_ranked.c); else they get reservations (pd_rats_reserved.c).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/cluster/policy/single.h"

#include <errno.h>
#include <stdlib.h>

struct lull_pd_rats {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    double second_j;
    struct lull_cluster_decider inner; /* calls NULL: no job has come yet */
};

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  const void *rule, struct lull_cluster_policy **policy_out)
{
    struct lull_pd_rats *policy = calloc(1, sizeof(*policy));

    (void)rule;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

static void destroy(struct lull_cluster_policy *handle)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy == NULL)
        return;
    if (policy->inner.calls != NULL)
        policy->inner.calls->destroy(policy->inner.policy);
    free(policy);
}

static void turn(struct lull_cluster_policy *handle, double setting)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    policy->second_j = setting;
}

static bool can_be_ranked(const struct lull_cluster_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (!jobs->all[i].is_preemptible || jobs->all[i].value_j > 0.0)
            return false;
    return true;
}

static int choose(struct lull_pd_rats *policy)
{
    const bool is_ranked = can_be_ranked(policy->jobs);
    const struct lull_cluster_policy_calls *const calls =
        is_ranked ? &lull_ranked_calls : &lull_pd_rats_reserved_calls;
    const int rc = calls->create(policy->cluster, policy->jobs,
                                 is_ranked ? &lull_pd_rats_ranking : NULL, &policy->inner.policy);

    if (rc < 0)
        return rc;
    policy->inner.calls = calls;
    calls->set_parameter(policy->inner.policy, policy->second_j);
    return 0;
}

static int arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;
    const int rc = policy->inner.calls == NULL ? choose(policy) : 0;

    return rc < 0 ? rc : policy->inner.calls->arrive(policy->inner.policy, job, now_ns);
}

static void end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    policy->inner.calls->end(policy->inner.policy, job, now_ns);
}

static bool decide(struct lull_cluster_policy *handle, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    return policy->inner.calls != NULL &&
           policy->inner.calls->decide(policy->inner.policy, state, now_ns, decision);
}

static void begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy->inner.calls->begin != NULL)
        policy->inner.calls->begin(policy->inner.policy, job, point, now_ns);
}

static void pace(struct lull_cluster_policy *handle, uint32_t job, double its_pace, int64_t end_ns,
                 int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    policy->inner.calls->pace(policy->inner.policy, job, its_pace, end_ns, now_ns);
}

static void node(struct lull_cluster_policy *handle, const struct lull_cluster_state *state,
                 uint32_t node, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy->inner.calls != NULL)
        policy->inner.calls->node(policy->inner.policy, state, node, now_ns);
}

static int64_t wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_pd_rats *const policy = (const struct lull_pd_rats *)handle;
    const struct lull_cluster_policy_calls *calls = policy->inner.calls;

    return calls != NULL && calls->wake_ns != NULL ? calls->wake_ns(policy->inner.policy, now_ns)
                                                   : LULL_CLUSTER_NEVER;
}

const struct lull_cluster_policy_calls lull_pd_rats_calls = {
    .create = create,
    .destroy = destroy,
    .arrive = arrive,
    .end = end,
    .decide = decide,
    .set_parameter = turn,
    .begin = begin,
    .pace = pace,
    .node = node,
    .wake_ns = wake_ns,
};
