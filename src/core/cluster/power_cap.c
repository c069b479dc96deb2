/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/power_cap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/cluster/placement.h"
#include "core/cluster/power_room.h"

enum {
    NONE = UINT32_MAX,
    MOST_LOOKS = 32, /* jobs refused at an instant, so that it takes bounded time */
};

struct lull_cluster_policy {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_power_room room;
    struct lull_cluster_decider inner;
    uint64_t *gpus_of;   /* [pool][type] */
    uint32_t *node_gpus; /* the same: the most that a node has */
    double idle_w;       /* of all nodes */
    struct lull_cluster_share *scratch;

    uint32_t refused[MOST_LOOKS]; /* jobs that are to go back to the policy */
    size_t refused_count;
    uint32_t refused_node; /* was to be turned on; NONE: none */
    int64_t retried_ns;
    uint32_t *hopeless; /* jobs to reject */
    size_t hopeless_count;

    /* The job that waits for watts, and what it is promised. */
    uint32_t head; /* NONE: none */
    int64_t head_ns;
    double spare_w;
};

static double total_w(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode)
{
    return lull_power_room_extra_w(&policy->room, job, mode) *
           policy->jobs->all[job].modes[mode].gpus;
}

/* ---- jobs that come and go ---------------------------------------------------------------- */

/* Whether a mode stays under the caps where nothing else runs. */
static bool could_stay_under(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode)
{
    const struct lull_cluster_mode *asked = &policy->jobs->all[job].modes[mode];
    const struct lull_power_cap *cap = &policy->room.cap;
    const uint32_t node_gpus =
        policy->node_gpus[policy->jobs->all[job].pool * policy->cluster->type_count + asked->type];
    const double extra_w = lull_power_room_extra_w(&policy->room, job, mode);
    const double node_w = policy->cluster->types[asked->type].idle_w * node_gpus +
                          extra_w * fmin(asked->gpus, node_gpus);

    return (!(cap->node_w > 0.0) || node_w <= cap->node_w) &&
           (!(cap->cluster_w > 0.0) || policy->idle_w + extra_w * asked->gpus <= cap->cluster_w);
}

static bool is_mode(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode)
{
    return lull_cluster_mode_is_possible(&policy->jobs->all[job], mode, policy->cluster,
                                         policy->gpus_of) &&
           could_stay_under(policy, job, mode);
}

static int arrive(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    lull_power_room_remove(&policy->room, job); /* preempted */
    for (uint32_t mode = 0; mode < policy->jobs->all[job].mode_count; mode++)
        if (is_mode(policy, job, mode))
            return policy->inner.ops->arrive(policy->inner.policy, job, now_ns);
    policy->hopeless[policy->hopeless_count++] = job;
    return 0;
}

static void end(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    lull_power_room_remove(&policy->room, job);
    policy->inner.ops->end(policy->inner.policy, job, now_ns);
}

static void begin(struct lull_cluster_policy *policy, uint32_t job, uint32_t mode, int64_t now_ns)
{
    if (policy->inner.ops->begin != NULL)
        policy->inner.ops->begin(policy->inner.policy, job, mode, now_ns);
}

/* ---- nodes -------------------------------------------------------------------------------- */

static void node_changed(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                         uint32_t node, int64_t now_ns)
{
    const struct lull_cluster *cluster = policy->cluster;
    const enum lull_cluster_power power = lull_cluster_state_power(state, node);

    /* One that is down will draw again what it did before, and nobody asks then. */
    if (power == LULL_CLUSTER_ON)
        lull_power_room_set_empty(&policy->room, node, lull_power_room_idle_w(cluster, node));
    else if (power == LULL_CLUSTER_TURNING_ON)
        lull_power_room_set_empty(&policy->room, node, lull_power_room_turning_on_w(cluster, node));
    else if (power == LULL_CLUSTER_OFF)
        lull_power_room_set_empty(&policy->room, node,
                                  cluster->types[cluster->nodes[node].type].off_w);
    if (policy->inner.ops->node != NULL)
        policy->inner.ops->node(policy->inner.policy, state, node, now_ns);
}

static void idle(struct lull_cluster_policy *policy, uint32_t node, bool is_idle, int64_t now_ns)
{
    if (policy->inner.ops->idle != NULL)
        policy->inner.ops->idle(policy->inner.policy, node, is_idle, now_ns);
}

static int64_t wake_ns(const struct lull_cluster_policy *policy, int64_t now_ns)
{
    const struct lull_cluster_decider *inner = &policy->inner;

    return inner->ops->wake_ns == NULL ? LULL_CLUSTER_NEVER
                                       : inner->ops->wake_ns(inner->policy, now_ns);
}

