/*
 * The plans of jobs that have not begun: the choice of least cost, and room for a job that would be
 * late. For that, jobs that have not begun, those with the most time to spare first, make way and
 * are planned again where they cost least; if that is in vain, in their fastest operating points,
 * which leave the most room but cost more permanently. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/policy/planned_state.h"

/* ---- plans --------------------------------------------------------------------------------- */

void lull_planned_leave(struct lull_planned *policy, uint32_t job)
{
    struct lull_job_list *const list = &policy->planned;
    const uint32_t at = policy->plans[job].position;

    assert(at < list->count && list->jobs[at] == job);
    list->jobs[at] = list->jobs[--list->count];
    policy->plans[list->jobs[at]].position = at;
}

bool lull_planned_is_late(const struct lull_planned *policy, uint32_t job)
{
    return !policy->planning->ignores_deadlines &&
           policy->plans[job].end_ns > policy->ledger.jobs->all[job].deadline_ns;
}

/* Restores a job's earlier plan, whose GPUs are free. Takes over the shares. */
static bool planned_plans_restore(struct lull_planned *policy, uint32_t job,
                                  const struct lull_planned_job *old)
{
    struct lull_planned_job *const plan = &policy->plans[job];
    const uint32_t stamp = plan->stamp + 1;

    assert(plan->share_count == 0 && old->start_ns < old->end_ns);
    if (lull_calendar_add(policy->calendar, old->shares, old->share_count, old->start_ns,
                          old->end_ns) < 0)
        return false;
    if (lull_heap_add(&policy->due, old->start_ns, (uint64_t)job << 32 | stamp) < 0) {
        lull_calendar_remove(policy->calendar, old->shares, old->share_count, old->start_ns,
                             old->end_ns);
        return false;
    }
    *plan = *old;
    plan->stamp = stamp;
    plan->position = (uint32_t)policy->planned.count;
    lull_job_list_add(&policy->planned, job);
    return true;
}

struct lull_planned_job lull_planned_withdraw(struct lull_planned *policy, uint32_t job)
{
    const struct lull_planned_job old = policy->plans[job];

    lull_planned_leave(policy, job);
    /* It was there, so there is room for it to go. */
    lull_calendar_remove(policy->calendar, old.shares, old.share_count, old.start_ns, old.end_ns);
    policy->plans[job].stamp++;
    policy->plans[job].shares = NULL;
    policy->plans[job].share_count = 0;
    return old;
}

static bool is_choice(const struct lull_planned *policy, const struct lull_cluster_job *job,
                      uint32_t point)
{
    const uint64_t *gpus = policy->groups.gpus;

    if (policy->planning->is_first_point_only)
        return point ==
               lull_cluster_first_point(job, job->points[point].type, policy->cluster, gpus);
    return lull_cluster_point_is_possible(job, point, policy->cluster, gpus);
}

/* Choices are compared by whether they are late, then by their cost, then by their end. */
struct worth {
    bool is_late;
    double cost;
    int64_t end_ns;
};

static bool planned_plans_is_better(const struct worth *left, const struct worth *right)
{
    if (left->is_late != right->is_late)
        return !left->is_late;
    if (left->cost != right->cost && !left->is_late)
        return left->cost < right->cost;
    return left->end_ns < right->end_ns;
}

static struct worth planned_plans_worth_of(const struct lull_planned *policy, uint32_t job,
                                           uint32_t point, int64_t start_ns, enum lull_plan_aim aim,
                                           int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_cluster_point *it = &asked->points[point];
    const int64_t need_ns = lull_job_ledger_need_ns(&policy->ledger, job, point);
    const struct lull_cluster_choice choice = {
        .job = asked,
        .point = it,
        .type = &policy->cluster->types[it->type],
        .run_s = (double)need_ns * 1e-9,
        .energy_j = it->energy_j * (double)need_ns / (double)it->time_ns,
        .wait_s = (double)(start_ns - now_ns) * 1e-9,
    };

    return (struct worth){
        .is_late = !policy->planning->ignores_deadlines && start_ns + need_ns > asked->deadline_ns,
        .cost = aim == LULL_PLAN_FASTEST ? 0.0 : policy->planning->cost(&choice, policy->setting),
        .end_ns = start_ns + need_ns,
    };
}

