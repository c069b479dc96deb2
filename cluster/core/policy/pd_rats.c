/*
 * PD-RATS: least energy, and what a second of completion time is worth, at posted prices of GPU
 * time (docs/research/pd-rats.md). Where all jobs that are known when the first one comes may be
 * preempted and have to run, jobs are ranked, and their GPUs and clocks change while they run
 * (pd_rats_ranked.c); else they get reservations (pd_rats_reserved.c).
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/policy/single.h"

#include <errno.h>
#include <stdlib.h>

struct lull_pd_rats {
    struct lull_cluster_decider inner; /* none until a job comes; first (policy.h) */
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    double second_j;
};

static int rats_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    struct lull_pd_rats *policy = calloc(1, sizeof(*policy));

    (void)rule;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    policy->second_j = setting;
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

static void rats_destroy(struct lull_cluster_policy *handle)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy == NULL)
        return;
    if (policy->inner.calls != NULL)
        policy->inner.calls->destroy(policy->inner.policy);
    free(policy);
}

/* Returns whether all jobs may be preempted and have to run, so that nothing has to be promised to
 * them. */
static bool can_be_ranked(const struct lull_cluster_jobs *jobs)
{
    for (size_t i = 0; i < jobs->count; i++)
        if (!jobs->all[i].is_preemptible || jobs->all[i].value_j > 0.0)
            return false;
    return true;
}

/* Creates the inner policy, ranked or with reservations. The choice waits for the first job, since
 * jobs may still be added before. */
static int rats_choose(struct lull_pd_rats *policy)
{
    const struct lull_cluster_policy_calls *calls = &lull_pd_rats_reserved_calls;
    const struct lull_cluster_ranking *rule = NULL;
    int rc;

    if (can_be_ranked(policy->jobs)) {
        calls = &lull_ranked_calls;
        rule = &lull_pd_rats_ranking;
    }
    rc =
        calls->create(policy->cluster, policy->jobs, rule, policy->second_j, &policy->inner.policy);
    if (rc < 0)
        return rc;
    policy->inner.calls = calls;
    return 0;
}

static int rats_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy->inner.calls == NULL && rats_choose(policy) < 0)
        return -ENOMEM;
    return policy->inner.calls->arrive(policy->inner.policy, job, now_ns);
}

static int rats_adopt(struct lull_cluster_policy *handle, uint32_t job,
                      const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy->inner.calls == NULL && rats_choose(policy) < 0)
        return -ENOMEM;
    return lull_cluster_decider_adopt(handle, job, shares, count, now_ns);
}

static int rats_recall(struct lull_cluster_policy *handle, uint32_t job, uint32_t point)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    if (policy->inner.calls == NULL && rats_choose(policy) < 0)
        return -ENOMEM;
    return lull_cluster_decider_recall(handle, job, point);
}

static bool rats_decide(struct lull_cluster_policy *handle, const struct lull_cluster_state *state,
                        int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_pd_rats *const policy = (struct lull_pd_rats *)handle;

    return policy->inner.calls != NULL &&
           policy->inner.calls->decide(policy->inner.policy, state, now_ns, decision);
}

const struct lull_cluster_policy_calls lull_pd_rats_calls = {
    .create = rats_create,
    .destroy = rats_destroy,
    .arrive = rats_arrive,
    .adopt = rats_adopt,
    .recall = rats_recall,
    .end = lull_cluster_decider_end,
    .decide = rats_decide,
    .begin = lull_cluster_decider_begin,
    .pace = lull_cluster_decider_pace,
    .node = lull_cluster_decider_node,
    .wake_ns = lull_cluster_decider_wake_ns,
};
