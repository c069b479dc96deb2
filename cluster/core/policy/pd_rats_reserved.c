/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/policy/fluid_price.h"
#include "base/array.h"
#include "cluster/core/model/placement.h"
#include "cluster/core/policy/single.h"
#include "cluster/core/policy/reservations.h"

/* Step limit of a plan (reservations.h): about a millisecond. */
static const double max_steps = 3e5;
/* The time in which prices fade from near to far, in mean times of jobs. Tuned with
 * cluster/bench/bench_pd_rats.c, on other seeds than its tests draw; so is the next one. */
static const double fade_means = 0.6;

/* Validity of a plan while nothing happens, in fades. */
static const double stale_fades = 0.25;

struct running {
    uint32_t job;
    uint32_t type;
    uint32_t gpus;
    int64_t end_ns; /* expected */
};

struct pool {
    struct lull_fluid_price *price;
    uint64_t *gpus;             /* [type] */
    struct lull_timeline *free; /* [type], of running jobs */
    struct running *running;
    size_t running_count;
    size_t running_room;
    struct lull_reservation *plan; /* of all that wait, in the plan's order */
    size_t count;
    size_t room;
    size_t held;      /* that need not run and are left out of the plan */
    size_t next;      /* of the plan, to look at in this round */
    bool has_changed; /* since it was planned */
    bool is_late;     /* a running job ends at another time than `free` has it */
    int64_t planned_ns;
};

struct lull_pd_rats_reserved {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_reserver *reserver;
    struct lull_random random;
    struct pool *pools;
    double second_j;
};

/* ---- beginning and end -------------------------------------------------------------------- */

static int create_pool(struct lull_pd_rats_reserved *policy, struct pool *pool)
{
    const uint32_t types = policy->cluster->type_count;

    pool->gpus = calloc(types, sizeof(*pool->gpus));
    pool->free = calloc(types, sizeof(*pool->free));
    if (pool->gpus == NULL || pool->free == NULL)
        return -ENOMEM;
    return lull_fluid_price_create(policy->jobs, pool->gpus, types, policy->second_j, &pool->price);
}

static void rats_reserved_destroy(struct lull_cluster_policy *handle)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;

    if (policy == NULL)
        return;
    for (uint32_t i = 0; policy->pools != NULL && i < policy->cluster->pool_count; i++) {
        struct pool *const pool = &policy->pools[i];

        for (uint32_t type = 0; pool->free != NULL && type < policy->cluster->type_count; type++)
            lull_timeline_fini(&pool->free[type]);
        lull_fluid_price_destroy(pool->price);
        free(pool->gpus);
        free(pool->free);
        free(pool->running);
        free(pool->plan);
    }
    lull_reserver_destroy(policy->reserver);
    free(policy->pools);
    free(policy);
}

static int rats_reserved_fill(struct lull_pd_rats_reserved *policy)
{
    const struct lull_cluster *cluster = policy->cluster;

    policy->pools = calloc(cluster->pool_count, sizeof(*policy->pools));
    if (policy->pools == NULL || lull_reserver_create(cluster->type_count, &policy->reserver) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < cluster->pool_count; i++)
        if (create_pool(policy, &policy->pools[i]) < 0)
            return -ENOMEM;
    for (uint32_t i = 0; i < cluster->node_count; i++)
        policy->pools[cluster->nodes[i].pool].gpus[cluster->nodes[i].type] +=
            cluster->nodes[i].gpus;
    for (uint32_t i = 0; i < cluster->pool_count; i++)
        for (uint32_t type = 0; type < cluster->type_count; type++)
            if (lull_timeline_reset(&policy->pools[i].free[type], 0,
                                    (int64_t)policy->pools[i].gpus[type]) < 0)
                return -ENOMEM;
    return 0;
}

