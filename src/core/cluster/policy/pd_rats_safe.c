/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "core/cluster/model/heap.h"
#include "core/cluster/model/schedule_set.h"
#include "core/cluster/model/placement.h"
#include "core/cluster/policy/single.h"
#include "core/cluster/policy/posted_prices.h"

struct lull_pd_rats_safe {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_prices *prices; /* types as in schedule_set.h */
    struct lull_heap due;       /* admitted: operating points and jobs by first slot */
    struct lull_heap rejected;  /* jobs */
};

/* ---- beginning and end -------------------------------------------------------------------- */

static void destroy(struct lull_cluster_policy *handle)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;

    if (policy == NULL)
        return;
    lull_prices_destroy(policy->prices);
    lull_heap_fini(&policy->due);
    lull_heap_fini(&policy->rejected);
    free(policy);
}

/* The theorem's ranges, of the jobs that are known to come. */
static int make_prices(struct lull_pd_rats_safe *policy)
{
    const uint32_t types = policy->cluster->pool_count * policy->cluster->type_count;
    struct lull_price_law *laws = calloc(types, sizeof(*laws));
    int rc = -ENOMEM;

    if (laws != NULL) {
        lull_schedule_set_laws(policy->cluster, policy->jobs, laws);
        rc = lull_prices_create(laws, types, &policy->prices);
    }
    free(laws);
    return rc;
}

static int create(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                  const void *rule, double setting, struct lull_cluster_policy **policy_out)
{
    struct lull_pd_rats_safe *policy = calloc(1, sizeof(*policy));

    (void)rule;
    (void)setting;
    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    if (make_prices(policy) < 0) {
        destroy((struct lull_cluster_policy *)policy);
        return -ENOMEM;
    }
    *policy_out = (struct lull_cluster_policy *)policy;
    return 0;
}

/* ---- events ------------------------------------------------------------------------------- */

static int arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;
    struct lull_schedule_set set;
    struct lull_bid bid;

    lull_schedule_set_make(policy->cluster, &policy->jobs->all[job],
                           lull_prices_slots(policy->prices), &set);
    /* One that was taken off its GPUs has had its slots. */
    if (now_ns > policy->jobs->all[job].arrival_ns ||
        !lull_bid_choose(policy->prices, &set.job, &bid))
        return lull_heap_add(&policy->rejected, 0, job);
    lull_bid_admit(policy->prices, &set.job, &bid);
    return lull_heap_add(&policy->due, (int64_t)bid.choice.start * LULL_SCHEDULE_SLOT_NS,
                         (uint64_t)job * LULL_CLUSTER_MOST_POINTS + set.numbers[bid.choice.point]);
}

static void end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    (void)handle;
    (void)job;
    (void)now_ns;
}

/* ---- decisions ---------------------------------------------------------------------------- */

static const char *reason_for(const struct lull_cluster_job *job)
{
    if (job->value_j <= 0.0)
        return "it has no value that GPUs could be promised for";
    return "every schedule costs more in posted prices than it gains";
}

static bool start(struct lull_pd_rats_safe *policy, const struct lull_cluster_state *state,
                  struct lull_cluster_decision *decision)
{
    const uint64_t number = policy->due.entries[0].number;
    const uint32_t job = (uint32_t)(number / LULL_CLUSTER_MOST_POINTS);
    const uint32_t at = (uint32_t)(number % LULL_CLUSTER_MOST_POINTS);
    const struct lull_cluster_point *point = &policy->jobs->all[job].points[at];
    const uint32_t pool = policy->jobs->all[job].pool;
    struct lull_heap_entry entry;
    size_t count =
        lull_cluster_place_consolidated(state, pool, point->type, point->gpus, decision->shares);

    /* What was reserved is there, if perhaps in pieces. */
    if (count == 0)
        count =
            lull_cluster_place_scattered(state, pool, point->type, point->gpus, decision->shares);
    return count > 0 && lull_heap_take(&policy->due, INT64_MAX, &entry) &&
           lull_cluster_decide_start(decision, job, at, count,
                                     "its reserved time, at posted prices below its gain");
}

static bool decide(struct lull_cluster_policy *handle, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_pd_rats_safe *const policy = (struct lull_pd_rats_safe *)handle;
    struct lull_heap_entry entry;

    if (lull_heap_take(&policy->rejected, INT64_MAX, &entry)) {
        decision->act = LULL_CLUSTER_REJECT;
        decision->job = (uint32_t)entry.number;
        decision->reason = reason_for(&policy->jobs->all[entry.number]);
        return true;
    }
    return policy->due.count > 0 && policy->due.entries[0].key <= now_ns &&
           start(policy, state, decision);
}

/* When the next reservation begins. */
static int64_t wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_pd_rats_safe *const policy = (const struct lull_pd_rats_safe *)handle;

    if (policy->due.count == 0 || policy->due.entries[0].key <= now_ns)
        return LULL_CLUSTER_NEVER;
    return policy->due.entries[0].key;
}

const struct lull_cluster_policy_calls lull_pd_rats_safe_calls = {
    .create = create,
    .destroy = destroy,
    .arrive = arrive,
    .end = end,
    .decide = decide,
    .wake_ns = wake_ns,
};
