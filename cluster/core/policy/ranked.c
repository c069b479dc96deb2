/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/policy/ranked.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/policy/ranked_state.h"

static bool ranked_is_stale(const struct lull_ranked *policy, const struct lull_heap_entry *entry)
{
    return policy->ledger.records[entry->number >> 32].stamp != (uint32_t)entry->number;
}

/* Limit of tries of a shape until GPUs become free (ranked_state.h). */
enum { MAX_TRIES = 2 };

/* Many jobs wait if there is more than one for this many GPUs. */
enum { MANY = 50 };

/* ---- what happens -------------------------------------------------------------------------- */

static int ranked_reach(struct lull_ranked *policy, uint32_t job)
{
    uint32_t *types;

    if (job < policy->type_room)
        return 0;
    types = realloc(policy->types, policy->ledger.room * sizeof(*types));
    if (types == NULL)
        return -ENOMEM;
    policy->types = types;
    policy->type_room = policy->ledger.room;
    return 0;
}

/* Charges the remaining work of a job in its operating point (is_on), or undoes that charge. */
static void ranked_charge(struct lull_ranked *policy, uint32_t job, bool is_on)
{
    const struct lull_job_record *record = &policy->ledger.records[job];

    if (policy->ranking->charge != NULL)
        policy->ranking->charge(policy, job, record->point, record->left_ratio, is_on);
}

static void ranked_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;

    (void)now_ns;
    lull_ranked_forget(policy, job);
    lull_job_ledger_end(&policy->ledger, job);
    lull_ranked_count(policy, job, 0, -policy->ledger.jobs->all[job].weight);
    if (policy->ranking->ended != NULL && policy->types[job] != UINT32_MAX)
        policy->ranking->ended(policy, job, policy->types[job]);
    lull_ranked_unblock(policy, policy->ledger.jobs->all[job].pool);
}

/* A job arrives for the first time, or again from its start. */
static void ranked_enter(struct lull_ranked *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const size_t pool = (size_t)asked->pool * policy->cluster->type_count;

    /* A job that lost its GPUs was charged at its start. Undo that for its remaining work, since
     * the next start charges it again. */
    if (policy->ledger.records[job].stamp > 1)
        ranked_charge(policy, job, false);
    policy->types[job] = UINT32_MAX;
    if (policy->ranking->dispatch != NULL && policy->cluster->type_count > 1)
        policy->types[job] = policy->ranking->dispatch(policy, job, &policy->queues[pool]);
    lull_ranked_count(policy, job, 0, asked->weight);
}

static int ranked_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;
    const enum lull_cluster_stage stage =
        job < policy->ledger.room ? policy->ledger.records[job].stage : LULL_CLUSTER_ABSENT;

    if (stage == LULL_CLUSTER_RUNS)
        ranked_end(handle, job, now_ns);
    if (lull_job_ledger_arrive(&policy->ledger, job) < 0 || ranked_reach(policy, job) < 0)
        return -ENOMEM;
    if (stage != LULL_CLUSTER_PAUSED)
        ranked_enter(policy, job);
    lull_ranked_count(policy, job, 1, 0.0);
    return lull_ranked_enqueue(policy, job, now_ns);
}

static int ranked_adopt(struct lull_cluster_policy *handle, uint32_t job,
                        const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;
    const uint32_t type = policy->ledger.jobs->all[job].points[0].type;
    struct lull_ranked_group *const group =
        &policy->groups[lull_ranked_group_of(policy, job, type)];

    if (lull_job_ledger_arrive(&policy->ledger, job) < 0 || ranked_reach(policy, job) < 0)
        return -ENOMEM;
    ranked_enter(policy, job);
    lull_job_ledger_start(&policy->ledger, job, 0, shares, count, now_ns);
    if (group->cursor == group->running.count)
        group->cursor++;
    lull_running_set_add(&policy->ledger, &group->running, job);
    lull_ranked_offer(policy, job, now_ns);
    return 0;
}

/* Charges a past job. A job that still runs is also adopted, and adoption does not charge it again.
 */
static int ranked_recall(struct lull_cluster_policy *handle, uint32_t job, uint32_t point)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;

    if (policy->ranking->charge != NULL)
        policy->ranking->charge(policy, job, point, 1.0, true);
    return 0;
}

