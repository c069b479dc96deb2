/*
 * Room for a job that would be late: jobs that have not begun, those with the most time to spare
 * first, make way and are planned again in their fastest modes. SPDX-License-Identifier: Apache-2.0
 */
#include <stdlib.h>

#include "core/cluster/policy/planned_state.h"

/* More would rarely help and cost each late job as many plans. */
enum { MOST_MOVED = 8 };

static int64_t spare_ns(const struct lull_cluster_policy *policy, uint32_t job)
{
    const int64_t deadline_ns = policy->book.jobs->all[job].deadline_ns;

    return deadline_ns == LULL_CLUSTER_NEVER ? LULL_CLUSTER_NEVER
                                             : deadline_ns - policy->plans[job].end_ns;
}

/* Jobs of the pool that start before the deadline, those that can best wait first. */
static size_t choose_moved(const struct lull_cluster_policy *policy, uint32_t job,
                           uint32_t *moved_out)
{
    const struct lull_cluster_job *late = &policy->book.jobs->all[job];
    size_t count = 0;

    for (size_t i = 0; i < policy->planned.count; i++) {
        const uint32_t other = policy->planned.jobs[i];
        const int64_t its_ns = spare_ns(policy, other);
        size_t at;

        if (policy->book.jobs->all[other].pool != late->pool ||
            policy->plans[other].start_ns >= late->deadline_ns || its_ns < 0)
            continue;
        at = count < MOST_MOVED ? count++ : MOST_MOVED;
        while (at > 0 &&
               (spare_ns(policy, moved_out[at - 1]) < its_ns ||
                (spare_ns(policy, moved_out[at - 1]) == its_ns && moved_out[at - 1] > other))) {
            if (at < MOST_MOVED)
                moved_out[at] = moved_out[at - 1];
            at--;
        }
        if (at < MOST_MOVED)
            moved_out[at] = other;
    }
    return count;
}

/* The one with the least time goes first again. */
static bool plan_again(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                       const uint32_t *moved, size_t count, int64_t now_ns)
{
    for (size_t i = count; i-- > 0;)
        if (!lull_planned_plan(policy, state, moved[i], LULL_PLAN_FASTEST, now_ns) ||
            lull_planned_is_late(policy, moved[i]))
            return false;
    return true;
}

static void drop(struct lull_cluster_policy *policy, uint32_t job)
{
    if (policy->plans[job].share_count > 0)
        free(lull_planned_withdraw(policy, job).shares);
}

bool lull_planned_repair(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                         uint32_t job, int64_t now_ns)
{
    uint32_t moved[MOST_MOVED];
    struct lull_plan old[MOST_MOVED];
    const size_t count = choose_moved(policy, job, moved);
    bool is_in_time;

    for (size_t i = 0; i < count; i++)
        old[i] = lull_planned_withdraw(policy, moved[i]);
    is_in_time = count > 0 && lull_planned_plan(policy, state, job, LULL_PLAN_IN_TIME, now_ns) &&
                 plan_again(policy, state, moved, count, now_ns);
    if (!is_in_time) {
        drop(policy, job);
        for (size_t i = 0; i < count; i++)
            drop(policy, moved[i]);
        for (size_t i = 0; i < count; i++)
            if (!lull_planned_restore(policy, moved[i], &old[i]))
                free(old[i].shares);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        free(old[i].shares);
    return true;
}