/* ---- the job that waits for watts --------------------------------------------------------- */

/* Whether it is no worse off for so much more, until then. */
static bool may_pass(const struct lull_cluster_policy *policy, uint32_t job, double more_w,
                     int64_t until_ns)
{
    return policy->head == NONE || policy->head == job || policy->room.running == 0 ||
           until_ns <= policy->head_ns || more_w <= policy->spare_w;
}

static void pass(struct lull_cluster_policy *policy, uint32_t job, double more_w, int64_t until_ns)
{
    if (policy->head == job)
        policy->head = NONE;
    if (policy->head != NONE && until_ns > policy->head_ns)
        policy->spare_w = fmax(policy->spare_w - more_w, 0.0);
}

/* The watts of its most modest mode. */
static void become_head(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns)
{
    double least_w = INFINITY;

    if (policy->head != NONE)
        return;
    for (uint32_t mode = 0; mode < policy->jobs->all[job].mode_count; mode++)
        if (is_mode(policy, job, mode))
            least_w = fmin(least_w, total_w(policy, job, mode));
    policy->head = job;
    policy->head_ns = lull_power_room_when(&policy->room, least_w, now_ns, &policy->spare_w);
}

/* ---- where and in which mode -------------------------------------------------------------- */

/* A node of so many free GPUs, from a number on, with room for a job's GPUs. */
static uint32_t find(const struct lull_cluster_policy *policy,
                     const struct lull_cluster_state *state, const struct lull_cluster_node *group,
                     uint32_t free_gpus, double more_w, uint32_t from)
{
    for (;;) {
        const uint32_t node =
            lull_cluster_state_find(state, group->pool, group->type, free_gpus, from);

        if (node == UINT32_MAX || lull_power_room_has_on(&policy->room, node, more_w))
            return node;
        from = node + 1;
    }
}

/* Consolidated (placement.h), but only on nodes with room under the node's cap. */
static size_t place(const struct lull_cluster_policy *policy,
                    const struct lull_cluster_state *state, uint32_t job, uint32_t mode,
                    struct lull_cluster_share *shares)
{
    const struct lull_cluster_mode *asked = &policy->jobs->all[job].modes[mode];
    const struct lull_cluster_node group = {.pool = policy->jobs->all[job].pool,
                                            .type = asked->type};
    const uint32_t most = lull_cluster_state_node_gpus(state, group.pool, group.type);
    const double gpu_w = lull_power_room_extra_w(&policy->room, job, mode);
    uint32_t left = asked->gpus;
    uint32_t from = 0;
    size_t count = 0;

    if (!(policy->room.cap.node_w > 0.0))
        return lull_cluster_place_consolidated(state, group.pool, group.type, left, shares);
    for (; left > most; left -= most) {
        const uint32_t node = find(policy, state, &group, most, gpu_w * most, from);

        if (node == UINT32_MAX || most == 0)
            return 0;
        shares[count++] = (struct lull_cluster_share){node, most};
        from = node + 1;
    }
    for (uint32_t i = left; i <= most; i++) {
        const uint32_t free_gpus = count > 0 ? most + left - i : i;
        const uint32_t node =
            find(policy, state, &group, free_gpus, gpu_w * left, free_gpus == most ? from : 0);

        if (node == UINT32_MAX)
            continue;
        shares[count++] = (struct lull_cluster_share){node, left};
        return count;
    }
    return 0;
}

static bool fits(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                 const struct lull_cluster_share *shares, size_t count, int64_t now_ns)
{
    const double gpu_w = lull_power_room_extra_w(&policy->room, job, mode);
    const double more_w = total_w(policy, job, mode);

    for (size_t i = 0; i < count; i++)
        if (!lull_power_room_has_on(&policy->room, shares[i].node, gpu_w * shares[i].gpus))
            return false;
    return lull_power_room_has(&policy->room, more_w) &&
           may_pass(policy, job, more_w, now_ns + policy->jobs->all[job].modes[mode].time_ns);
}

/* The untried mode that draws most; NONE: all have been tried. */
static uint32_t next_mode(const struct lull_cluster_policy *policy, uint32_t job, uint32_t tried)
{
    uint32_t best = NONE;

    for (uint32_t mode = 0; mode < policy->jobs->all[job].mode_count; mode++)
        if ((tried >> mode & 1) == 0 &&
            (best == NONE || total_w(policy, job, mode) > total_w(policy, job, best)))
            best = mode;
    return best;
}