static void ranked_begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point,
                         int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const uint32_t old = policy->ledger.records[job].point;

    if (point == old)
        return;
    ranked_charge(policy, job, false);
    lull_ranked_forget(policy, job);
    lull_job_ledger_begin(&policy->ledger, job, point, now_ns);
    lull_running_set_add(
        &policy->ledger,
        &policy->groups[lull_ranked_group_of(policy, job, asked->points[point].type)].running, job);
    ranked_charge(policy, job, true);
}

/* Its place among the preemptible jobs is unchanged: jobs that
 * share with it are mostly as slow, and paces change very often. */
static void ranked_pace(struct lull_cluster_policy *handle, uint32_t job, double pace,
                        int64_t end_ns, int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;

    (void)end_ns;
    lull_job_ledger_pace(&policy->ledger, job, pace, now_ns);
}

static void ranked_node_changed(struct lull_cluster_policy *handle,
                                const struct lull_cluster_state *state, uint32_t node,
                                int64_t now_ns)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;

    (void)state;
    (void)now_ns;
    lull_ranked_unblock(policy, policy->cluster->nodes[node].pool);
}

/* ---- decisions ----------------------------------------------------------------------------- */

static bool ranked_start(struct lull_ranked *policy, uint32_t job, uint32_t point,
                         size_t share_count, int64_t now_ns, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_ranked_group *const group =
        &policy->groups[lull_ranked_group_of(policy, job, asked->points[point].type)];

    assert(share_count > 0);
    lull_job_ledger_start(&policy->ledger, job, point, decision->shares, share_count, now_ns);
    if (group->cursor == group->running.count)
        group->cursor++;
    lull_running_set_add(&policy->ledger, &group->running, job);
    lull_ranked_count(policy, job, -1, 0.0);
    ranked_charge(policy, job, true);
    lull_ranked_offer(policy, job, now_ns);
    return lull_cluster_decide_start(decision, job, point, share_count, policy->ranking->reason);
}

/* Executes the next step of a plan: jobs stop one by one, then the one that they make room for
 * starts. False: there is no step left. */
static bool carry_on(struct lull_ranked *policy, const struct lull_cluster_state *state,
                     int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_ranked_plan *const plan = &policy->plan;

    if (plan->next_stop < plan->stop_count) {
        const uint32_t job = plan->stops[plan->next_stop++];
        const uint32_t point = policy->ledger.records[job].point;

        decision->act = LULL_CLUSTER_PREEMPT;
        decision->job = job;
        decision->reason = policy->ranking->reason;
        decision->restart_ns =
            lull_cluster_restart_ns(policy->ledger.jobs->all[job].points[point].gpus);
        lull_ranked_forget(policy, job);
        lull_job_ledger_settle(&policy->ledger, job, now_ns);
        ranked_charge(policy, job, false);
        lull_job_ledger_pause(&policy->ledger, job, decision->restart_ns, now_ns);
        return true;
    }
    if (!plan->has_start)
        return false;
    plan->has_start = false;
    lull_ranked_unblock(policy, policy->ledger.jobs->all[plan->job].pool);
    /* Those that stopped may have been elsewhere. */
    if (!lull_cluster_shares_fit(state, plan->shares, plan->share_count))
        return false;
    memcpy(decision->shares, plan->shares, plan->share_count * sizeof(*plan->shares));
    return ranked_start(policy, plan->job, plan->point, plan->share_count, now_ns, decision);
}

/* The shape of a pool whose first job ranks first, of those that were tried less often; NULL: none.
 */
static struct lull_ranked_shape *first_shape(const struct lull_ranked *policy, uint32_t pool,
                                             uint32_t tries, uint32_t *type_out)
{
    struct lull_ranked_shape *best = NULL;

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const struct lull_ranked_group *group =
            &policy->groups[lull_cluster_group(policy->cluster, pool, type)];

        for (uint32_t i = 0; i < group->shape_count; i++) {
            struct lull_ranked_shape *const shape = &group->shapes[i];
            const struct lull_heap_entry *first = shape->waiting.entries;
            struct lull_heap_entry stale;

            while (shape->waiting.count > 0 && ranked_is_stale(policy, shape->waiting.entries))
                lull_heap_take(&shape->waiting, INT64_MAX, &stale);
            if (shape->tries >= tries || shape->waiting.count == 0)
                continue;
            if (best == NULL || first->key < best->waiting.entries[0].key ||
                (first->key == best->waiting.entries[0].key &&
                 first->number >> 32 < best->waiting.entries[0].number >> 32)) {
                best = shape;
                *type_out = type;
            }
        }
    }
    return best;
}

