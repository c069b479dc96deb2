/* Events and decisions of planned policies. SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/planned.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/policy/planned_state.h"
#include "cluster/core/model/placement.h"

static const char LATE[] = "no mode, time and place meets its deadline: it will be late";

/* ---- room for jobs ------------------------------------------------------------------------- */

/* Makes room in the plans and in each list for all jobs that the ledger has room for. */
static int planned_reach(struct lull_planned *policy)
{
    struct lull_job_list *const lists[] = {&policy->unplanned, &policy->planned, &policy->stuck};
    struct lull_planned_job *plans;

    if (policy->plan_room == policy->ledger.room)
        return 0;
    plans = realloc(policy->plans, policy->ledger.room * sizeof(*plans));
    if (plans == NULL)
        return -ENOMEM;
    policy->plans = plans;
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        uint32_t *jobs = realloc(lists[i]->jobs, policy->ledger.room * sizeof(*jobs));

        if (jobs == NULL)
            return -ENOMEM;
        lists[i]->jobs = jobs;
    }
    memset(&plans[policy->plan_room], 0,
           (policy->ledger.room - policy->plan_room) * sizeof(*plans));
    policy->plan_room = policy->ledger.room;
    return 0;
}

/* ---- planning ------------------------------------------------------------------------------ */

/* Plans a job in time if that is possible at all, else where it costs least. */
static void planned_plan(struct lull_planned *policy, const struct lull_cluster_state *state,
                         uint32_t job, int64_t now_ns)
{
    const bool has_deadline = !policy->planning->ignores_deadlines &&
                              policy->ledger.jobs->all[job].deadline_ns != LULL_CLUSTER_NEVER;

    if (has_deadline && (lull_planned_plan(policy, state, job, LULL_PLAN_IN_TIME, now_ns) ||
                         lull_planned_repair(policy, state, job, now_ns)))
        return;
    if (!lull_planned_plan(policy, state, job, LULL_PLAN_MIN_COST, now_ns))
        lull_job_list_add(&policy->stuck, job);
}

/* ---- what happens -------------------------------------------------------------------------- */

/* A job that ran no longer holds its GPUs. */
static void planned_release(struct lull_planned *policy, uint32_t job, int64_t now_ns)
{
    struct lull_planned_job *const plan = &policy->plans[job];

    if (plan->share_count > 0 && now_ns < plan->end_ns)
        lull_calendar_remove(policy->calendar, plan->shares, plan->share_count,
                             now_ns > plan->start_ns ? now_ns : plan->start_ns, plan->end_ns);
    free(plan->shares);
    plan->shares = NULL;
    plan->share_count = 0;
}

/* Failed GPUs may be back, so that jobs which fitted nowhere are planned again. */
static void planned_rescan(struct lull_planned *policy)
{
    for (size_t i = 0; i < policy->stuck.count; i++)
        lull_job_list_add(&policy->unplanned, policy->stuck.jobs[i]);
    policy->stuck.count = 0;
}

static void planned_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;

    planned_release(policy, job, now_ns);
    lull_job_ledger_end(&policy->ledger, job);
    planned_rescan(policy);
}

static void planned_begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point,
                          int64_t now_ns)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;

    lull_job_ledger_begin(&policy->ledger, job, point, now_ns);
}

static void planned_node_changed(struct lull_cluster_policy *handle,
                                 const struct lull_cluster_state *state, uint32_t node,
                                 int64_t now_ns)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;

    (void)state;
    (void)node;
    (void)now_ns;
    planned_rescan(policy);
}

static int planned_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;

    if (job < policy->ledger.room && policy->ledger.records[job].stage == LULL_CLUSTER_RUNS)
        planned_end(handle, job, now_ns);
    if (lull_job_ledger_arrive(&policy->ledger, job) < 0 || planned_reach(policy) < 0)
        return -ENOMEM;
    lull_job_list_add(&policy->unplanned, job);
    return 0;
}

