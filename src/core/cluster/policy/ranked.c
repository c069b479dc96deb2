/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/policy/ranked.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/policy/ranked_state.h"

/* ---- jobs, shapes, ranks ------------------------------------------------------------------- */

/* NULL: no memory. */
static struct lull_ranked_shape *shape_of(struct lull_ranked_group *group, uint32_t gpus)
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

static uint64_t number_of(const struct lull_cluster_policy *policy, uint32_t job)
{
    return (uint64_t)job << 32 | policy->book.pages[job].stamp;
}

static bool is_stale(const struct lull_cluster_policy *policy, const struct lull_heap_entry *entry)
{
    return policy->book.pages[entry->number >> 32].stamp != (uint32_t)entry->number;
}

/* A running job may be preempted, if it is that kind of job. */
static void offer(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    const struct lull_cluster_page *page = &policy->book.pages[job];
    const uint32_t type = asked->modes[page->mode].type;
    const uint32_t gpus = asked->modes[page->mode].gpus;
    struct lull_ranked_shape *const shape =
        shape_of(&policy->groups[lull_ranked_group_of(policy, job, type)], gpus);
    const int64_t rank = lull_ranked_rank(policy, job, page->mode, now_ns);

    /* Whoever runs on as many GPUs nears its end as fast as others do: the order of ends stays.
       Without memory the job is not preempted, and no harm is done. */
    if (asked->is_preemptible && page->shares != NULL && shape != NULL)
        lull_heap_add(&shape->running,
                      policy->ranking->is_fixed ? -rank
                                                : -lull_cluster_book_end_ns(&policy->book, job),
                      ~number_of(policy, job));
}

/* ---- what happens -------------------------------------------------------------------------- */

static void touch(struct lull_cluster_policy *policy, uint32_t pool)
{
    if (policy->is_dirty[pool])
        return;
    policy->is_dirty[pool] = true;
    policy->dirty[policy->dirty_count++] = pool;
}

/* GPUs of the pool came free. */
static void unblock(struct lull_cluster_policy *policy, uint32_t pool)
{
    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        struct lull_ranked_group *const group =
            &policy->groups[(size_t)pool * policy->cluster->type_count + type];

        for (uint32_t i = 0; i < group->shape_count; i++)
            group->shapes[i].is_blocked = false;
    }
    touch(policy, pool);
}

static int reach(struct lull_cluster_policy *policy, uint32_t job)
{
    uint32_t *types;

    if (job < policy->type_room)
        return 0;
    types = realloc(policy->types, policy->book.room * sizeof(*types));
    if (types == NULL)
        return -ENOMEM;
    policy->types = types;
    policy->type_room = policy->book.room;
    return 0;
}

static void forget_running(struct lull_cluster_policy *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    struct lull_ranked_group *const group = &policy->groups[lull_ranked_group_of(
        policy, job, asked->modes[policy->book.pages[job].mode].type)];

    lull_cluster_roster_remove(&policy->book, &group->running, job);
    if (group->cursor > group->running.count)
        group->cursor = group->running.count;
}

void lull_ranked_book(struct lull_cluster_policy *policy, uint32_t job, bool is_on)
{
    const struct lull_cluster_page *page = &policy->book.pages[job];

    if (policy->ranking->book != NULL)
        policy->ranking->book(policy, job, page->mode, page->left_ratio, is_on);
}

/* Counts the job in or out of the crowds that it may use. */
static void count(struct lull_cluster_policy *policy, uint32_t job, int waiting, double weight)
{
    const uint32_t only = policy->types[job];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        if ((only != UINT32_MAX && only != type) ||
            lull_ranked_entry_mode(policy, job, type) == policy->book.jobs->all[job].mode_count)
            continue;
        policy->crowds[lull_ranked_group_of(policy, job, type)].waiting += (uint64_t)waiting;
        policy->crowds[lull_ranked_group_of(policy, job, type)].weight += weight;
    }
}