/* Returns whether jobs take fewer GPUs than they request instead of waiting.
   They wait if many jobs wait, because running ones will soon release GPUs. */
static bool takes_fewer(const struct lull_ranked *policy, uint32_t pool, uint32_t type)
{
    const struct lull_queue_stats *queue =
        &policy->queues[lull_cluster_group(policy->cluster, pool, type)];

    return !policy->ranking->is_resized || queue->waiting <= 1 + queue->gpus / MANY;
}

/* Jobs start, in the order of their ranks: those of shapes that were tried less often. */
static bool try_pool(struct lull_ranked *policy, const struct lull_cluster_state *state,
                     uint32_t pool, uint32_t tries, int64_t now_ns,
                     struct lull_cluster_decision *decision)
{
    const bool is_elastic = policy->ranking->is_elastic && tries == MAX_TRIES;
    struct lull_ranked_shape *shape;
    uint32_t type = 0;

    while ((shape = first_shape(policy, pool, tries, &type)) != NULL) {
        const uint32_t job = (uint32_t)(shape->waiting.entries[0].number >> 32);
        const bool is_tried = tries < MAX_TRIES || takes_fewer(policy, pool, type);
        struct lull_ranked_choice choice = {.shares = decision->shares};
        uint32_t entry = lull_ranked_entry_point(policy, job, type);

        if (tries < MAX_TRIES)
            entry = lull_ranked_wanted(policy, job, entry, now_ns);
        if (is_tried && lull_ranked_choose(policy, state, job, entry, is_elastic, now_ns, &choice))
            return ranked_start(policy, job, choice.point, choice.share_count, now_ns, decision);
        if (is_tried && lull_ranked_make_room(policy, state, job, entry, now_ns))
            return carry_on(policy, state, now_ns, decision);
        shape->tries = tries;
    }
    return false;
}

/* Puts the next running job of a group on another clock if one costs less now. */
static bool ranked_reclock(struct lull_ranked *policy, size_t group, int64_t now_ns,
                           struct lull_cluster_decision *decision)
{
    uint32_t job, point;

    if (!lull_ranked_next_clock(policy, group, now_ns, &job, &point))
        return false;
    lull_job_ledger_settle(&policy->ledger, job, now_ns);
    ranked_charge(policy, job, false);
    lull_job_ledger_reclock(&policy->ledger, job, point, now_ns);
    ranked_charge(policy, job, true);
    if (!policy->ranking->is_fixed) {
        policy->ledger.records[job].stamp++; /* it ends at another time */
        lull_ranked_offer(policy, job, now_ns);
    }
    decision->act = LULL_CLUSTER_RECLOCK;
    decision->job = job;
    decision->point = point;
    return true;
}

/* A policy that resizes jobs tries all shapes with the
 * requested GPUs before it gives any job fewer or more. */
static bool ranked_decide_in_pool(struct lull_ranked *policy,
                                  const struct lull_cluster_state *state, uint32_t pool,
                                  int64_t now_ns, struct lull_cluster_decision *decision)
{
    return (policy->ranking->is_resized && try_pool(policy, state, pool, 1, now_ns, decision)) ||
           try_pool(policy, state, pool, MAX_TRIES, now_ns, decision);
}

