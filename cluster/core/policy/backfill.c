/*
 * First come, first served, with EASY backfill (Lifka 1995; Mu'alem and Feitelson, TPDS 2001): the
 * first job of a pool that does not fit is given the earliest time and place that the ends of
 * running jobs allow; others run meanwhile if they end by then or do not use its GPUs. Run times
 * are known, so the reservation holds until the job starts: it is made once per such job. Jobs run
 * in the first operating point of each type. SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/core/policy/single.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/core/model/placement.h"
#include "cluster/core/policy/job_ledger.h"
#include "cluster/core/policy/policy.h"
#include "cluster/core/policy/waiting.h"

struct lull_backfill_shape {
    uint32_t type;
    uint32_t gpus;
    struct lull_waiting waiting;
};

struct lull_backfill_pool {
    struct lull_backfill_shape *shapes;
    uint32_t shape_count;
    bool is_dirty;
    uint32_t reserved; /* the job that has a reservation; LULL_WAITING_NONE: none */
    uint32_t type;     /* of GPU that it has */
    int64_t start_ns;
};

struct lull_backfill {
    const struct lull_cluster *cluster;
    struct lull_job_ledger ledger;
    struct lull_running_set *running; /* [pool * types + type] */
    struct lull_backfill_pool *pools;
    uint32_t *dirty;
    uint32_t dirty_count;
    /* Of the nodes with a reservation: GPUs free from its start on, without reserved ones and those
       of jobs that run longer; the copy has those of them that are free now. */
    uint32_t *later;
    struct lull_cluster_state *copy; /* to try placements on */
    struct lull_cluster_share *shares;
    uint32_t *ends; /* a group's running jobs */
    uint32_t end_room;
};

/* The operating point that a job has on a type; point_count: none. */
static uint32_t backfill_point_of(const struct lull_backfill *policy, uint32_t job, uint32_t type)
{
    return lull_cluster_first_point(&policy->ledger.jobs->all[job], type, policy->cluster,
                                    lull_cluster_state_groups(policy->copy)->gpus);
}

static struct lull_running_set *running_of(const struct lull_backfill *policy, uint32_t pool,
                                           uint32_t type)
{
    return &policy->running[lull_cluster_group(policy->cluster, pool, type)];
}

static void backfill_touch(struct lull_backfill *policy, uint32_t pool)
{
    if (policy->pools[pool].is_dirty)
        return;
    assert(policy->dirty_count < policy->cluster->pool_count);
    policy->pools[pool].is_dirty = true;
    policy->dirty[policy->dirty_count++] = pool;
}

/* ---- what happens -------------------------------------------------------------------------- */

/* The shape of jobs that want this many GPUs of a type, which is made if it is new; NULL: no
 * memory. */
static struct lull_backfill_shape *backfill_shape_of(struct lull_backfill_pool *pool, uint32_t type,
                                                     uint32_t gpus)
{
    struct lull_backfill_shape *shapes;

    for (uint32_t i = 0; i < pool->shape_count; i++)
        if (pool->shapes[i].type == type && pool->shapes[i].gpus == gpus)
            return &pool->shapes[i];
    shapes = realloc(pool->shapes, (pool->shape_count + 1) * sizeof(*shapes));
    if (shapes == NULL)
        return NULL;
    shapes[pool->shape_count] = (struct lull_backfill_shape){.type = type, .gpus = gpus};
    pool->shapes = shapes;
    return &shapes[pool->shape_count++];
}

/* Takes a job out of the running ones. */
static void backfill_leave(struct lull_backfill *policy, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const uint32_t type = asked->points[policy->ledger.records[job].point].type;

    lull_running_set_remove(&policy->ledger, running_of(policy, asked->pool, type), job);
}

static void backfill_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;

    (void)now_ns;
    backfill_leave(policy, job);
    lull_job_ledger_end(&policy->ledger, job);
    backfill_touch(policy, policy->ledger.jobs->all[job].pool);
}