static int planned_adopt(struct lull_cluster_policy *handle, uint32_t job,
                         const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;
    const int64_t end_ns = now_ns + policy->ledger.jobs->all[job].points[0].time_ns;
    struct lull_cluster_share *own;

    if (lull_job_ledger_arrive(&policy->ledger, job) < 0 || planned_reach(policy) < 0)
        return -ENOMEM;
    own = malloc(count * sizeof(*own));
    if (own == NULL || lull_calendar_add(policy->calendar, shares, count, now_ns, end_ns) < 0) {
        free(own);
        return -ENOMEM;
    }
    memcpy(own, shares, count * sizeof(*own));
    policy->plans[job] = (struct lull_planned_job){
        .start_ns = now_ns, .end_ns = end_ns, .shares = own, .share_count = count};
    lull_job_ledger_start(&policy->ledger, job, 0, shares, count, now_ns);
    return 0;
}

/* Starts a job as planned. The reason of the decision marks a job that will be late. */
static bool planned_start(struct lull_planned *policy, uint32_t job, int64_t now_ns,
                          struct lull_cluster_decision *decision)
{
    const struct lull_planned_job *plan = &policy->plans[job];

    lull_planned_leave(policy, job);
    memcpy(decision->shares, plan->shares, plan->share_count * sizeof(*plan->shares));
    lull_job_ledger_start(&policy->ledger, job, plan->point, plan->shares, plan->share_count,
                          now_ns);
    return lull_cluster_decide_start(decision, job, plan->point, plan->share_count,
                                     lull_planned_is_late(policy, job) ? LATE
                                                                       : policy->planning->reason);
}

static bool planned_decide(struct lull_cluster_policy *handle,
                           const struct lull_cluster_state *state, int64_t now_ns,
                           struct lull_cluster_decision *decision)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;
    struct lull_heap_entry first;

    for (;;) {
        for (size_t i = 0; i < policy->unplanned.count; i++)
            planned_plan(policy, state, policy->unplanned.jobs[i], now_ns);
        policy->unplanned.count = 0;
        if (!lull_heap_take(&policy->due, now_ns, &first))
            return false;
        const uint32_t job = (uint32_t)(first.number >> 32);
        const struct lull_planned_job *due = &policy->plans[job];

        if (due->stamp != (uint32_t)first.number || due->share_count == 0)
            continue;
        if (due->start_ns == now_ns &&
            lull_cluster_shares_fit(state, due->shares, due->share_count))
            return planned_start(policy, job, now_ns, decision);
        /* Its nodes have failed, or another job ran longer than planned. */
        free(lull_planned_withdraw(policy, job).shares);
        lull_job_list_add(&policy->unplanned, job);
    }
}

static int64_t planned_wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_planned *const policy = (const struct lull_planned *)handle;
    const struct lull_heap *due = &policy->due;

    /* planned_decide() has looked at all that was due by now. */
    if (due->count == 0 || due->entries[0].key <= now_ns)
        return LULL_CLUSTER_NEVER;
    return due->entries[0].key;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static void planned_destroy(struct lull_cluster_policy *handle)
{
    struct lull_planned *const policy = (struct lull_planned *)handle;

    for (size_t i = 0; i < policy->plan_room; i++)
        free(policy->plans[i].shares);
    lull_calendar_destroy(policy->calendar);
    lull_node_groups_fini(&policy->groups);
    lull_job_ledger_fini(&policy->ledger);
    lull_heap_fini(&policy->due);
    free(policy->plans);
    free(policy->unplanned.jobs);
    free(policy->planned.jobs);
    free(policy->stuck.jobs);
    free(policy->shares);
    free(policy->best);
    free(policy);
}

static int planned_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                          const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    struct lull_planned *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->planning = rule;
    policy->setting = setting;
    policy->ledger.jobs = jobs;
    policy->shares = calloc(cluster->node_count, sizeof(*policy->shares));
    policy->best = calloc(cluster->node_count, sizeof(*policy->best));
    if (policy->shares == NULL || policy->best == NULL ||
        lull_node_groups_init(&policy->groups, cluster) < 0 ||
        lull_calendar_create(cluster, &policy->calendar) < 0) {
        planned_destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

const struct lull_cluster_policy_calls lull_planned_calls = {
    .create = planned_create,
    .destroy = planned_destroy,
    .arrive = planned_arrive,
    .adopt = planned_adopt,
    .end = planned_end,
    .decide = planned_decide,
    .begin = planned_begin,
    .node = planned_node_changed,
    .wake_ns = planned_wake_ns,
};
