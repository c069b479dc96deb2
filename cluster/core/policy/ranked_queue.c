/*
 * State of the jobs of a ranked policy: queues by shape, the running jobs, and the number of jobs
 * that want a pool's GPUs. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/policy/ranked_state.h"

/* A waiting job has to start once no more than this many times what it needs is left until its
 * deadline. Chosen with pd-rats on the traces of docs/research/measurements/cluster.md, not
 * measured individually. */
static const double URGENCY = 1.7;

/* The shape of a group with this many GPUs, which is made if it is new; NULL: out of memory. */
static struct lull_ranked_shape *ranked_queue_shape_of(struct lull_ranked_group *group,
                                                       uint32_t gpus)
{
    struct lull_ranked_shape *shapes = group->shapes;
    uint32_t at = 0;

    while (at < group->shape_count && shapes[at].gpus < gpus)
        at++;
    if (at < group->shape_count && shapes[at].gpus == gpus)
        return &shapes[at];
    shapes = realloc(shapes, (group->shape_count + 1) * sizeof(*shapes));
    if (shapes == NULL)
        return NULL;
    memmove(&shapes[at + 1], &shapes[at], (group->shape_count - at) * sizeof(*shapes));
    shapes[at] = (struct lull_ranked_shape){.gpus = gpus};
    group->shapes = shapes;
    group->shape_count++;
    return &shapes[at];
}

static uint64_t ranked_queue_number_of(const struct lull_ranked *policy, uint32_t job)
{
    return (uint64_t)job << 32 | policy->ledger.records[job].stamp;
}

void lull_ranked_offer(struct lull_ranked *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_job_record *record = &policy->ledger.records[job];
    const uint32_t type = asked->points[record->point].type;
    const uint32_t gpus = asked->points[record->point].gpus;
    struct lull_ranked_shape *const shape =
        ranked_queue_shape_of(&policy->groups[lull_ranked_group_of(policy, job, type)], gpus);
    const int64_t rank = lull_ranked_rank(policy, job, record->point, now_ns);

    /* Jobs on equally many GPUs near their ends equally fast, so that the order of ends stays.
       Without memory the job is not preempted, and no harm is done. */
    if (asked->is_preemptible && record->shares != NULL && shape != NULL)
        lull_heap_add(&shape->running,
                      policy->ranking->is_fixed ? -rank
                                                : -lull_job_ledger_end_ns(&policy->ledger, job),
                      ~ranked_queue_number_of(policy, job));
}

static void ranked_queue_touch(struct lull_ranked *policy, uint32_t pool)
{
    if (policy->is_dirty[pool])
        return;
    assert(policy->dirty_count < policy->cluster->pool_count);
    policy->is_dirty[pool] = true;
    policy->dirty[policy->dirty_count++] = pool;
}

void lull_ranked_unblock(struct lull_ranked *policy, uint32_t pool)
{
    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        struct lull_ranked_group *const group =
            &policy->groups[lull_cluster_group(policy->cluster, pool, type)];

        for (uint32_t i = 0; i < group->shape_count; i++)
            group->shapes[i].tries = 0;
        group->barren_gpus = 0;
    }
    ranked_queue_touch(policy, pool);
}

void lull_ranked_forget(struct lull_ranked *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_ranked_group *const group = &policy->groups[lull_ranked_group_of(
        policy, job, asked->points[policy->ledger.records[job].point].type)];

    lull_running_set_remove(&policy->ledger, &group->running, job);
    if (group->cursor > group->running.count)
        group->cursor = group->running.count;
}

void lull_ranked_count(struct lull_ranked *policy, uint32_t job, int waiting, double weight)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const uint32_t only = policy->types[job];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        struct lull_queue_stats *queue;

        if ((only != UINT32_MAX && only != type) ||
            lull_ranked_entry_point(policy, job, type) == asked->point_count)
            continue;
        queue = &policy->queues[lull_ranked_group_of(policy, job, type)];
        assert(waiting >= 0 || queue->waiting > 0);
        queue->waiting += (uint64_t)waiting;
        queue->weight += weight;
        /* An empty queue starts from 0 again, so that roundings do not add up. */
        queue->weight_waiting =
            queue->waiting == 0 ? 0.0 : queue->weight_waiting + waiting * asked->weight;
    }
}

/* Records when a waiting job has to start in its fastest operating point to meet its deadline. */
static int note_urgency(struct lull_ranked *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];

    if (policy->ranking->urgency == NULL || asked->deadline_ns == LULL_CLUSTER_NEVER ||
        policy->ledger.records[job].is_urgent)
        return 0;
    return lull_heap_add(&policy->urgent,
                         asked->deadline_ns - (int64_t)(URGENCY * (double)lull_job_ledger_need_ns(
                                                                      &policy->ledger, job, 0)),
                         ranked_queue_number_of(policy, job));
}

void lull_ranked_mark_urgent(struct lull_ranked *policy, int64_t now_ns)
{
    struct lull_heap_entry first;

    while (lull_heap_take(&policy->urgent, now_ns, &first)) {
        const uint32_t job = (uint32_t)(first.number >> 32);

        if (ranked_queue_number_of(policy, job) != first.number ||
            now_ns + lull_job_ledger_need_ns(&policy->ledger, job, 0) >
                policy->ledger.jobs->all[job].deadline_ns)
            continue;
        policy->ledger.records[job].is_urgent = true;
        policy->ledger.records[job].stamp++;
        (void)lull_ranked_enqueue(policy, job, now_ns);
    }
}

int lull_ranked_enqueue(struct lull_ranked *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const uint32_t only = policy->types[job];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        uint32_t point = lull_ranked_entry_point(policy, job, type);
        struct lull_ranked_shape *shape;

        if (point == asked->point_count || (only != UINT32_MAX && only != type))
            continue;
        point = lull_ranked_wanted(policy, job, point, now_ns);
        shape = ranked_queue_shape_of(&policy->groups[lull_ranked_group_of(policy, job, type)],
                                      asked->points[point].gpus);
        if (shape == NULL ||
            lull_heap_add(&shape->waiting, lull_ranked_rank(policy, job, point, now_ns),
                          ranked_queue_number_of(policy, job)) < 0)
            return -ENOMEM;
        shape->tries = 0;
    }
    ranked_queue_touch(policy, asked->pool);
    return note_urgency(policy, job);
}