static int backfill_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_backfill_pool *const pool = &policy->pools[asked->pool];

    if (job < policy->ledger.room && policy->ledger.records[job].stage == LULL_CLUSTER_RUNS)
        backfill_end(handle, job, now_ns);
    if (lull_job_ledger_arrive(&policy->ledger, job) < 0)
        return -ENOMEM;
    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const uint32_t point = backfill_point_of(policy, job, type);
        struct lull_backfill_shape *shape;

        if (point == asked->point_count)
            continue;
        shape = backfill_shape_of(pool, type, asked->points[point].gpus);
        if (shape == NULL ||
            lull_waiting_add(&shape->waiting, job,
                             lull_job_ledger_need_ns(&policy->ledger, job, point)) < 0)
            return -ENOMEM;
    }
    /* An existing reservation relied on GPUs that are no longer available. */
    if (policy->ledger.records[job].stamp > 1)
        pool->reserved = LULL_WAITING_NONE;
    backfill_touch(policy, asked->pool);
    return 0;
}

static int backfill_adopt(struct lull_cluster_policy *handle, uint32_t job,
                          const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];

    if (lull_job_ledger_arrive(&policy->ledger, job) < 0)
        return -ENOMEM;
    lull_job_ledger_start(&policy->ledger, job, 0, shares, count, now_ns);
    lull_running_set_add(&policy->ledger, running_of(policy, asked->pool, asked->points[0].type),
                         job);
    return 0;
}

static void backfill_begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point,
                           int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];

    if (point == policy->ledger.records[job].point)
        return;
    backfill_leave(policy, job);
    lull_job_ledger_begin(&policy->ledger, job, point, now_ns);
    lull_running_set_add(&policy->ledger,
                         running_of(policy, asked->pool, asked->points[point].type), job);
}

/* A reservation that was made counted on another end of this job. */
static void backfill_pace(struct lull_cluster_policy *handle, uint32_t job, double its_pace,
                          int64_t end_ns, int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;
    const uint32_t pool = policy->ledger.jobs->all[job].pool;

    (void)end_ns;
    lull_job_ledger_pace(&policy->ledger, job, its_pace, now_ns);
    policy->pools[pool].reserved = LULL_WAITING_NONE;
    backfill_touch(policy, pool);
}

/* A reservation that was made counted on other nodes. */
static void backfill_node(struct lull_cluster_policy *handle,
                          const struct lull_cluster_state *state, uint32_t number, int64_t now_ns)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;

    (void)state;
    (void)now_ns;
    policy->pools[policy->cluster->nodes[number].pool].reserved = LULL_WAITING_NONE;
    backfill_touch(policy, policy->cluster->nodes[number].pool);
}

/* ---- when the first job of a pool can start -------------------------------------------------- */

/* Orders running jobs by their expected ends, equal ones by number. */
static int by_end(const void *left, const void *right, void *context)
{
    const struct lull_backfill *policy = context;
    const uint32_t a = *(const uint32_t *)left;
    const uint32_t b = *(const uint32_t *)right;
    const int64_t a_ns = lull_job_ledger_end_ns(&policy->ledger, a);
    const int64_t b_ns = lull_job_ledger_end_ns(&policy->ledger, b);

    return a_ns != b_ns ? (a_ns > b_ns) - (a_ns < b_ns) : (a > b) - (a < b);
}

static bool has_room_for_ends(struct lull_backfill *policy, uint32_t count)
{
    uint32_t *ends;

    if (count <= policy->end_room)
        return true;
    ends = realloc(policy->ends, 2 * (size_t)count * sizeof(*ends));
    if (ends == NULL)
        return false;
    policy->ends = ends;
    policy->end_room = 2 * count;
    return true;
}

/*
 * Returns the time at which an operating point fits if no other job is started, at most before_ns;
 * its shares are in policy->shares then, and the copy is as the cluster will be.
 * LULL_CLUSTER_NEVER: not before, or out of memory.
 */
