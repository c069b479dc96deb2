/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "base/heap.h"
#include "cluster/core/model/schedule_set.h"
#include "cluster/core/model/placement.h"
#include "cluster/core/policy/single.h"
#include "cluster/core/policy/posted_prices.h"

struct lull_pd_rats_safe {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_schedule_rules rules;
    int64_t slot_ns;
    struct lull_prices *prices; /* types as in schedule_set.h */
    struct lull_heap due;       /* admitted: operating points and jobs by first slot */
    struct lull_heap rejected;  /* jobs, each with its reason as the key */
};

/* Why a job is rejected. */
enum reason {
    NO_VALUE,
    NO_GAIN,
    NO_SLOTS,
    TOO_FAR,
    NO_SCHEDULE,
    NO_ROOM,
    TOO_DEAR,
    TAKEN,
    REASONS
};

static const char *const reasons[REASONS] = {
    [NO_VALUE] = "it has no value that GPUs could be promised for",
    [NO_GAIN] = "it would take more energy than it is worth in every mode",
    [NO_SLOTS] = "from the next slot's begin on no whole slots are left before its deadline; "
                 "--posted-slot makes slots shorter",
    [TOO_FAR] = "it would run beyond the last slot that can be promised; --posted-slot makes slots "
                "longer",
    [NO_SCHEDULE] = "no mode of it gains what the policy's prices were made for: it takes all GPUs "
                    "of a type or all of the storage, or is out of the ranges given",
    [NO_ROOM] = "all its starts before the deadline are promised to others",
    [TOO_DEAR] = "where there is room for it posted prices are above its gain, so that the proven "
                 "ratio would not hold with it",
    [TAKEN] = "what had been promised to it was taken by a failure, or not free in time",
};

/* ---- beginning and end -------------------------------------------------------------------- */

static void rats_safe_destroy(struct lull_cluster_policy *handle)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;

    if (policy == NULL)
        return;
    lull_prices_destroy(policy->prices);
    lull_heap_fini(&policy->due);
    lull_heap_fini(&policy->rejected);
    free(policy);
}

static int make_prices(struct lull_pd_rats_safe *policy)
{
    const uint32_t types = policy->cluster->pool_count * policy->cluster->type_count;
    struct lull_price_law *laws = calloc((size_t)types + 1, sizeof(*laws));
    double ratio;
    int rc = -ENOMEM;

    if (laws != NULL)
        rc = lull_schedule_set_laws(policy->cluster, policy->jobs, &policy->rules, laws, &ratio);
    if (rc == 0)
        rc = lull_prices_create(laws, types, &laws[types], ratio, &policy->prices);
    free(laws);
    return rc;
}

static int rats_safe_create(const struct lull_cluster *cluster,
                            const struct lull_cluster_jobs *jobs, const void *rule, double setting,
                            struct lull_cluster_policy **policy_out)
{
    struct lull_pd_rats_safe *policy = calloc(1, sizeof(*policy));

