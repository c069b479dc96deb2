/*
 * Running jobs get more GPUs if some are free that no waiting job can use: they stop and restart.
 * They get fewer GPUs only after a preemption, if fewer are free at the restart.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "cluster/core/model/placement.h"
#include "cluster/core/policy/ranked_state.h"

/* A running job gets more GPUs only if its gain is this many times the cost of the restart. */
static const double CLEARLY = 2.0;

static const struct lull_cluster_point *ranked_resize_point_of(const struct lull_ranked *policy,
                                                               uint32_t job)
{
    return &policy->ledger.jobs->all[job].points[policy->ledger.records[job].point];
}

/* Returns whether a running job may be stopped, its GPUs are known, and it did not begin just now.
 */
static bool can_move(const struct lull_ranked *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_job_record *record = &policy->ledger.records[job];

    return policy->ledger.jobs->all[job].is_preemptible && record->shares != NULL &&
           record->since_ns < now_ns;
}

/* The gain of a running job by an operating point with more GPUs, less the cost of the restart, per
 * GPU-second that it takes. */
static double gain_by(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                      int64_t now_ns)
{
    const struct lull_cluster_point *old = ranked_resize_point_of(policy, job);
    const struct lull_cluster_point *wide = &policy->ledger.jobs->all[job].points[point];
    const struct lull_queue_stats *queue =
        &policy->queues[lull_ranked_group_of(policy, job, old->type)];
    const double left_ratio =
        (double)(lull_job_ledger_end_ns(&policy->ledger, job) - now_ns) / (double)old->time_ns;
    const double wide_cost = policy->ranking->cost(policy, job, point, queue, now_ns);
    const double old_cost =
        policy->ranking->cost(policy, job, policy->ledger.records[job].point, queue, now_ns);
    const double again_ratio = (double)lull_cluster_restart_ns(old->gpus) / (double)wide->time_ns;

    return (left_ratio * (old_cost - wide_cost) - CLEARLY * again_ratio * wide_cost) /
           (left_ratio * (double)wide->time_ns * (wide->gpus - old->gpus));
}

/* Places a running job on more GPUs, as if its own had been released. Returns how many shares; 0:
 * it does not fit. */
static size_t place_wider(struct lull_ranked *policy, uint32_t job, uint32_t gpus,
                          struct lull_cluster_share *shares_out)
{
    struct lull_cluster_state *const copy = policy->copy;
    const struct lull_job_record *record = &policy->ledger.records[job];
    size_t count;

    lull_cluster_state_give(copy, record->shares, record->share_count);
    count = lull_cluster_place_consolidated(copy, policy->ledger.jobs->all[job].pool,
                                            ranked_resize_point_of(policy, job)->type, gpus,
                                            shares_out);
    lull_cluster_state_take(copy, record->shares, record->share_count);
    return count;
}

/* Returns whether a running job may be moved and has an operating point with more GPUs. */
static bool can_grow(const struct lull_ranked *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_cluster_point *now = ranked_resize_point_of(policy, job);

    for (uint32_t point = 0; point < asked->point_count; point++)
        if (asked->points[point].gpus > now->gpus && asked->points[point].type == now->type)
            return can_move(policy, job, now_ns);
    return false;
}

/* Plans that a job stops, and begins again on these shares in an operating point. */
static void plan_move(struct lull_ranked_plan *plan, uint32_t job, uint32_t point,
                      const struct lull_cluster_share *shares, size_t share_count)
{
    plan->stops[0] = job;
    plan->stop_count = 1;
    plan->next_stop = 0;
    plan->has_start = true;
    plan->job = job;
    plan->point = point;
    memcpy(plan->shares, shares, share_count * sizeof(*shares));
    plan->share_count = share_count;
}

bool lull_ranked_grow(struct lull_ranked *policy, const struct lull_cluster_state *state,
                      uint32_t pool, uint32_t type, int64_t now_ns,
                      struct lull_cluster_share *shares)
{
    struct lull_ranked_group *const group =
        &policy->groups[lull_cluster_group(policy->cluster, pool, type)];
    const uint64_t free = lull_cluster_state_free_of(state, pool, type);
    double most = 0.0;

    if (free == 0 || free == group->barren_gpus)
        return false;
    lull_cluster_copy_group(policy->copy, state, pool, type);
    for (uint32_t i = 0; i < group->running.count; i++) {
        const uint32_t job = group->running.jobs[i];
        const uint32_t old = policy->ledger.records[job].point;
        const uint32_t gpus = ranked_resize_point_of(policy, job)->gpus;
        uint32_t point;
        size_t count;
        double gain;

        if (!can_grow(policy, job, now_ns))
            continue;
        point = lull_ranked_cheapest(policy, job, old, 0, gpus + free, now_ns);
        if (policy->ledger.jobs->all[job].points[point].gpus <= gpus)
            continue;
        gain = gain_by(policy, job, point, now_ns);
        if (gain <= most)
            continue;
        count = place_wider(policy, job, policy->ledger.jobs->all[job].points[point].gpus, shares);
        if (count == 0)
            continue;
        most = gain;
        plan_move(&policy->plan, job, point, shares, count);
    }
    group->barren_gpus = most > 0.0 ? 0 : free;
    return most > 0.0;
}