static int64_t find_start(struct lull_backfill *policy, const struct lull_cluster_state *state,
                          uint32_t pool, const struct lull_cluster_point *point, int64_t before_ns,
                          size_t *share_count_out)
{
    const struct lull_running_set *running = running_of(policy, pool, point->type);

    if (!has_room_for_ends(policy, running->count))
        return LULL_CLUSTER_NEVER;
    for (uint32_t i = 0; i < running->count; i++)
        policy->ends[i] = running->jobs[i];
    if (running->count > 0)
        qsort_r(policy->ends, running->count, sizeof(*policy->ends), by_end, policy);
    lull_cluster_copy_group(policy->copy, state, pool, point->type);
    for (uint32_t i = 0; i < running->count; i++) {
        const uint32_t job = policy->ends[i];
        const int64_t end_ns = lull_job_ledger_end_ns(&policy->ledger, job);

        if (end_ns >= before_ns)
            break;
        lull_cluster_copy_give(policy->copy, policy->ledger.records[job].shares,
                               policy->ledger.records[job].share_count);
        if (i + 1 < running->count &&
            lull_job_ledger_end_ns(&policy->ledger, policy->ends[i + 1]) == end_ns)
            continue;
        *share_count_out = lull_cluster_place_consolidated(policy->copy, pool, point->type,
                                                           point->gpus, policy->shares);
        if (*share_count_out > 0)
            return end_ns;
    }
    return LULL_CLUSTER_NEVER;
}

/* Records how many GPUs the copy has free on each node of a group. */
static void note_later(struct lull_backfill *policy, uint32_t pool, uint32_t type)
{
    const struct lull_node_groups *groups = lull_cluster_state_groups(policy->copy);
    const size_t group = lull_cluster_group(policy->cluster, pool, type);

    for (size_t i = groups->first[group]; i < groups->first[group + 1]; i++)
        policy->later[groups->nodes[i]] = lull_cluster_state_free(policy->copy, groups->nodes[i]);
}

/* Sets the copy, for each node of a group, to the GPUs that are free now and not reserved later. */
static void show_spare(struct lull_backfill *policy, const struct lull_cluster_state *state,
                       uint32_t pool, uint32_t type)
{
    const struct lull_node_groups *groups = lull_cluster_state_groups(policy->copy);
    const size_t group = lull_cluster_group(policy->cluster, pool, type);

    for (size_t i = groups->first[group]; i < groups->first[group + 1]; i++) {
        const uint32_t node = groups->nodes[i];
        const uint32_t free = lull_cluster_state_free(state, node);

        lull_cluster_state_set_free(policy->copy, node,
                                    policy->later[node] < free ? policy->later[node] : free);
    }
}

/* Gives the first job of a pool, which does not fit, the earliest time and place that the ends of
 * running jobs allow. O(r log r) for r that run. */
static void backfill_reserve(struct lull_backfill *policy, const struct lull_cluster_state *state,
                             uint32_t pool_number, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_backfill_pool *const pool = &policy->pools[pool_number];
    size_t count = 0;

    pool->reserved = job;
    pool->start_ns = LULL_CLUSTER_NEVER;
    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const uint32_t point = backfill_point_of(policy, job, type);
        int64_t start_ns;

        if (point == asked->point_count)
            continue;
        start_ns =
            find_start(policy, state, pool_number, &asked->points[point], pool->start_ns, &count);
        if (start_ns == LULL_CLUSTER_NEVER)
            continue;
        pool->start_ns = start_ns;
        pool->type = type;
        lull_cluster_state_take(policy->copy, policy->shares, count);
        note_later(policy, pool_number, type);
    }
}

/* ---- decisions ----------------------------------------------------------------------------- */

static bool backfill_start(struct lull_backfill *policy, uint32_t job, uint32_t point,
                           size_t share_count, const char *reason, int64_t now_ns,
                           struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_backfill_pool *const pool = &policy->pools[asked->pool];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const uint32_t its = backfill_point_of(policy, job, type);

        if (its < asked->point_count)
            lull_waiting_remove(&backfill_shape_of(pool, type, asked->points[its].gpus)->waiting,
                                job);
    }
    lull_job_ledger_start(&policy->ledger, job, point, decision->shares, share_count, now_ns);
    lull_running_set_add(&policy->ledger,
                         running_of(policy, asked->pool, asked->points[point].type), job);
    return lull_cluster_decide_start(decision, job, point, share_count, reason);
}

