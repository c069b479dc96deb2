/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/planned.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/policy/planned_state.h"
#include "core/cluster/policy/scratch.h"

static const char LATE[] = "no mode, time and place meets its deadline: it will be late";

/* ---- lists --------------------------------------------------------------------------------- */

/* Each job is in a list once at most, and there is room for all. */
static void list_add(struct lull_job_list *list, uint32_t job)
{
    list->jobs[list->count++] = job;
}

static int list_reach(struct lull_job_list *list, size_t room)
{
    uint32_t *jobs = realloc(list->jobs, room * sizeof(*jobs));

    if (jobs == NULL)
        return -ENOMEM;
    list->jobs = jobs;
    return 0;
}

static void leave_planned(struct lull_cluster_policy *policy, uint32_t job)
{
    struct lull_job_list *const list = &policy->planned;
    const uint32_t at = policy->plans[job].position;

    list->jobs[at] = list->jobs[--list->count];
    policy->plans[list->jobs[at]].position = at;
}

static int reach(struct lull_cluster_policy *policy)
{
    struct lull_plan *plans;

    if (policy->plan_room == policy->book.room)
        return 0;
    plans = realloc(policy->plans, policy->book.room * sizeof(*plans));
    if (plans == NULL)
        return -ENOMEM;
    policy->plans = plans;
    if (list_reach(&policy->unplanned, policy->book.room) < 0 ||
        list_reach(&policy->planned, policy->book.room) < 0 ||
        list_reach(&policy->stuck, policy->book.room) < 0)
        return -ENOMEM;
    memset(&plans[policy->plan_room], 0, (policy->book.room - policy->plan_room) * sizeof(*plans));
    policy->plan_room = policy->book.room;
    return 0;
}

/* ---- plans --------------------------------------------------------------------------------- */

bool lull_planned_is_late(const struct lull_cluster_policy *policy, uint32_t job)
{
    return !policy->planning->ignores_deadlines &&
           policy->plans[job].end_ns > policy->book.jobs->all[job].deadline_ns;
}

bool lull_planned_restore(struct lull_cluster_policy *policy, uint32_t job,
                          const struct lull_plan *old)
{
    struct lull_plan *const plan = &policy->plans[job];
    const uint32_t stamp = plan->stamp + 1;

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
    list_add(&policy->planned, job);
    return true;
}

struct lull_plan lull_planned_withdraw(struct lull_cluster_policy *policy, uint32_t job)
{
    const struct lull_plan old = policy->plans[job];

    leave_planned(policy, job);
    /* It was there, so there is room for it to go. */
    lull_calendar_remove(policy->calendar, old.shares, old.share_count, old.start_ns, old.end_ns);
    policy->plans[job].stamp++;
    policy->plans[job].shares = NULL;
    policy->plans[job].share_count = 0;
    return old;
}

static bool is_choice(const struct lull_cluster_policy *policy, const struct lull_cluster_job *job,
                      uint32_t mode)
{
    const uint64_t *gpus = policy->members.gpus;

    return policy->planning->is_first_mode_only
               ? mode == lull_cluster_first_mode(job, job->modes[mode].type, policy->cluster, gpus)
               : lull_cluster_mode_is_possible(job, mode, policy->cluster, gpus);
}

/* Late ones behind those in time, then by cost, then by the end. */
struct worth {
    bool is_late;
    double cost;
    int64_t end_ns;
};

static bool is_better(const struct worth *left, const struct worth *right)
{
    if (left->is_late != right->is_late)
        return !left->is_late;
    if (left->cost != right->cost && !left->is_late)
        return left->cost < right->cost;
    return left->end_ns < right->end_ns;
}

