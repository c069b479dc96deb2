/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_cap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "cluster/core/power/power_budget.h"

enum {
    NONE = LULL_POWER_NONE,
    NO_JOB = UINT32_MAX - 1, /* no job's number, nor none */
    MAX_LOOKS = 32,          /* jobs rejected at an instant, to bound its time */
};

struct lull_power_capped {
    struct lull_cluster_decider inner; /* first (policy.h) */
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_power_budget budget;

    uint32_t refused[MAX_LOOKS]; /* jobs that are to go back to the policy */
    size_t refused_count;
    uint32_t refused_node; /* was to be turned on; NONE: none */
    uint32_t *hopeless;    /* jobs to reject */
    size_t hopeless_count;
};

/* ---- begin and end of jobs ---------------------------------------------------------------- */

static int power_cap_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    lull_power_budget_remove(&policy->budget, job); /* it may have been preempted */
    if (lull_power_budget_expect(&policy->budget, job)) {
        lull_power_budget_wait(&policy->budget, job, true);
        return policy->inner.calls->arrive(policy->inner.policy, job, now_ns);
    }
    assert(policy->hopeless_count < policy->jobs->count);
    policy->hopeless[policy->hopeless_count++] = job;
    return 0;
}

static void power_cap_end(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    lull_power_budget_remove(&policy->budget, job);
    lull_cluster_decider_end(handle, job, now_ns);
}

/* Running jobs may draw more than the cap allows; no other job starts then. */
static int power_cap_adopt(struct lull_cluster_policy *handle, uint32_t job,
                           const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;
    const int rc = lull_power_budget_add(&policy->budget, job, 0, shares, count, now_ns);

    return rc < 0 ? rc : lull_cluster_decider_adopt(handle, job, shares, count, now_ns);
}

static void power_cap_begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point,
                            int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    lull_power_budget_wait(&policy->budget, job, false);
    lull_cluster_decider_begin(handle, job, point, now_ns);
}

static void power_cap_pace(struct lull_cluster_policy *handle, uint32_t job, double its_pace,
                           int64_t end_ns, int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    lull_power_budget_expect_end(&policy->budget, job, end_ns);
    lull_cluster_decider_pace(handle, job, its_pace, end_ns, now_ns);
}

/* ---- nodes -------------------------------------------------------------------------------- */

static void power_cap_node_changed(struct lull_cluster_policy *handle,
                                   const struct lull_cluster_state *state, uint32_t node,
                                   int64_t now_ns)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;
    const struct lull_cluster *cluster = policy->cluster;
    const enum lull_cluster_power power = lull_cluster_state_power(state, node);

    /* A failed node keeps its entry: it will draw the same power again, and its return is not a
     * decision that the cap could delay. */
    if (power == LULL_CLUSTER_ON)
        lull_power_budget_set_empty(&policy->budget, node, lull_power_budget_idle_w(cluster, node));
    else if (power == LULL_CLUSTER_TURNING_ON)
        lull_power_budget_set_empty(&policy->budget, node,
                                    lull_power_budget_turning_on_w(cluster, node));
    else if (power == LULL_CLUSTER_OFF)
        lull_power_budget_set_empty(&policy->budget, node,
                                    cluster->types[cluster->nodes[node].type].off_w);
    lull_cluster_decider_node(handle, state, node, now_ns);
}

/* ---- starts ------------------------------------------------------------------------------- */

/* Starts a job if the caps allow it, possibly in another operating point or on other nodes. A
 * job blocked only by the cluster's cap gets a reservation of watts. */
static bool power_cap_admit(struct lull_power_capped *policy,
                            const struct lull_cluster_state *state, int64_t now_ns,
                            struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    const uint32_t wanted = decision->point;
    double more_w;

    if (!lull_power_budget_replace(&policy->budget, state, now_ns, decision)) {
        if (!lull_power_budget_has(&policy->budget,
                                   lull_power_budget_total_w(&policy->budget, job, wanted)))
            lull_power_budget_reserve(&policy->budget, job, now_ns);
        return false;
    }
    more_w = lull_power_budget_total_w(&policy->budget, job, decision->point);
    if (lull_power_budget_add(&policy->budget, job, decision->point, decision->shares,
                              decision->share_count, now_ns) < 0)
        return false;
    lull_power_budget_pass(&policy->budget, job, more_w,
                           now_ns + policy->jobs->all[job].points[decision->point].time_ns);
    if (decision->point != wanted)
        decision->reason = "in a mode that stays under the power cap";
    return true;
}

/* ---- other decisions ---------------------------------------------------------------------- */

/* Changes the clock of a running job if the caps and the reservation of watts allow it. */
static bool power_cap_reclock(struct lull_power_capped *policy, int64_t now_ns,
                              struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    const struct lull_cluster_point *points = policy->jobs->all[job].points;
    const struct lull_power_load *load = &policy->budget.loads[job];
    const double before_w = lull_power_budget_extra_w(&policy->budget, job, load->point);
    const double more_w =
        lull_power_budget_extra_w(&policy->budget, job, decision->point) - before_w;
    bool has = lull_power_budget_has(&policy->budget, more_w * points[decision->point].gpus);

    for (uint32_t i = 0; i < load->share_count; i++)
        has = has && lull_power_budget_has_on(&policy->budget, load->shares[i].node,
                                              more_w * load->shares[i].gpus);
    return (more_w <= 0.0 ||
            (has && lull_power_budget_fits_reservation(
                        &policy->budget, job, more_w * points[decision->point].gpus,
                        now_ns + points[decision->point].time_ns))) &&
           lull_power_budget_reclock(&policy->budget, job, decision->point, now_ns) == 0;
}