/* Starts the first job of a pool if one of its operating points fits now. */
static bool start_first(struct lull_backfill *policy, const struct lull_cluster_state *state,
                        uint32_t job, int64_t now_ns, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];

    for (uint32_t point = 0; point < asked->point_count; point++) {
        size_t count;

        if (point != backfill_point_of(policy, job, asked->points[point].type))
            continue;
        count = lull_cluster_place_consolidated(state, asked->pool, asked->points[point].type,
                                                asked->points[point].gpus, decision->shares);
        if (count == 0)
            continue;
        if (policy->pools[asked->pool].reserved == job)
            policy->pools[asked->pool].reserved = LULL_WAITING_NONE;
        return backfill_start(policy, job, point, count, "came first", now_ns, decision);
    }
    return false;
}

/* The first job of a shape that may run ahead of the pool's first job, and its shares. */
static uint32_t find_filler(struct lull_backfill *policy, const struct lull_cluster_state *state,
                            uint32_t pool_number, const struct lull_backfill_shape *shape,
                            int64_t now_ns, struct lull_cluster_share *shares_out,
                            size_t *count_out)
{
    const struct lull_backfill_pool *pool = &policy->pools[pool_number];
    const uint32_t head = pool->reserved;
    const size_t anywhere =
        lull_cluster_place_consolidated(state, pool_number, shape->type, shape->gpus, shares_out);
    const bool is_apart = pool->start_ns == LULL_CLUSTER_NEVER || pool->type != shape->type;
    uint32_t brief;
    uint32_t any;
    size_t beside;

    if (anywhere == 0)
        return LULL_WAITING_NONE;
    *count_out = anywhere;
    brief =
        lull_waiting_first(&shape->waiting, head, is_apart ? INT64_MAX : pool->start_ns - now_ns);
    if (is_apart)
        return brief;
    any = lull_waiting_first(&shape->waiting, head, INT64_MAX);
    if (any == LULL_WAITING_NONE || any == brief)
        return brief;
    beside = lull_cluster_place_consolidated(policy->copy, pool_number, shape->type, shape->gpus,
                                             policy->shares);
    if (beside == 0)
        return brief;
    memcpy(shares_out, policy->shares, beside * sizeof(*shares_out));
    *count_out = beside;
    return any;
}

/* Starts the first of the jobs, in the order of their numbers, that may run ahead of the pool's
 * first job. */
static bool backfill_fill(struct lull_backfill *policy, const struct lull_cluster_state *state,
                          uint32_t pool_number, int64_t now_ns,
                          struct lull_cluster_decision *decision)
{
    struct lull_backfill_pool *const pool = &policy->pools[pool_number];
    const struct lull_backfill_shape *best = NULL;
    uint32_t job = LULL_WAITING_NONE;
    uint32_t point;
    size_t count = 0;

    for (uint32_t i = 0; i < pool->shape_count; i++) {
        const uint32_t found = find_filler(policy, state, pool_number, &pool->shapes[i], now_ns,
                                           decision->shares, &count);

        if (found != LULL_WAITING_NONE && (job == LULL_WAITING_NONE || found < job)) {
            job = found;
            best = &pool->shapes[i];
        }
    }
    if (best == NULL)
        return false;
    find_filler(policy, state, pool_number, best, now_ns, decision->shares, &count);
    point = backfill_point_of(policy, job, best->type);
    /* A job that ends after the begin of the reservation uses the GPUs that the reservation does
     * not need. */
    if (pool->start_ns != LULL_CLUSTER_NEVER && pool->type == best->type &&
        now_ns + lull_job_ledger_need_ns(&policy->ledger, job, point) > pool->start_ns)
        for (size_t i = 0; i < count; i++)
            policy->later[decision->shares[i].node] -= decision->shares[i].gpus;
    return backfill_start(policy, job, point, count, "does not delay the first in the queue",
                          now_ns, decision);
}

static uint32_t find_head(const struct lull_backfill_pool *pool)
{
    uint32_t head = LULL_WAITING_NONE;

    for (uint32_t i = 0; i < pool->shape_count; i++) {
        const uint32_t first =
            lull_waiting_first(&pool->shapes[i].waiting, LULL_WAITING_NONE, INT64_MAX);

        head = first < head ? first : head;
    }
    return head;
}