    (void)setting;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    if (rule != NULL)
        policy->rules = *(const struct lull_schedule_rules *)rule;
    policy->slot_ns = lull_schedule_slot_ns(rule);
    if (make_prices(policy) < 0) {
        rats_safe_destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

/* Looks for a schedule, and books it if there is one; else returns why not. */
static enum reason rats_safe_bid(struct lull_pd_rats_safe *policy,
                                 const struct lull_schedule_set *set, struct lull_bid *bid_out)
{
    static const enum reason lacks[LULL_SCHEDULE_LACKS] = {
        [LULL_SCHEDULE_NO_VALUE] = NO_VALUE,
        [LULL_SCHEDULE_NO_GAIN] = NO_GAIN,
        [LULL_SCHEDULE_NO_SLOTS] = NO_SLOTS,
        [LULL_SCHEDULE_TOO_FAR] = TOO_FAR,
    };
    static const enum reason refusals[] = {
        [LULL_BID_NO_SCHEDULE] = NO_SCHEDULE,
        [LULL_BID_NO_ROOM] = NO_ROOM,
        [LULL_BID_TOO_DEAR] = TOO_DEAR,
    };

    if (set->lack != LULL_SCHEDULE_HAS_SOME)
        return lacks[set->lack];
    if (!lull_bid_choose(policy->prices, &set->job, bid_out))
        return refusals[bid_out->refusal];
    lull_bid_admit(policy->prices, &set->job, bid_out);
    return REASONS;
}

static int rats_safe_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;
    struct lull_schedule_set set;
    struct lull_bid made = {0};
    enum reason reason = TAKEN;

    lull_schedule_set_make(policy->cluster, &policy->jobs->all[job], &policy->rules,
                           lull_prices_slots(policy->prices), &set);
    /* One that was taken off its GPUs has had its slots. */
    if (now_ns <= policy->jobs->all[job].arrival_ns)
        reason = rats_safe_bid(policy, &set, &made);
    if (reason != REASONS)
        return lull_heap_add(&policy->rejected, reason, job);
    return lull_heap_add(&policy->due, (int64_t)made.choice.start * policy->slot_ns,
                         (uint64_t)job * LULL_CLUSTER_MAX_POINTS + set.numbers[made.choice.point]);
}

static void rats_safe_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    (void)handle;
    (void)job;
    (void)now_ns;
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* A promise that can no longer be kept is dropped: running late would cost energy without any
 * value. */
static bool reject_late(struct lull_pd_rats_safe *policy, struct lull_cluster_decision *decision)
{
    struct lull_heap_entry entry;

    lull_heap_take(&policy->due, INT64_MAX, &entry);
    decision->act = LULL_CLUSTER_REJECT;
    decision->job = (uint32_t)(entry.number / LULL_CLUSTER_MAX_POINTS);
    decision->reason = reasons[TAKEN];
    return true;
}

static bool rats_safe_start(struct lull_pd_rats_safe *policy,
                            const struct lull_cluster_state *state, int64_t now_ns,
                            struct lull_cluster_decision *decision)
{
    const uint64_t number = policy->due.entries[0].number;
    const uint32_t job = (uint32_t)(number / LULL_CLUSTER_MAX_POINTS);
    const uint32_t at = (uint32_t)(number % LULL_CLUSTER_MAX_POINTS);
    const struct lull_cluster_point *point = &policy->jobs->all[job].points[at];
    const uint32_t pool = policy->jobs->all[job].pool;
    struct lull_heap_entry entry;
    size_t count;

    if (point->time_ns > policy->jobs->all[job].deadline_ns - now_ns)
        return reject_late(policy, decision);
    count =
        lull_cluster_place_consolidated(state, pool, point->type, point->gpus, decision->shares);

    /* What was reserved is there, if perhaps in pieces. */
    if (count == 0)
        count =
            lull_cluster_place_scattered(state, pool, point->type, point->gpus, decision->shares);
    return count > 0 && lull_heap_take(&policy->due, INT64_MAX, &entry) &&
           lull_cluster_decide_start(decision, job, at, count,
                                     "its reserved time, at posted prices below its gain");
}

static bool rats_safe_decide(struct lull_cluster_policy *handle,
                             const struct lull_cluster_state *state, int64_t now_ns,
                             struct lull_cluster_decision *decision)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;
    struct lull_heap_entry entry;

    if (lull_heap_take(&policy->rejected, INT64_MAX, &entry)) {
        decision->act = LULL_CLUSTER_REJECT;
        decision->job = (uint32_t)entry.number;
        decision->reason = reasons[entry.key];
        return true;
    }
    return policy->due.count > 0 && policy->due.entries[0].key <= now_ns &&
           rats_safe_start(policy, state, now_ns, decision);
}

/* When the next reservation begins. */
static int64_t rats_safe_wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_pd_rats_safe *const policy = (const struct lull_pd_rats_safe *)handle;

    if (policy->due.count == 0 || policy->due.entries[0].key <= now_ns)
        return LULL_CLUSTER_NEVER;
    return policy->due.entries[0].key;
}

const struct lull_cluster_policy_calls lull_pd_rats_safe_calls = {
    .create = rats_safe_create,
    .destroy = rats_safe_destroy,
    .arrive = rats_safe_arrive,
    .end = rats_safe_end,
    .decide = rats_safe_decide,
    .wake_ns = rats_safe_wake_ns,
};