static int enqueue(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    const uint32_t only = policy->types[job];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const uint32_t mode = lull_ranked_entry_mode(policy, job, type);
        struct lull_ranked_shape *shape;

        if (mode == asked->mode_count || (only != UINT32_MAX && only != type))
            continue;
        shape = shape_of(&policy->groups[lull_ranked_group_of(policy, job, type)],
                         asked->modes[mode].gpus);
        if (shape == NULL ||
            lull_heap_add(&shape->waiting, lull_ranked_rank(policy, job, mode, now_ns),
                          number_of(policy, job)) < 0)
            return -ENOMEM;
        shape->is_blocked = false;
    }
    touch(policy, asked->pool);
    return 0;
}

void lull_cluster_ranked_end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    (void)now_ns;
    forget_running(policy, job);
    lull_cluster_book_end(&policy->book, job);
    count(policy, job, 0, -policy->book.jobs->all[job].weight);
    if (policy->ranking->ended != NULL && policy->types[job] != UINT32_MAX)
        policy->ranking->ended(policy, job, policy->types[job]);
    unblock(policy, policy->book.jobs->all[job].pool);
}

/* Jobs that come for the first time, or once more from the beginning. */
static void enter(struct lull_cluster_policy *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    const size_t pool = (size_t)asked->pool * policy->cluster->type_count;

    /* One that lost its GPUs has taken what was booked for it, and gets it once more. */
    if (policy->book.pages[job].stamp > 1)
        lull_ranked_book(policy, job, false);
    policy->types[job] = policy->ranking->dispatch == NULL || policy->cluster->type_count == 1
                             ? UINT32_MAX
                             : policy->ranking->dispatch(policy, job, &policy->crowds[pool]);
    count(policy, job, 0, asked->weight);
}

int lull_cluster_ranked_arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    const enum lull_cluster_stage stage =
        job < policy->book.room ? policy->book.pages[job].stage : LULL_CLUSTER_ABSENT;

    if (stage == LULL_CLUSTER_RUNS)
        lull_cluster_ranked_end(policy, job, now_ns);
    if (lull_cluster_book_arrive(&policy->book, job) < 0 || reach(policy, job) < 0)
        return -ENOMEM;
    if (stage != LULL_CLUSTER_PAUSED)
        enter(policy, job);
    count(policy, job, 1, 0.0);
    return enqueue(policy, job, now_ns);
}

void lull_cluster_ranked_begin(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                               int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    const uint32_t old = policy->book.pages[job].mode;

    if (mode == old)
        return;
    lull_ranked_book(policy, job, false);
    forget_running(policy, job);
    lull_cluster_book_begin(&policy->book, job, mode, now_ns);
    lull_cluster_roster_add(
        &policy->book,
        &policy->groups[lull_ranked_group_of(policy, job, asked->modes[mode].type)].running, job);
    lull_ranked_book(policy, job, true);
}

void lull_cluster_ranked_node(struct lull_cluster_policy *policy,
                              const struct lull_cluster_state *state, uint32_t node, int64_t now_ns)
{
    (void)state;
    (void)now_ns;
    unblock(policy, policy->cluster->nodes[node].pool);
}

/* ---- decisions ----------------------------------------------------------------------------- */

static bool start(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                  size_t share_count, int64_t now_ns, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->book.jobs->all[job];
    struct lull_ranked_group *const group =
        &policy->groups[lull_ranked_group_of(policy, job, asked->modes[mode].type)];

    decision->act = LULL_CLUSTER_START;
    decision->job = job;
    decision->mode = mode;
    decision->share_count = share_count;
    decision->reason = policy->ranking->reason;
    lull_cluster_book_start(&policy->book, job, mode, decision->shares, share_count, now_ns);
    if (group->cursor == group->running.count)
        group->cursor++;
    lull_cluster_roster_add(&policy->book, &group->running, job);
    count(policy, job, -1, 0.0);
    lull_ranked_book(policy, job, true);
    offer(policy, job, now_ns);
    return true;
}