static bool ranked_decide(struct lull_cluster_policy *handle,
                          const struct lull_cluster_state *state, int64_t now_ns,
                          struct lull_cluster_decision *decision)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;
    const uint32_t types = policy->cluster->type_count;

    if (carry_on(policy, state, now_ns, decision))
        return true;
    lull_ranked_mark_urgent(policy, now_ns);
    while (policy->dirty_count > 0) {
        const uint32_t pool = policy->dirty[policy->dirty_count - 1];

        if (ranked_decide_in_pool(policy, state, pool, now_ns, decision))
            return true;
        for (uint32_t type = 0; policy->ranking->level != NULL && type < types; type++) {
            const size_t group = (size_t)pool * types + type;

            if (policy->groups[group].cursor == policy->groups[group].running.count &&
                lull_ranked_has_new_level(policy, group))
                policy->groups[group].cursor = 0;
            if (ranked_reclock(policy, group, now_ns, decision))
                return true;
            if (policy->ranking->is_resized &&
                lull_ranked_grow(policy, state, pool, type, now_ns, decision->shares))
                return carry_on(policy, state, now_ns, decision);
        }
        policy->is_dirty[pool] = false;
        policy->dirty_count--;
    }
    return false;
}

/* ---- beginning and end ----------------------------------------------------------------------- */

/* No more jobs can run, stop or be popped in a group than it has GPUs, which bounds the arrays. */
static int make_groups(struct lull_ranked *policy)
{
    const struct lull_cluster *cluster = policy->cluster;
    const size_t count = lull_cluster_group_count(cluster);
    const uint64_t *gpus = lull_cluster_state_groups(policy->copy)->gpus;
    uint64_t most = 1;

    policy->groups = calloc(count, sizeof(*policy->groups));
    policy->queues = calloc(count, sizeof(*policy->queues));
    if (policy->groups == NULL || policy->queues == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < count; i++) {
        policy->queues[i].gpus = gpus[i];
        most = gpus[i] > most ? gpus[i] : most;
    }
    policy->popped_room = (uint32_t)most;
    policy->popped = calloc(most, sizeof(*policy->popped));
    policy->plan.stops = calloc(most, sizeof(*policy->plan.stops));
    policy->plan.shares = calloc(cluster->node_count, sizeof(*policy->plan.shares));
    policy->is_dirty = calloc(cluster->pool_count, sizeof(*policy->is_dirty));
    policy->dirty = calloc(cluster->pool_count, sizeof(*policy->dirty));
    if (policy->popped == NULL || policy->plan.stops == NULL || policy->plan.shares == NULL ||
        policy->is_dirty == NULL || policy->dirty == NULL)
        return -ENOMEM;
    return 0;
}

static void free_group(struct lull_ranked_group *group)
{
    for (uint32_t i = 0; i < group->shape_count; i++) {
        lull_heap_fini(&group->shapes[i].waiting);
        lull_heap_fini(&group->shapes[i].running);
    }
    free(group->shapes);
    free(group->running.jobs);
}

static void ranked_destroy(struct lull_cluster_policy *handle)
{
    struct lull_ranked *const policy = (struct lull_ranked *)handle;
    const size_t count = lull_cluster_group_count(policy->cluster);

    for (size_t i = 0; policy->groups != NULL && i < count; i++)
        free_group(&policy->groups[i]);
    lull_cluster_state_destroy(policy->copy);
    lull_job_ledger_fini(&policy->ledger);
    lull_heap_fini(&policy->urgent);
    free(policy->groups);
    free(policy->queues);
    free(policy->types);
    free(policy->plan.stops);
    free(policy->plan.shares);
    free(policy->popped);
    free(policy->is_dirty);
    free(policy->dirty);
    if (policy->more != NULL && policy->ranking->destroy != NULL)
        policy->ranking->destroy(policy->more);
    free(policy->more);
    free(policy);
}

static int ranked_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    const struct lull_cluster_ranking *ranking = rule;
    struct lull_ranked *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->ranking = ranking;
    policy->setting = setting;
    policy->ledger.jobs = jobs;
    if (lull_cluster_state_create(cluster, &policy->copy) < 0 || make_groups(policy) < 0 ||
        (ranking->create != NULL && ranking->create(cluster, jobs, &policy->more) < 0)) {
        ranked_destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

const struct lull_cluster_policy_calls lull_ranked_calls = {
    .create = ranked_create,
    .destroy = ranked_destroy,
    .arrive = ranked_arrive,
    .adopt = ranked_adopt,
    .recall = ranked_recall,
    .end = ranked_end,
    .decide = ranked_decide,
    .begin = ranked_begin,
    .pace = ranked_pace,
    .node = ranked_node_changed,
};
