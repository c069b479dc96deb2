/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/ordered.h"

#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"
#include "cluster/core/model/placement.h"

struct ordered_queue {
    struct lull_heap waiting;
    bool has_changed; /* a job may fit that did not fit when the queue was last examined */
};

struct lull_ordered {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    const struct lull_cluster_ordering *ordering;
    struct ordered_queue *pools;
};

static int ordered_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    struct lull_ordered *policy = calloc(1, sizeof(*policy));
    struct ordered_queue *pools = calloc(cluster->pool_count, sizeof(*pools));

    if (policy == NULL || pools == NULL) {
        free(policy);
        free(pools);
        return -ENOMEM;
    }
    (void)setting;
    *policy = (struct lull_ordered){cluster, jobs, rule, pools};
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

static void ordered_destroy(struct lull_cluster_policy *handle)
{
    struct lull_ordered *const policy = (struct lull_ordered *)handle;

    for (uint32_t i = 0; i < policy->cluster->pool_count; i++)
        lull_heap_fini(&policy->pools[i].waiting);
    free(policy->pools);
    free(policy);
}

static int ordered_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_ordered *const policy = (struct lull_ordered *)handle;
    const struct lull_cluster_job *asked = &policy->jobs->all[job];
    struct ordered_queue *const queue = &policy->pools[asked->pool];

    (void)now_ns;
    queue->has_changed = true;
    return lull_heap_add(&queue->waiting, policy->ordering->key(asked), job);
}

static void ordered_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_ordered *const policy = (struct lull_ordered *)handle;

    (void)now_ns;
    policy->pools[policy->jobs->all[job].pool].has_changed = true;
}

/* Decides that the job starts in the first of its operating points that fits now; false: none does.
 */
static bool ordered_place(const struct lull_ordered *policy, const struct lull_cluster_state *state,
                          uint32_t job, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->jobs->all[job];

    for (uint32_t point = 0; point < asked->point_count; point++) {
        size_t count;

        if (!lull_cluster_has_memory(asked, &policy->cluster->types[asked->points[point].type]))
            continue;
        count = lull_cluster_place_consolidated(state, asked->pool, asked->points[point].type,
                                                asked->points[point].gpus, decision->shares);
        if (count == 0)
            continue;
        return lull_cluster_decide_start(decision, job, point, count, policy->ordering->reason);
    }
    return false;
}

static bool ordered_is_before(const struct lull_heap_entry *left,
                              const struct lull_heap_entry *right)
{
    return left->key != right->key ? left->key < right->key : left->number < right->number;
}

/* Of the queues that have changed, the one whose first job goes first. Pools share no GPUs, but
 * they may share power under a cap, so that their order counts. */
static struct ordered_queue *first_queue(struct lull_ordered *policy)
{
    struct ordered_queue *first = NULL;

    for (uint32_t i = 0; i < policy->cluster->pool_count; i++) {
        struct ordered_queue *const queue = &policy->pools[i];

        if (queue->has_changed && queue->waiting.count > 0 &&
            (first == NULL ||
             ordered_is_before(&queue->waiting.entries[0], &first->waiting.entries[0])))
            first = queue;
    }
    return first;
}

static bool ordered_decide(struct lull_cluster_policy *handle,
                           const struct lull_cluster_state *state, int64_t now_ns,
                           struct lull_cluster_decision *decision)
{
    struct lull_ordered *const policy = (struct lull_ordered *)handle;
    struct lull_heap_entry taken;
    struct ordered_queue *queue;

    (void)now_ns;
    while ((queue = first_queue(policy)) != NULL) {
        if (ordered_place(policy, state, (uint32_t)queue->waiting.entries[0].number, decision))
            return lull_heap_take(&queue->waiting, INT64_MAX, &taken);
        queue->has_changed = false;
    }
    return false;
}

static void ordered_node_changed(struct lull_cluster_policy *handle,
                                 const struct lull_cluster_state *state, uint32_t node,
                                 int64_t now_ns)
{
    struct lull_ordered *const policy = (struct lull_ordered *)handle;

    (void)state;
    (void)now_ns;
    policy->pools[policy->cluster->nodes[node].pool].has_changed = true;
}

const struct lull_cluster_policy_calls lull_ordered_calls = {
    .create = ordered_create,
    .destroy = ordered_destroy,
    .arrive = ordered_arrive,
    .end = ordered_end,
    .decide = ordered_decide,
    .node = ordered_node_changed,
};