static bool carry_on(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                     int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_ranked_plan *const plan = &policy->plan;

    if (plan->next_stop < plan->stop_count) {
        const uint32_t job = plan->stops[plan->next_stop++];
        const uint32_t mode = policy->book.pages[job].mode;

        decision->act = LULL_CLUSTER_PREEMPT;
        decision->job = job;
        decision->reason = policy->ranking->reason;
        decision->restart_ns =
            lull_cluster_restart_ns(policy->book.jobs->all[job].modes[mode].gpus);
        forget_running(policy, job);
        lull_cluster_book_settle(&policy->book, job, now_ns);
        lull_ranked_book(policy, job, false);
        lull_cluster_book_pause(&policy->book, job, decision->restart_ns, now_ns);
        return true;
    }
    if (!plan->has_start)
        return false;
    plan->has_start = false;
    unblock(policy, policy->book.jobs->all[plan->job].pool);
    /* Those that stopped may have been elsewhere. */
    if (!lull_cluster_shares_fit(state, plan->shares, plan->share_count))
        return false;
    memcpy(decision->shares, plan->shares, plan->share_count * sizeof(*plan->shares));
    return start(policy, plan->job, plan->mode, plan->share_count, now_ns, decision);
}

/* The shape of a pool whose first job ranks first, of those that are not blocked; NULL: none. */
static struct lull_ranked_shape *first_shape(const struct lull_cluster_policy *policy,
                                             uint32_t pool, uint32_t *type_out)
{
    struct lull_ranked_shape *best = NULL;

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const struct lull_ranked_group *group =
            &policy->groups[(size_t)pool * policy->cluster->type_count + type];

        for (uint32_t i = 0; i < group->shape_count; i++) {
            struct lull_ranked_shape *const shape = &group->shapes[i];
            const struct lull_heap_entry *first = shape->waiting.entries;
            struct lull_heap_entry stale;

            while (shape->waiting.count > 0 && is_stale(policy, shape->waiting.entries))
                lull_heap_take(&shape->waiting, INT64_MAX, &stale);
            if (shape->is_blocked || shape->waiting.count == 0)
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

static bool decide_in_pool(struct lull_cluster_policy *policy,
                           const struct lull_cluster_state *state, uint32_t pool, int64_t now_ns,
                           struct lull_cluster_decision *decision)
{
    struct lull_ranked_shape *shape;
    uint32_t type = 0;

    while ((shape = first_shape(policy, pool, &type)) != NULL) {
        const uint32_t job = (uint32_t)(shape->waiting.entries[0].number >> 32);
        const uint32_t entry = lull_ranked_entry_mode(policy, job, type);
        uint32_t mode;
        size_t shares;

        if (lull_ranked_choose(policy, state, job, entry, &mode, decision->shares, &shares))
            return start(policy, job, mode, shares, now_ns, decision);
        if (lull_ranked_make_room(policy, state, job, entry, now_ns))
            return carry_on(policy, state, now_ns, decision);
        shape->is_blocked = true;
    }
    return false;
}

bool lull_cluster_ranked_decide(struct lull_cluster_policy *policy,
                                const struct lull_cluster_state *state, int64_t now_ns,
                                struct lull_cluster_decision *decision)
{
    const uint32_t types = policy->cluster->type_count;

    if (carry_on(policy, state, now_ns, decision))
        return true;
    while (policy->dirty_count > 0) {
        const uint32_t pool = policy->dirty[policy->dirty_count - 1];

        if (decide_in_pool(policy, state, pool, now_ns, decision))
            return true;
        for (uint32_t type = 0; policy->ranking->level != NULL && type < types; type++) {
            const size_t group = (size_t)pool * types + type;

            if (policy->groups[group].cursor == policy->groups[group].running.count &&
                lull_ranked_has_new_level(policy, group))
                policy->groups[group].cursor = 0;
            if (lull_ranked_reclock(policy, group, now_ns, decision))
                return true;
        }
        policy->is_dirty[pool] = false;
        policy->dirty_count--;
    }
    return false;
}