/* Makes a new reservation for the first job of a pool if it no longer has one, or if
 * it does not fit at its reserved time because another job ran longer than expected. */
static bool backfill_decide_in_pool(struct lull_backfill *policy,
                                    const struct lull_cluster_state *state, uint32_t pool_number,
                                    int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_backfill_pool *const pool = &policy->pools[pool_number];
    const uint32_t head = find_head(pool);

    if (head == LULL_WAITING_NONE)
        return false;
    if (start_first(policy, state, head, now_ns, decision))
        return true;
    if (pool->reserved != head || pool->start_ns == LULL_CLUSTER_NEVER || pool->start_ns <= now_ns)
        backfill_reserve(policy, state, pool_number, head);
    if (pool->start_ns != LULL_CLUSTER_NEVER)
        show_spare(policy, state, pool_number, pool->type);
    return backfill_fill(policy, state, pool_number, now_ns, decision);
}

static bool backfill_decide(struct lull_cluster_policy *handle,
                            const struct lull_cluster_state *state, int64_t now_ns,
                            struct lull_cluster_decision *decision)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;

    while (policy->dirty_count > 0) {
        const uint32_t pool = policy->dirty[policy->dirty_count - 1];

        if (backfill_decide_in_pool(policy, state, pool, now_ns, decision))
            return true;
        policy->pools[pool].is_dirty = false;
        policy->dirty_count--;
    }
    return false;
}

/* ---- beginning and end --------------------------------------------------------------------- */

static void backfill_destroy(struct lull_cluster_policy *handle)
{
    struct lull_backfill *const policy = (struct lull_backfill *)handle;
    const struct lull_cluster *cluster = policy->cluster;

    for (size_t i = 0; policy->running != NULL && i < lull_cluster_group_count(cluster); i++)
        free(policy->running[i].jobs);
    for (uint32_t i = 0; policy->pools != NULL && i < cluster->pool_count; i++) {
        for (uint32_t shape = 0; shape < policy->pools[i].shape_count; shape++)
            lull_waiting_fini(&policy->pools[i].shapes[shape].waiting);
        free(policy->pools[i].shapes);
    }
    lull_cluster_state_destroy(policy->copy);
    lull_job_ledger_fini(&policy->ledger);
    free(policy->running);
    free(policy->pools);
    free(policy->dirty);
    free(policy->later);
    free(policy->shares);
    free(policy->ends);
    free(policy);
}

static int backfill_make_room(struct lull_backfill *policy)
{
    const struct lull_cluster *cluster = policy->cluster;
    const size_t groups = lull_cluster_group_count(cluster);

    policy->running = calloc(groups, sizeof(*policy->running));
    policy->pools = calloc(cluster->pool_count, sizeof(*policy->pools));
    policy->dirty = calloc(cluster->pool_count, sizeof(*policy->dirty));
    policy->later = calloc(cluster->node_count, sizeof(*policy->later));
    policy->shares = calloc(cluster->node_count, sizeof(*policy->shares));
    if (policy->running == NULL || policy->pools == NULL || policy->dirty == NULL ||
        policy->later == NULL || policy->shares == NULL ||
        lull_cluster_state_create(cluster, &policy->copy) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < cluster->pool_count; i++)
        policy->pools[i].reserved = LULL_WAITING_NONE;
    return 0;
}

static int backfill_create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                           const void *rule, double setting,
                           struct lull_cluster_policy **policy_out)
{
    struct lull_backfill *policy = calloc(1, sizeof(*policy));

    (void)rule;
    (void)setting;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->ledger.jobs = jobs;
    if (backfill_make_room(policy) < 0) {
        backfill_destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

const struct lull_cluster_policy_calls lull_backfill_calls = {
    .create = backfill_create,
    .destroy = backfill_destroy,
    .arrive = backfill_arrive,
    .adopt = backfill_adopt,
    .end = backfill_end,
    .decide = backfill_decide,
    .begin = backfill_begin,
    .pace = backfill_pace,
    .node = backfill_node,
};