/* Puts the job elsewhere, or into another mode; false: nothing fits. */
static bool replace(const struct lull_cluster_policy *policy,
                    const struct lull_cluster_state *state, int64_t now_ns,
                    struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    const struct lull_cluster_mode *modes = policy->jobs->all[job].modes;
    uint32_t mode = decision->mode;

    for (uint32_t tried = 0; mode != NONE; mode = next_mode(policy, job, tried)) {
        size_t count;

        tried |= UINT32_C(1) << mode;
        if (!is_mode(policy, job, mode))
            continue;
        if (modes[mode].type == modes[decision->mode].type &&
            modes[mode].gpus == modes[decision->mode].gpus &&
            fits(policy, job, mode, decision->shares, decision->share_count, now_ns)) {
            decision->mode = mode;
            break;
        }
        count = place(policy, state, job, mode, policy->scratch);
        if (count == 0 || !fits(policy, job, mode, policy->scratch, count, now_ns))
            continue;
        memcpy(decision->shares, policy->scratch, count * sizeof(*policy->scratch));
        decision->share_count = count;
        decision->mode = mode;
        break;
    }
    return mode != NONE;
}

static bool admit(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                  int64_t now_ns, struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    const uint32_t wanted = decision->mode;
    double more_w;

    if (!replace(policy, state, now_ns, decision)) {
        if (!lull_power_room_has(&policy->room, total_w(policy, job, wanted)))
            become_head(policy, job, now_ns);
        return false;
    }
    more_w = total_w(policy, job, decision->mode);
    if (lull_power_room_add(&policy->room, job, decision->mode, decision->shares,
                            decision->share_count, now_ns) < 0)
        return false;
    pass(policy, job, more_w, now_ns + policy->jobs->all[job].modes[decision->mode].time_ns);
    if (decision->mode != wanted)
        decision->reason = "in a mode that stays under the power cap";
    return true;
}

/* ---- other decisions ---------------------------------------------------------------------- */

/* The clock of a running job: no mode that would be too much, but one as near as can be. */
static bool reclock(struct lull_cluster_policy *policy, int64_t now_ns,
                    struct lull_cluster_decision *decision)
{
    const uint32_t job = decision->job;
    const struct lull_cluster_mode *modes = policy->jobs->all[job].modes;
    const struct lull_power_load *load = &policy->room.loads[job];
    const double before_w = lull_power_room_extra_w(&policy->room, job, load->mode);
    const double more_w = lull_power_room_extra_w(&policy->room, job, decision->mode) - before_w;
    bool has = lull_power_room_has(&policy->room, more_w * modes[decision->mode].gpus);

    for (uint32_t i = 0; i < load->share_count; i++)
        has = has && lull_power_room_has_on(&policy->room, load->shares[i].node,
                                            more_w * load->shares[i].gpus);
    return (more_w <= 0.0 || (has && may_pass(policy, job, more_w * modes[decision->mode].gpus,
                                              now_ns + modes[decision->mode].time_ns))) &&
           lull_power_room_reclock(&policy->room, job, decision->mode, now_ns) == 0;
}

static bool turn_on(struct lull_cluster_policy *policy, uint32_t node)
{
    const double more_w =
        lull_power_room_turning_on_w(policy->cluster, node) - policy->room.empty_w[node];

    if (!lull_power_room_has(&policy->room, more_w) ||
        !may_pass(policy, NONE - 1, more_w, LULL_CLUSTER_NEVER))
        return false;
    pass(policy, NONE - 1, more_w, LULL_CLUSTER_NEVER);
    return true;
}

/* ---- deciding ----------------------------------------------------------------------------- */

/* What was refused waits with the policy again. */
static void hand_back(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                      int64_t now_ns)
{
    const struct lull_cluster_decider *inner = &policy->inner;
    size_t kept = 0;

    for (size_t i = 0; i < policy->refused_count; i++) {
        inner->ops->end(inner->policy, policy->refused[i], now_ns);
        if (inner->ops->arrive(inner->policy, policy->refused[i], now_ns) < 0)
            policy->refused[kept++] = policy->refused[i]; /* no memory: later */
    }
    policy->refused_count = kept;
    if (policy->refused_node != NONE && inner->ops->node != NULL)
        inner->ops->node(inner->policy, state, policy->refused_node, now_ns);
    policy->refused_node = NONE;
}