static int rats_reserved_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs, const void *rule,
                                double setting, struct lull_cluster_policy **policy_out)
{
    struct lull_pd_rats_reserved *policy = calloc(1, sizeof(*policy));

    (void)rule;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    policy->second_j = setting;
    lull_random_init(&policy->random, 1);
    if (rats_reserved_fill(policy) < 0) {
        rats_reserved_destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

/* ---- what runs ---------------------------------------------------------------------------- */

static int rats_reserved_run(struct pool *pool, uint32_t job,
                             const struct lull_cluster_point *point, int64_t now_ns)
{
    if (lull_array_reserve(&pool->running, &pool->running_room, pool->running_count,
                           sizeof(*pool->running)) < 0 ||
        lull_timeline_take(&pool->free[point->type], now_ns, now_ns + point->time_ns, point->gpus) <
            0)
        return -ENOMEM;
    pool->running[pool->running_count++] =
        (struct running){job, point->type, point->gpus, now_ns + point->time_ns};
    return 0;
}

static void rats_reserved_stop(struct pool *pool, uint32_t job)
{
    for (size_t i = 0; i < pool->running_count; i++)
        if (pool->running[i].job == job) {
            pool->running[i] = pool->running[--pool->running_count];
            return;
        }
}

/* Makes the timeline again from what runs, because jobs have ended early, late or not at all. A job
 * that should have ended is expected to end in a moment. Errors: -ENOMEM. */
static int rats_reserved_rebuild(struct pool *pool, uint32_t type, int64_t now_ns, int64_t free)
{
    struct lull_timeline *const timeline = &pool->free[type];

    if (lull_timeline_reset(timeline, now_ns, free) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < pool->running_count; i++) {
        const struct running *running = &pool->running[i];
        int64_t end_ns = now_ns + 1;

        if (running->end_ns > now_ns)
            end_ns = running->end_ns;
        if (running->type == type &&
            lull_timeline_take(timeline, end_ns, INT64_MAX, -(int64_t)running->gpus) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int rats_reserved_replan(struct lull_pd_rats_reserved *policy, uint32_t at,
                                const struct lull_cluster_state *state, int64_t now_ns)
{
    struct pool *const pool = &policy->pools[at];

    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const int64_t free = (int64_t)lull_cluster_state_free_of(state, at, type);

        lull_timeline_advance(&pool->free[type], now_ns);
        if ((pool->is_late || pool->free[type].steps[0].free != free) &&
            rats_reserved_rebuild(pool, type, now_ns, free) < 0)
            return -ENOMEM;
    }
    pool->is_late = false;
    return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

static int rats_reserved_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;
    struct pool *const pool = &policy->pools[policy->jobs->all[job].pool];

    if (lull_array_reserve(&pool->plan, &pool->room, pool->count, sizeof(*pool->plan)) < 0)
        return -ENOMEM;
    rats_reserved_stop(pool, job);
    lull_fluid_price_add(pool->price, job, now_ns);
    pool->plan[pool->count++] =
        (struct lull_reservation){.job = job, .point = LULL_RESERVATION_NONE};
    pool->has_changed = true;
    return 0;
}

static void rats_reserved_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;
    struct pool *const pool = &policy->pools[policy->jobs->all[job].pool];

    (void)now_ns;
    rats_reserved_stop(pool, job);
    pool->has_changed = true;
}

/* Records a running job: it occupies GPUs, and its arrival and operating points are used for
 * prices. */
static int rats_reserved_adopt(struct lull_cluster_policy *handle, uint32_t job,
                               const struct lull_cluster_share *shares, size_t count,
                               int64_t now_ns)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;
    const struct lull_cluster_job *asked = &policy->jobs->all[job];

    (void)shares;
    (void)count;
    return rats_reserved_run(&policy->pools[asked->pool], job, &asked->points[0], now_ns);
}

/* Recent jobs determine the prices, whatever their present state. */
static int rats_reserved_recall(struct lull_cluster_policy *handle, uint32_t job, uint32_t point)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;
    const struct lull_cluster_job *came = &policy->jobs->all[job];

    (void)point;
    lull_fluid_price_add(policy->pools[came->pool].price, job, came->arrival_ns);
    return 0;
}

static void rats_reserved_pace(struct lull_cluster_policy *handle, uint32_t job, double its_pace,
                               int64_t end_ns, int64_t now_ns)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;
    struct pool *const pool = &policy->pools[policy->jobs->all[job].pool];

    (void)its_pace;
    (void)now_ns;
    for (size_t i = 0; i < pool->running_count; i++)
        if (pool->running[i].job == job)
            pool->running[i].end_ns = end_ns;
    pool->is_late = pool->has_changed = true;
}

/* ---- decisions ---------------------------------------------------------------------------- */

static int rats_reserved_plan(struct lull_pd_rats_reserved *policy, uint32_t at,
                              const struct lull_cluster_state *state, int64_t now_ns)
{
    struct pool *const pool = &policy->pools[at];
    struct lull_reservation_room room;

    if (rats_reserved_replan(policy, at, state, now_ns) < 0)
        return -ENOMEM;
    room = (struct lull_reservation_room){
        .jobs = policy->jobs->all,
        .types = policy->cluster->types,
        .type_count = policy->cluster->type_count,
        .gpus = pool->gpus,
        .free = pool->free,
        .far_j = lull_fluid_price_prices(pool->price, now_ns),
        .fade_ns = fmax(fade_means * lull_fluid_price_mean_ns(pool->price), 1.0),
        .now_ns = now_ns,
        .second_j = policy->second_j,
    };
    pool->has_changed = false;
    pool->planned_ns = now_ns;
    pool->next = 0;
    if (lull_reserver_plan(policy->reserver, &room, &policy->random, max_steps, pool->plan,
                           pool->count) < 0)
        return -ENOMEM;
    pool->held = 0;
    for (size_t i = 0; i < pool->count; i++)
        pool->held += pool->plan[i].point == LULL_RESERVATION_NONE &&
                      policy->jobs->all[pool->plan[i].job].value_j > 0.0;
    return 0;
}

static int64_t stale_after_ns(const struct pool *pool)
{
    return (int64_t)fmax(stale_fades * fade_means * lull_fluid_price_mean_ns(pool->price), 1.0);
}

