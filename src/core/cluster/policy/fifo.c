/*
 * First come, first served, each pool by itself. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <stdlib.h>

#include "core/cluster/placement.h"
#include "core/cluster/policy.h"

struct queue {
    uint32_t *jobs; /* [head, tail) wait */
    size_t head;
    size_t tail;
    size_t room;
    bool has_changed; /* since its head was last seen not to fit */
};

struct lull_cluster_policy {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct queue *pools;
};

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  struct lull_cluster_policy **policy_out)
{
    struct lull_cluster_policy *policy = calloc(1, sizeof(*policy));
    struct queue *pools = calloc(cluster->pool_count, sizeof(*pools));

    if (policy == NULL || pools == NULL) {
        free(policy);
        free(pools);
        return -ENOMEM;
    }
    *policy = (struct lull_cluster_policy){cluster, jobs, pools};
    *policy_out = policy;
    return 0;
}

static void destroy(struct lull_cluster_policy *policy)
{
    for (uint32_t i = 0; i < policy->cluster->pool_count; i++)
        free(policy->pools[i].jobs);
    free(policy->pools);
    free(policy);
}

static int arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    struct queue *const queue = &policy->pools[policy->jobs->all[job].pool];

    (void)now_ns;
    if (queue->tail == queue->room) {
        const size_t room = queue->room > 0 ? 2 * queue->room : 64;
        uint32_t *jobs = realloc(queue->jobs, room * sizeof(*jobs));

        if (jobs == NULL)
            return -ENOMEM;
        queue->jobs = jobs;
        queue->room = room;
    }
    queue->has_changed = true;
    queue->jobs[queue->tail++] = job;
    return 0;
}

static void end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    (void)now_ns;
    policy->pools[policy->jobs->all[job].pool].has_changed = true;
}

/* The first mode, fastest by convention, that fits now. */
static bool place(const struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                  uint32_t job, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->jobs->all[job];

    for (uint32_t mode = 0; mode < asked->mode_count; mode++) {
        const size_t count = lull_cluster_place_consolidated(
            state, asked->pool, asked->modes[mode].type, asked->modes[mode].gpus, decision->shares);

        if (count == 0)
            continue;
        decision->act = LULL_CLUSTER_START;
        decision->job = job;
        decision->mode = mode;
        decision->share_count = count;
        decision->reason = "first in its queue";
        return true;
    }
    return false;
}

static bool decide(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    (void)now_ns;
    for (uint32_t i = 0; i < policy->cluster->pool_count; i++) {
        struct queue *const queue = &policy->pools[i];

        if (!queue->has_changed)
            continue;
        if (queue->head < queue->tail && place(policy, state, queue->jobs[queue->head], decision)) {
            queue->head++;
            return true;
        }
        queue->has_changed = false;
    }
    return false;
}

const struct lull_cluster_policy_ops lull_cluster_policy_fifo = {
    .name = "fifo",
    .summary = "first come, first served; the first that does not fit holds up its pool",
    .create = create,
    .destroy = destroy,
    .arrive = arrive,
    .end = end,
    .decide = decide,
};