/* Whether the decision may be carried out, perhaps in another mode. */
static bool look_at(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                    int64_t now_ns, struct lull_cluster_decision *decision)
{
    switch (decision->act) {
    case LULL_CLUSTER_START:
        if (admit(policy, state, now_ns, decision))
            return true;
        policy->refused[policy->refused_count++] = decision->job;
        return false;
    case LULL_CLUSTER_RECLOCK:
        return reclock(policy, now_ns, decision);
    case LULL_CLUSTER_NODE_ON:
        if (turn_on(policy, decision->node))
            return true;
        policy->refused_node = decision->node;
        return false;
    default:
        return true;
    }
}

static bool ask(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                int64_t now_ns, struct lull_cluster_decision *decision)
{
    const struct lull_cluster_decider *inner = &policy->inner;

    for (int looks = 0;
         looks < MOST_LOOKS && policy->refused_count < MOST_LOOKS && policy->refused_node == NONE;
         looks++) {
        if (!inner->ops->decide(inner->policy, state, now_ns, decision))
            return false;
        if (look_at(policy, state, now_ns, decision))
            return true;
    }
    return false;
}

static bool reject(struct lull_cluster_policy *policy, struct lull_cluster_decision *decision)
{
    if (policy->hopeless_count == 0)
        return false;
    decision->act = LULL_CLUSTER_REJECT;
    decision->job = policy->hopeless[--policy->hopeless_count];
    decision->reason = "no mode of it stays under the power cap";
    return true;
}

static bool decide(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                   int64_t now_ns, struct lull_cluster_decision *decision)
{
    if (reject(policy, decision))
        return true;
    if (policy->head != NONE && now_ns > policy->head_ns)
        policy->head = NONE;
    if (ask(policy, state, now_ns, decision))
        return true;
    hand_back(policy, state, now_ns);
    /* Preempting made room that nobody took, and nothing else may happen any more. */
    if (policy->room.running > 0 || policy->retried_ns == now_ns)
        return false;
    policy->retried_ns = now_ns;
    policy->head = NONE;
    if (ask(policy, state, now_ns, decision))
        return true;
    hand_back(policy, state, now_ns);
    return false;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static void release(struct lull_cluster_policy *policy)
{
    lull_power_room_fini(&policy->room);
    free(policy->node_gpus);
    free(policy->gpus_of);
    free(policy->scratch);
    free(policy->hopeless);
    free(policy);
}

static void destroy(struct lull_cluster_policy *policy)
{
    policy->inner.ops->destroy(policy->inner.policy);
    release(policy);
}

static const struct lull_cluster_policy_ops ops = {
    .name = "power-cap",
    .summary = "keeps the cluster's power under a cap",
    .destroy = destroy,
    .arrive = arrive,
    .end = end,
    .decide = decide,
    .begin = begin,
    .node = node_changed,
    .idle = idle,
    .wake_ns = wake_ns,
};

static void count_nodes(struct lull_cluster_policy *policy)
{
    const struct lull_cluster *cluster = policy->cluster;

    for (uint32_t i = 0; i < cluster->node_count; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];
        const size_t number = (size_t)node->pool * cluster->type_count + node->type;

        policy->gpus_of[number] += node->gpus;
        if (node->gpus > policy->node_gpus[number])
            policy->node_gpus[number] = node->gpus;
        policy->idle_w += lull_power_room_idle_w(cluster, i);
    }
}

int lull_power_cap_wrap(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                        const struct lull_power_cap *cap, struct lull_cluster_decider *decider,
                        struct lull_error *err)
{
    const size_t groups = (size_t)cluster->pool_count * cluster->type_count;
    struct lull_cluster_policy *policy = calloc(1, sizeof(*policy));
    int rc;

    if (policy == NULL)
        return lull_error_set(err, -ENOMEM, "out of memory");
    *policy = (struct lull_cluster_policy){.cluster = cluster,
                                           .jobs = jobs,
                                           .inner = *decider,
                                           .refused_node = NONE,
                                           .retried_ns = -1,
                                           .head = NONE};
    rc = lull_power_room_init(&policy->room, cluster, jobs, cap, err);
    if (rc < 0) {
        free(policy);
        return rc;
    }
    policy->node_gpus = calloc(groups, sizeof(*policy->node_gpus));
    policy->gpus_of = calloc(groups, sizeof(*policy->gpus_of));
    policy->scratch = calloc(cluster->node_count, sizeof(*policy->scratch));
    policy->hopeless = calloc(jobs->count > 0 ? jobs->count : 1, sizeof(*policy->hopeless));
    if (policy->node_gpus == NULL || policy->gpus_of == NULL || policy->scratch == NULL ||
        policy->hopeless == NULL) {
        release(policy);
        return lull_error_set(err, -ENOMEM, "out of memory");
    }
    count_nodes(policy);
    *decider = (struct lull_cluster_decider){&ops, policy};
    return 0;
}