static bool rats_reserved_is_stale(const struct pool *pool, int64_t now_ns)
{
    return pool->count > 0 &&
           (pool->has_changed || now_ns - pool->planned_ns >= stale_after_ns(pool));
}

/* Returns whether a job that need not run can gain nothing any more, in any of its operating
 * points.
 */
static bool rats_reserved_is_hopeless(const struct lull_cluster_job *job, double second_j,
                                      int64_t now_ns)
{
    for (uint32_t i = 0; i < job->point_count; i++)
        if (job->value_j <= 0.0 || lull_cluster_gain_j(job, i, now_ns, second_j) > 0.0)
            return false;
    return true;
}

static void rats_reserved_drop(struct pool *pool, size_t at)
{
    assert(at < pool->count);
    pool->count--;
    for (size_t i = at; i < pool->count; i++)
        pool->plan[i] = pool->plan[i + 1];
}

static bool rats_reserved_start(struct lull_pd_rats_reserved *policy, struct pool *pool,
                                const struct lull_cluster_state *state, int64_t now_ns,
                                struct lull_cluster_decision *decision)
{
    const struct lull_reservation *chosen = &pool->plan[pool->next];
    const struct lull_cluster_job *job = &policy->jobs->all[chosen->job];
    const struct lull_cluster_point *point = &job->points[chosen->point];
    const size_t count = lull_cluster_place_consolidated(state, job->pool, point->type, point->gpus,
                                                         decision->shares);

    if (count == 0 || rats_reserved_run(pool, chosen->job, point, now_ns) < 0)
        return false;
    lull_cluster_decide_start(decision, chosen->job, chosen->point, count,
                              "its place in the plan of highest value less energy and prices");
    rats_reserved_drop(pool, pool->next);
    return true;
}

static bool rats_reserved_reject(struct pool *pool, struct lull_cluster_decision *decision)
{
    decision->act = LULL_CLUSTER_REJECT;
    decision->job = pool->plan[pool->next].job;
    decision->reason = "others paid more for the GPUs until it had nothing to gain any more";
    rats_reserved_drop(pool, pool->next);
    return true;
}

static bool decide_pool(struct lull_pd_rats_reserved *policy, uint32_t at,
                        const struct lull_cluster_state *state, int64_t now_ns,
                        struct lull_cluster_decision *decision)
{
    struct pool *const pool = &policy->pools[at];

    if (rats_reserved_is_stale(pool, now_ns) && rats_reserved_plan(policy, at, state, now_ns) < 0)
        return false;
    for (; pool->next < pool->count; pool->next++) {
        const struct lull_reservation *chosen = &pool->plan[pool->next];

        if (chosen->point != LULL_RESERVATION_NONE && chosen->start_ns <= now_ns &&
            rats_reserved_start(policy, pool, state, now_ns, decision))
            return true;
        if (rats_reserved_is_hopeless(&policy->jobs->all[chosen->job], policy->second_j, now_ns))
            return rats_reserved_reject(pool, decision);
    }
    return false;
}

static bool rats_reserved_decide(struct lull_cluster_policy *handle,
                                 const struct lull_cluster_state *state, int64_t now_ns,
                                 struct lull_cluster_decision *decision)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;

    for (uint32_t i = 0; i < policy->cluster->pool_count; i++)
        if (decide_pool(policy, i, state, now_ns, decision))
            return true;
    return false;
}

static void rats_reserved_node(struct lull_cluster_policy *handle,
                               const struct lull_cluster_state *state, uint32_t node,
                               int64_t now_ns)
{
    struct lull_pd_rats_reserved *const policy = (struct lull_pd_rats_reserved *)handle;

    (void)state;
    (void)now_ns;
    policy->pools[policy->cluster->nodes[node].pool].has_changed = true;
}

/* Returns the time at which the first plan becomes stale. A plan is valid for a limited time,
 * because prices fade and a job that waits for better-paying ones may go. */
static int64_t rats_reserved_wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_pd_rats_reserved *const policy = (const struct lull_pd_rats_reserved *)handle;
    int64_t wake_ns = LULL_CLUSTER_NEVER;

    for (uint32_t i = 0; i < policy->cluster->pool_count; i++) {
        const struct pool *pool = &policy->pools[i];
        int64_t stale_ns;

        if (pool->held == 0 || pool->count == 0)
            continue;
        stale_ns = pool->planned_ns + stale_after_ns(pool);
        if (stale_ns > now_ns && stale_ns < wake_ns)
            wake_ns = stale_ns;
    }
    return wake_ns;
}

const struct lull_cluster_policy_calls lull_pd_rats_reserved_calls = {
    .create = rats_reserved_create,
    .destroy = rats_reserved_destroy,
    .arrive = rats_reserved_arrive,
    .adopt = rats_reserved_adopt,
    .recall = rats_reserved_recall,
    .end = rats_reserved_end,
    .decide = rats_reserved_decide,
    .pace = rats_reserved_pace,
    .node = rats_reserved_node,
    .wake_ns = rats_reserved_wake_ns,
};