/* Turns a node on if its watts are available, also with the reservation of watts. */
static bool power_cap_turn_on(struct lull_power_capped *policy, uint32_t node)
{
    const double more_w =
        lull_power_budget_turning_on_w(policy->cluster, node) - policy->budget.empty_w[node];

    if (!lull_power_budget_has(&policy->budget, more_w) ||
        !lull_power_budget_fits_reservation(&policy->budget, NO_JOB, more_w, LULL_CLUSTER_NEVER))
        return false;
    lull_power_budget_pass(&policy->budget, NO_JOB, more_w, LULL_CLUSTER_NEVER);
    return true;
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* Returns rejected starts to the policy, whose jobs wait again. */
static void hand_back(struct lull_power_capped *policy, const struct lull_cluster_state *state,
                      int64_t now_ns)
{
    struct lull_cluster_policy *const around = (struct lull_cluster_policy *)policy;
    const struct lull_cluster_decider *inner = &policy->inner;
    size_t kept = 0;

    for (size_t i = 0; i < policy->refused_count; i++)
        if (inner->calls->arrive(inner->policy, policy->refused[i], now_ns) < 0)
            policy->refused[kept++] = policy->refused[i]; /* no memory: later */
    policy->refused_count = kept;
    if (policy->refused_node != NONE)
        lull_cluster_decider_node(around, state, policy->refused_node, now_ns);
    policy->refused_node = NONE;
}

/* Returns whether the decision may be executed, perhaps in another operating point. */
static bool power_cap_check_decision(struct lull_power_capped *policy,
                                     const struct lull_cluster_state *state, int64_t now_ns,
                                     struct lull_cluster_decision *decision)
{
    switch (decision->act) {
    case LULL_CLUSTER_START:
        if (power_cap_admit(policy, state, now_ns, decision))
            return true;
        policy->inner.calls->end(policy->inner.policy, decision->job, now_ns);
        assert(policy->refused_count < MAX_LOOKS);
        policy->refused[policy->refused_count++] = decision->job;
        return false;
    case LULL_CLUSTER_RECLOCK:
        return power_cap_reclock(policy, now_ns, decision);
    case LULL_CLUSTER_NODE_ON:
        if (power_cap_turn_on(policy, decision->node))
            return true;
        policy->refused_node = decision->node;
        return false;
    case LULL_CLUSTER_REJECT:
        lull_power_budget_wait(&policy->budget, decision->job, false);
        return true;
    default:
        return true;
    }
}

/* Asks the policy until a decision may be executed. The number of looks is bounded, since a
 * policy may propose one job after the other that no cap allows. */
static bool power_cap_query_policy(struct lull_power_capped *policy,
                                   const struct lull_cluster_state *state, int64_t now_ns,
                                   struct lull_cluster_decision *decision)
{
    const struct lull_cluster_decider *inner = &policy->inner;

    for (int looks = 0; looks < (int)MAX_LOOKS && policy->refused_count < MAX_LOOKS &&
                        policy->refused_node == NONE;
         looks++) {
        if (!inner->calls->decide(inner->policy, state, now_ns, decision))
            return false;
        if (power_cap_check_decision(policy, state, now_ns, decision))
            return true;
    }
    return false;
}

static bool power_cap_reject(struct lull_power_capped *policy,
                             struct lull_cluster_decision *decision)
{
    if (policy->hopeless_count == 0)
        return false;
    decision->act = LULL_CLUSTER_REJECT;
    decision->job = policy->hopeless[--policy->hopeless_count];
    decision->reason = "no mode of it stays under the power cap";
    return true;
}

static bool power_cap_decide(struct lull_cluster_policy *handle,
                             const struct lull_cluster_state *state, int64_t now_ns,
                             struct lull_cluster_decision *decision)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    if (power_cap_reject(policy, decision))
        return true;
    if (policy->budget.head != NONE && now_ns > policy->budget.head_ns)
        policy->budget.head = NONE;
    if (power_cap_query_policy(policy, state, now_ns, decision))
        return true;
    hand_back(policy, state, now_ns);
    return false;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static void power_cap_release(struct lull_power_capped *policy)
{
    lull_power_budget_fini(&policy->budget);
    free(policy->hopeless);
    free(policy);
}

static void power_cap_destroy(struct lull_cluster_policy *handle)
{
    struct lull_power_capped *const policy = (struct lull_power_capped *)handle;

    policy->inner.calls->destroy(policy->inner.policy);
    power_cap_release(policy);
}

static const struct lull_cluster_policy_calls calls = {
    .destroy = power_cap_destroy,
    .arrive = power_cap_arrive,
    .adopt = power_cap_adopt,
    .recall = lull_cluster_decider_recall,
    .end = power_cap_end,
    .decide = power_cap_decide,
    .begin = power_cap_begin,
    .pace = power_cap_pace,
    .node = power_cap_node_changed,
    .idle = lull_cluster_decider_idle,
    .wake_ns = lull_cluster_decider_wake_ns,
};

int lull_power_cap_wrap(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_power_cap *cap, struct lull_cluster_decider *decider,
                        struct lull_error *err)
{
    struct lull_power_capped *policy = calloc(1, sizeof(*policy));
    int rc;

    if (policy == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    *policy = (struct lull_power_capped){
        .cluster = cluster, .jobs = jobs, .inner = *decider, .refused_node = NONE};
    rc = lull_power_budget_init(&policy->budget, cluster, jobs, cap, err);
    if (rc < 0) {
        free(policy);
        return rc;
    }
    policy->hopeless = calloc(jobs->count > 0 ? jobs->count : 1, sizeof(*policy->hopeless));
    if (policy->hopeless == NULL) {
        power_cap_release(policy);
        return lull_error_set(err, -ENOMEM, "out of memory");
    }
    *decider = (struct lull_cluster_decider){&calls, (struct lull_cluster_policy *)policy};
    return 0;
}