bool lull_planned_plan(struct lull_planned *policy, const struct lull_cluster_state *state,
                       uint32_t job, enum lull_plan_aim aim, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_planned_job best = {0};
    struct worth most = {true, INFINITY, LULL_CLUSTER_NEVER};

    for (uint32_t point = 0; point < asked->point_count; point++) {
        const struct lull_calendar_request request = {
            .pool = asked->pool,
            .type = asked->points[point].type,
            .gpus = asked->points[point].gpus,
            .time_ns = lull_job_ledger_need_ns(&policy->ledger, job, point),
        };
        struct worth worth;
        size_t count = 0;
        int64_t start_ns;

        if (!is_choice(policy, asked, point))
            continue;
        start_ns = lull_calendar_find(policy->calendar, &request, now_ns, LULL_CLUSTER_NEVER, state,
                                      policy->shares, &count);
        if (start_ns == LULL_CLUSTER_NEVER)
            continue;
        worth = planned_plans_worth_of(policy, job, point, start_ns, aim, now_ns);
        if (!planned_plans_is_better(&worth, &most))
            continue;
        most = worth;
        best.point = point;
        best.start_ns = start_ns;
        best.share_count = count;
        memcpy(policy->best, policy->shares, count * sizeof(*policy->best));
    }
    if (best.share_count == 0 || (aim == LULL_PLAN_IN_TIME && most.is_late))
        return false;
    best.end_ns = most.end_ns;
    best.shares = malloc(best.share_count * sizeof(*best.shares));
    if (best.shares == NULL)
        return false;
    memcpy(best.shares, policy->best, best.share_count * sizeof(*best.shares));
    if (planned_plans_restore(policy, job, &best))
        return true;
    free(best.shares);
    return false;
}

/* ---- room for a job that would be late ------------------------------------------------------ */

/* More would rarely help and cost each late job as many plans. */
enum { MAX_MOVED = 8 };

static int64_t spare_ns(const struct lull_planned *policy, uint32_t job)
{
    const int64_t deadline_ns = policy->ledger.jobs->all[job].deadline_ns;

    if (deadline_ns == LULL_CLUSTER_NEVER)
        return LULL_CLUSTER_NEVER;
    return deadline_ns - policy->plans[job].end_ns;
}

/* Jobs of the pool that start before the deadline, those that can best wait first. */
static size_t choose_moved(const struct lull_planned *policy, uint32_t job, uint32_t *moved_out)
{
    const struct lull_cluster_job *late = &policy->ledger.jobs->all[job];
    size_t count = 0;

    for (size_t i = 0; i < policy->planned.count; i++) {
        const uint32_t other = policy->planned.jobs[i];
        const int64_t its_ns = spare_ns(policy, other);
        size_t at;

        if (policy->ledger.jobs->all[other].pool != late->pool ||
            policy->plans[other].start_ns >= late->deadline_ns || its_ns < 0)
            continue;
        at = count < MAX_MOVED ? count++ : MAX_MOVED;
        while (at > 0 &&
               (spare_ns(policy, moved_out[at - 1]) < its_ns ||
                (spare_ns(policy, moved_out[at - 1]) == its_ns && moved_out[at - 1] > other))) {
            if (at < MAX_MOVED)
                moved_out[at] = moved_out[at - 1];
            at--;
        }
        if (at < MAX_MOVED)
            moved_out[at] = other;
    }
    return count;
}

/* Plans the moved jobs again: the one with the least time to spare goes first. */
static bool plan_again(struct lull_planned *policy, const struct lull_cluster_state *state,
                       const uint32_t *moved, size_t count, enum lull_plan_aim aim, int64_t now_ns)
{
    for (size_t i = count; i-- > 0;)
        if (!lull_planned_plan(policy, state, moved[i], aim, now_ns) ||
            lull_planned_is_late(policy, moved[i]))
            return false;
    return true;
}

static void planned_plans_drop(struct lull_planned *policy, uint32_t job)
{
    if (policy->plans[job].share_count > 0)
        free(lull_planned_withdraw(policy, job).shares);
}

/* Plans a job in time, and those that make way for it with this aim; false: nothing has changed. */
static bool make_way(struct lull_planned *policy, const struct lull_cluster_state *state,
                     uint32_t job, const uint32_t *moved, size_t count, enum lull_plan_aim aim,
                     int64_t now_ns)
{
    struct lull_planned_job old[MAX_MOVED];
    bool is_in_time;

    for (size_t i = 0; i < count; i++)
        old[i] = lull_planned_withdraw(policy, moved[i]);
    is_in_time = lull_planned_plan(policy, state, job, LULL_PLAN_IN_TIME, now_ns) &&
                 plan_again(policy, state, moved, count, aim, now_ns);
    if (!is_in_time) {
        planned_plans_drop(policy, job);
        for (size_t i = 0; i < count; i++)
            planned_plans_drop(policy, moved[i]);
        for (size_t i = 0; i < count; i++)
            if (!planned_plans_restore(policy, moved[i], &old[i]))
                free(old[i].shares);
        return false;
    }
    for (size_t i = 0; i < count; i++)
        free(old[i].shares);
    return true;
}

bool lull_planned_repair(struct lull_planned *policy, const struct lull_cluster_state *state,
                         uint32_t job, int64_t now_ns)
{
    uint32_t moved[MAX_MOVED];
    const size_t count = choose_moved(policy, job, moved);

    return count > 0 && (make_way(policy, state, job, moved, count, LULL_PLAN_MIN_COST, now_ns) ||
                         make_way(policy, state, job, moved, count, LULL_PLAN_FASTEST, now_ns));
}
