/*
 * Chooses the running jobs that have to stop so that a job which ranks before them can start.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <stdlib.h>

#include "cluster/core/model/placement.h"
#include "cluster/core/policy/ranked_state.h"

static uint32_t ranked_preempt_job_of(const struct lull_heap_entry *entry)
{
    return (uint32_t)(~entry->number >> 32);
}

static bool ranked_preempt_is_stale(const struct lull_ranked *policy,
                                    const struct lull_heap_entry *entry)
{
    return policy->ledger.records[ranked_preempt_job_of(entry)].stamp != (uint32_t)~entry->number;
}

static int64_t ranked_preempt_rank_of(const struct lull_ranked *policy, uint32_t job,
                                      int64_t now_ns)
{
    return lull_ranked_rank(policy, job, policy->ledger.records[job].point, now_ns);
}

/* The running job that ranks last, if behind `rank`, leaves its heap for `popped`. */
static bool pop_last(struct lull_ranked *policy, struct lull_ranked_group *group, int64_t rank,
                     int64_t now_ns, struct lull_heap_entry *popped)
{
    struct lull_ranked_shape *last = NULL;
    int64_t most = rank;

    for (uint32_t i = 0; i < group->shape_count; i++) {
        struct lull_heap *const running = &group->shapes[i].running;
        struct lull_heap_entry stale;
        int64_t its;

        while (running->count > 0 && ranked_preempt_is_stale(policy, running->entries))
            lull_heap_take(running, INT64_MAX, &stale);
        if (running->count == 0)
            continue;
        its = ranked_preempt_rank_of(policy, ranked_preempt_job_of(running->entries), now_ns);
        if (its > most || (its == most && last != NULL &&
                           ranked_preempt_job_of(running->entries) >
                               ranked_preempt_job_of(last->running.entries))) {
            most = its;
            last = &group->shapes[i];
        }
    }
    return last != NULL && lull_heap_take(&last->running, INT64_MAX, popped);
}

static void push_back(struct lull_ranked *policy, struct lull_ranked_group *group,
                      const struct lull_heap_entry *entry)
{
    const uint32_t job = ranked_preempt_job_of(entry);
    const uint32_t gpus =
        policy->ledger.jobs->all[job].points[policy->ledger.records[job].point].gpus;

    /* There is room: it has just been there. */
    for (uint32_t i = 0; i < group->shape_count; i++)
        if (group->shapes[i].gpus == gpus)
            lull_heap_add(&group->shapes[i].running, entry->key, entry->number);
}

static uint32_t ranked_preempt_gpus_of(const struct lull_ranked *policy, uint32_t job)
{
    return policy->ledger.jobs->all[job].points[policy->ledger.records[job].point].gpus;
}

static void ranked_preempt_assign(struct lull_ranked *policy, uint32_t job)
{
    lull_cluster_copy_give(policy->copy, policy->ledger.records[job].shares,
                           policy->ledger.records[job].share_count);
}

/* A job that has just begun ranks before jobs that arrive later at the same time; and its start
 * may not have happened, because a rule around the policy can reject it (power_cap.h). */
static bool has_just_begun(const struct lull_ranked *policy, uint32_t job, int64_t now_ns)
{
    return policy->ledger.records[job].since_ns == now_ns;
}

/*
 * Pops jobs from the one that ranks last on until the job fits in its entry operating point. Its
 * shares are in the plan then, and the copy is as the cluster would be without those that were
 * popped. Returns how many were popped.
 */
static uint32_t pop_enough(struct lull_ranked *policy, struct lull_ranked_group *group,
                           const struct lull_cluster_state *state, uint32_t job,
                           uint32_t entry_point, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_cluster_point *entry = &asked->points[entry_point];
    const int64_t rank = lull_ranked_rank(policy, job, entry_point, now_ns);
    uint64_t free = lull_cluster_state_free_of(state, asked->pool, entry->type);
    bool is_synced = false;
    uint32_t popped = 0;

    policy->plan.share_count = 0;
    while (policy->plan.share_count == 0 && popped < policy->popped_room &&
           pop_last(policy, group, rank, now_ns, &policy->popped[popped])) {
        const uint32_t last = ranked_preempt_job_of(&policy->popped[popped++]);

        if (has_just_begun(policy, last, now_ns))
            continue;
        free += ranked_preempt_gpus_of(policy, last);
        if (is_synced)
            ranked_preempt_assign(policy, last);
        if (free < entry->gpus)
            continue;
        if (!is_synced) {
            lull_cluster_copy_group(policy->copy, state, asked->pool, entry->type);
            for (uint32_t i = 0; i < popped; i++)
                if (!has_just_begun(policy, ranked_preempt_job_of(&policy->popped[i]), now_ns))
                    ranked_preempt_assign(policy, ranked_preempt_job_of(&policy->popped[i]));
            is_synced = true;
        }
        policy->plan.share_count = lull_cluster_place_consolidated(
            policy->copy, asked->pool, entry->type, entry->gpus, policy->plan.shares);
    }
    return popped;
}

bool lull_ranked_make_room(struct lull_ranked *policy, const struct lull_cluster_state *state,
                           uint32_t job, uint32_t entry_point, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_ranked_group *const group = &policy->groups[lull_cluster_group(
        policy->cluster, asked->pool, asked->points[entry_point].type)];
    struct lull_ranked_plan *const plan = &policy->plan;
    uint32_t popped;

    /* Room was already made for it at this time, but a rule around the policy, such as a power
     * cap, prevents its start. */
    if (policy->ledger.records[job].room_ns == now_ns)
        return false;
    popped = pop_enough(policy, group, state, job, entry_point, now_ns);
    plan->stop_count = 0;
    plan->next_stop = 0;
    plan->job = job;
    plan->point =
        lull_ranked_cheapest(policy, job, entry_point, asked->points[entry_point].gpus, 0, now_ns);
    plan->has_start = plan->share_count > 0;
    if (plan->has_start) {
        lull_cluster_state_take(policy->copy, plan->shares, plan->share_count);
        policy->ledger.records[job].room_ns = now_ns;
    }
    /* Those of the popped jobs that rank first stay where they are if there is room. */
    while (popped-- > 0) {
        const struct lull_heap_entry *entry = &policy->popped[popped];
        const struct lull_job_record *record =
            &policy->ledger.records[ranked_preempt_job_of(entry)];

        if (!plan->has_start ||
            lull_cluster_shares_fit(policy->copy, record->shares, record->share_count)) {
            if (plan->has_start)
                lull_cluster_state_take(policy->copy, record->shares, record->share_count);
            push_back(policy, group, entry);
        } else {
            assert(plan->stop_count < policy->popped_room);
            plan->stops[plan->stop_count++] = ranked_preempt_job_of(entry);
        }
    }
    return plan->has_start;
}