static struct worth worth_of(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                             int64_t start_ns, enum lull_plan_aim aim, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    const struct lull_cluster_mode *it = &asked->modes[mode];
    const int64_t need_ns = lull_cluster_book_need_ns(&policy->book, job, mode);
    const struct lull_cluster_choice choice = {
        .job = asked,
        .mode = it,
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

bool lull_planned_plan(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                       uint32_t job, enum lull_plan_aim aim, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    struct lull_plan best = {0};
    struct worth most = {true, INFINITY, LULL_CLUSTER_NEVER};

    for (uint32_t mode = 0; mode < asked->mode_count; mode++) {
        const struct lull_calendar_wish wish = {
            .pool = asked->pool,
            .type = asked->modes[mode].type,
            .gpus = asked->modes[mode].gpus,
            .time_ns = lull_cluster_book_need_ns(&policy->book, job, mode),
        };
        struct worth worth;
        size_t count = 0;
        int64_t start_ns;

        if (!is_choice(policy, asked, mode))
            continue;
        start_ns = lull_calendar_find(policy->calendar, &wish, now_ns, LULL_CLUSTER_NEVER, state,
                                      policy->shares, &count);
        if (start_ns == LULL_CLUSTER_NEVER)
            continue;
        worth = worth_of(policy, job, mode, start_ns, aim, now_ns);
        if (!is_better(&worth, &most))
            continue;
        most = worth;
        best.mode = mode;
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
    if (lull_planned_restore(policy, job, &best))
        return true;
    free(best.shares);
    return false;
}

/* In time if that is possible, whatever it takes. */
static void plan(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                 uint32_t job, int64_t now_ns)
{
    const bool has_deadline = !policy->planning->ignores_deadlines &&
                              policy->book.jobs->all[job].deadline_ns != LULL_CLUSTER_NEVER;

    if (has_deadline && (lull_planned_plan(policy, state, job, LULL_PLAN_IN_TIME, now_ns) ||
                         lull_planned_repair(policy, state, job, now_ns)))
        return;
    if (!lull_planned_plan(policy, state, job, LULL_PLAN_LEAST_COST, now_ns))
        list_add(&policy->stuck, job);
}

/* ---- what happens -------------------------------------------------------------------------- */

/* A job that ran holds its GPUs no longer. */
static void release(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    struct lull_plan *const plan = &policy->plans[job];

    if (plan->share_count > 0 && now_ns < plan->end_ns)
        lull_calendar_remove(policy->calendar, plan->shares, plan->share_count,
                             now_ns > plan->start_ns ? now_ns : plan->start_ns, plan->end_ns);
    free(plan->shares);
    plan->shares = NULL;
    plan->share_count = 0;
}

/* GPUs may be there again that were not. */
static void look_again(struct lull_cluster_policy *policy)
{
    for (size_t i = 0; i < policy->stuck.count; i++)
        list_add(&policy->unplanned, policy->stuck.jobs[i]);
    policy->stuck.count = 0;
}

void lull_cluster_planned_end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    release(policy, job, now_ns);
    lull_cluster_book_end(&policy->book, job);
    look_again(policy);
}

void lull_cluster_planned_begin(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                                int64_t now_ns)
{
    lull_cluster_book_begin(&policy->book, job, mode, now_ns);
}

void lull_cluster_planned_node(struct lull_cluster_policy *policy,
                               const struct lull_cluster_state *state, uint32_t node,
                               int64_t now_ns)
{
    (void)state;
    (void)node;
    (void)now_ns;
    look_again(policy);
}

int lull_cluster_planned_arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    if (job < policy->book.room && policy->book.pages[job].stage == LULL_CLUSTER_RUNS)
        lull_cluster_planned_end(policy, job, now_ns);
    if (lull_cluster_book_arrive(&policy->book, job) < 0 || reach(policy) < 0)
        return -ENOMEM;
    list_add(&policy->unplanned, job);
    return 0;
}

static bool start(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns,
                  struct lull_cluster_decision *decision)
{
    const struct lull_plan *plan = &policy->plans[job];

    leave_planned(policy, job);
    decision->act = LULL_CLUSTER_START;
    decision->job = job;
    decision->mode = plan->mode;
    decision->share_count = plan->share_count;
    decision->reason = lull_planned_is_late(policy, job) ? LATE : policy->planning->reason;
    memcpy(decision->shares, plan->shares, plan->share_count * sizeof(*plan->shares));
    lull_cluster_book_start(&policy->book, job, plan->mode, plan->shares, plan->share_count,
                            now_ns);
    return true;
}

bool lull_cluster_planned_decide(struct lull_cluster_policy *policy,
                                 const struct lull_cluster_state *state, int64_t now_ns,
                                 struct lull_cluster_decision *decision)
{
    struct lull_heap_entry first;

    for (;;) {
        for (size_t i = 0; i < policy->unplanned.count; i++)
            plan(policy, state, policy->unplanned.jobs[i], now_ns);
        policy->unplanned.count = 0;
        if (!lull_heap_take(&policy->due, now_ns, &first))
            return false;
        const uint32_t job = (uint32_t)(first.number >> 32);
        const struct lull_plan *due = &policy->plans[job];

        if (due->stamp != (uint32_t)first.number || due->share_count == 0)
            continue;
        if (due->start_ns == now_ns &&
            lull_cluster_shares_fit(state, due->shares, due->share_count))
            return start(policy, job, now_ns, decision);
        /* Its nodes are gone, or somebody ran longer than was planned. */
        free(lull_planned_withdraw(policy, job).shares);
        list_add(&policy->unplanned, job);
    }
}

int64_t lull_cluster_planned_wake_ns(const struct lull_cluster_policy *policy, int64_t now_ns)
{
    const struct lull_heap *due = &policy->due;

    /* Whatever was due has been looked at. */
    return due->count > 0 && due->entries[0].key > now_ns ? due->entries[0].key
                                                          : LULL_CLUSTER_NEVER;
}

/* ---- beginning and end --------------------------------------------------------------------- */

void lull_cluster_planned_turn(struct lull_cluster_policy *policy, double setting)
{
    policy->setting = setting;
}

void lull_cluster_planned_destroy(struct lull_cluster_policy *policy)
{
    for (size_t i = 0; i < policy->plan_room; i++)
        free(policy->plans[i].shares);
    lull_calendar_destroy(policy->calendar);
    lull_cluster_members_fini(&policy->members);
    lull_cluster_book_fini(&policy->book);
    lull_heap_fini(&policy->due);
    free(policy->plans);
    free(policy->unplanned.jobs);
    free(policy->planned.jobs);
    free(policy->stuck.jobs);
    free(policy->shares);
    free(policy->best);
    free(policy);
}

int lull_cluster_planned_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs,
                                const struct lull_cluster_planning *planning, double setting,
                                struct lull_cluster_policy **policy_out)
{
    struct lull_cluster_policy *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->planning = planning;
    policy->setting = setting;
    policy->book.jobs = jobs;
    policy->shares = calloc(cluster->node_count, sizeof(*policy->shares));
    policy->best = calloc(cluster->node_count, sizeof(*policy->best));
    if (policy->shares == NULL || policy->best == NULL ||
        lull_cluster_members_init(&policy->members, cluster) < 0 ||
        lull_calendar_create(cluster, &policy->calendar) < 0) {
        lull_cluster_planned_destroy(policy);
        return -ENOMEM;
    }
    *policy_out = policy;
    return 0;
}
