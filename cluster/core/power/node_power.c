/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/node_power.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/heap.h"

/* Nodes of one pool and type. */
struct idle_group {
    uint64_t wanted;      /* nodes for the jobs that wait */
    uint32_t idle;        /* nodes that are on without a job */
    uint32_t turning_on;  /* nodes */
    struct lull_heap off; /* nodes, the lowest first */
    struct lull_heap due; /* idle for long enough, the highest first; some may be busy again */
    bool has_changed;     /* is in the list */
};

struct lull_node_power {
    struct lull_cluster_decider inner; /* first (policy.h) */
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_node_groups members;
    struct idle_group *groups; /* [pool][type] */
    uint32_t *changed;         /* groups to look at */
    uint32_t changed_count;
    uint8_t *waits;         /* [job]: counted in the demand of groups */
    uint8_t *power;         /* [node]: enum lull_cluster_power, as counted here */
    int64_t *idle_since_ns; /* [node]; LULL_CLUSTER_NEVER: it is not idle */
    struct lull_heap timers;
};

/* Returns the longest idle time of a node of the type with this many GPUs, at least 1 ns.
 * LULL_CLUSTER_NEVER: it stays on, because it draws no less when it is off. */
static int64_t patience_of(const struct lull_cluster_type *type, uint32_t gpus)
{
    const double saves_w = type->idle_w * gpus - type->off_w;
    double patience_ns;

    if (!(saves_w > 0.0))
        return LULL_CLUSTER_NEVER;
    patience_ns = type->turn_on_j / saves_w * 1e9;
    if (patience_ns > (double)LULL_CLUSTER_MAX_NS)
        return LULL_CLUSTER_NEVER;
    return (int64_t)fmax(patience_ns, 1.0);
}

static uint32_t group_number(const struct lull_node_power *policy, uint32_t node)
{
    const struct lull_cluster_node *asked = &policy->cluster->nodes[node];

    return asked->pool * policy->cluster->type_count + asked->type;
}

static struct idle_group *node_power_change(struct lull_node_power *policy, uint32_t number)
{
    struct idle_group *const group = &policy->groups[number];

    assert(group->has_changed ||
           policy->changed_count < policy->cluster->pool_count * policy->cluster->type_count);
    if (!group->has_changed)
        policy->changed[policy->changed_count++] = number;
    group->has_changed = true;
    return group;
}

/* ---- jobs --------------------------------------------------------------------------------- */

/* Returns the number of idle nodes of a group that certainly hold this many GPUs. */
static uint64_t nodes_for(const struct lull_node_power *policy, uint32_t group, uint32_t gpus)
{
    const struct lull_node_groups *members = &policy->members;
    const uint64_t nodes = members->first[group + 1] - members->first[group];
    const bool is_mixed = members->gpus[group] != nodes * members->most[group];

    return is_mixed ? nodes : (gpus + members->most[group] - 1) / members->most[group];
}

/* Returns whether the type of this operating point is counted already: an earlier one has the same
 * type and could run. */
static bool is_counted(const struct lull_node_power *policy, const struct lull_cluster_job *job,
                       uint32_t point)
{
    const size_t pool = (size_t)job->pool * policy->cluster->type_count;

    for (uint32_t i = 0; i < point; i++)
        if (job->points[i].type == job->points[point].type &&
            job->points[i].gpus <= policy->members.gpus[pool + job->points[i].type])
            return true;
    return false;
}

/* Counts the nodes that a job wants in every group that could ever run it, while it waits. */
static void node_power_want(struct lull_node_power *policy, uint32_t job, bool waits)
{
    const struct lull_cluster_job *asked = &policy->jobs->all[job];

    if (policy->waits[job] == waits)
        return;
    policy->waits[job] = waits;
    for (uint32_t point = 0; point < asked->point_count; point++) {
        const uint32_t number =
            asked->pool * policy->cluster->type_count + asked->points[point].type;
        const uint32_t gpus = asked->points[point].gpus;
        uint64_t nodes;

        if (gpus > policy->members.gpus[number] || is_counted(policy, asked, point))
            continue;
        nodes = nodes_for(policy, number, gpus);
        assert(waits || policy->groups[number].wanted >= nodes);
        if (waits)
            node_power_change(policy, number)->wanted += nodes;
        else
            node_power_change(policy, number)->wanted -= nodes;
    }
}

static int node_power_arrive(struct lull_cluster_policy *handle, uint32_t job, int64_t now_ns)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;
    const int rc = policy->inner.calls->arrive(policy->inner.policy, job, now_ns);

    if (rc < 0)
        return rc;
    node_power_want(policy, job, true);
    return 0;
}

static void node_power_begin(struct lull_cluster_policy *handle, uint32_t job, uint32_t point,
                             int64_t now_ns)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;

    node_power_want(policy, job, false);
    lull_cluster_decider_begin(handle, job, point, now_ns);
}

/* ---- nodes -------------------------------------------------------------------------------- */

/* Records when a node became idle, and sets its timer. */
static void set_idle(struct lull_node_power *policy, uint32_t node, int64_t since_ns)
{
    const bool was = policy->idle_since_ns[node] != LULL_CLUSTER_NEVER;
    const bool is = since_ns != LULL_CLUSTER_NEVER;
    struct idle_group *const group = node_power_change(policy, group_number(policy, node));
    const struct lull_cluster_node *asked = &policy->cluster->nodes[node];

    assert(group->idle >= was && group->idle - was + is <= policy->cluster->node_count);
    group->idle = group->idle - was + is;
    policy->idle_since_ns[node] = since_ns;
    if (is) {
        const int64_t patience_ns = patience_of(&policy->cluster->types[asked->type], asked->gpus);

        /* Without memory for its timer the node stays on, which costs but does no harm. */
        if (patience_ns != LULL_CLUSTER_NEVER)
            (void)lull_heap_add(&policy->timers, since_ns + patience_ns, node);
    }
}

static void node_power_node_changed(struct lull_cluster_policy *handle,
                                    const struct lull_cluster_state *state, uint32_t node,
                                    int64_t now_ns)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;
    struct idle_group *const group = node_power_change(policy, group_number(policy, node));
    const enum lull_cluster_power power = lull_cluster_state_power(state, node);

    group->turning_on += (power == LULL_CLUSTER_TURNING_ON) -
                         (uint32_t)(policy->power[node] == LULL_CLUSTER_TURNING_ON);
    policy->power[node] = (uint8_t)power;
    set_idle(policy, node, lull_cluster_state_is_idle(state, node) ? now_ns : LULL_CLUSTER_NEVER);
    /* A node that is off may be in the heap twice, or no longer be off; node_power_turn_on
     * checks this. */
    if (power == LULL_CLUSTER_OFF)
        (void)lull_heap_add(&group->off, node, node);
    lull_cluster_decider_node(handle, state, node, now_ns);
}

static void node_power_mark_idle(struct lull_cluster_policy *handle, uint32_t node, bool is_idle,
                                 int64_t now_ns)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;

    set_idle(policy, node, is_idle ? now_ns : LULL_CLUSTER_NEVER);
    lull_cluster_decider_idle(handle, node, is_idle, now_ns);
}

/* ---- decisions ---------------------------------------------------------------------------- */

/* Decides to turn on the first node that is off, if the waiting jobs want more nodes than are idle
 * or turning on. */
static bool node_power_turn_on(struct lull_node_power *policy, struct idle_group *group,
                               struct lull_cluster_decision *decision)
{
    struct lull_heap_entry first;

    while (group->wanted > (uint64_t)group->idle + group->turning_on &&
           lull_heap_take(&group->off, INT64_MAX, &first)) {
        if (policy->power[first.number] != LULL_CLUSTER_OFF)
            continue;
        decision->act = LULL_CLUSTER_NODE_ON;
        decision->node = (uint32_t)first.number;
        decision->reason = "a job waits for it";
        return true;
    }
    return false;
}

/* Returns whether the node has been idle for its patience. */
static bool node_power_is_due(const struct lull_node_power *policy, uint32_t node, int64_t now_ns)
{
    const struct lull_cluster_node *asked = &policy->cluster->nodes[node];

    return policy->idle_since_ns[node] != LULL_CLUSTER_NEVER &&
           now_ns - policy->idle_since_ns[node] >=
               patience_of(&policy->cluster->types[asked->type], asked->gpus);
}

/* Decides to turn off a node that has idled for its patience, if no waiting job may want it. */
static bool node_power_turn_off(struct lull_node_power *policy, struct idle_group *group,
                                int64_t now_ns, struct lull_cluster_decision *decision)
{
    struct lull_heap_entry first;

    while (group->idle > group->wanted && lull_heap_take(&group->due, INT64_MAX, &first)) {
        if (!node_power_is_due(policy, (uint32_t)first.number, now_ns))
            continue;
        decision->act = LULL_CLUSTER_NODE_OFF;
        decision->node = (uint32_t)first.number;
        decision->reason = "it was idle for as long as turning it on is worth";
        return true;
    }
    return false;
}

/* Lists the nodes whose patience is over. */
static void node_power_expire(struct lull_node_power *policy, int64_t now_ns)
{
    struct lull_heap_entry timer;

    while (lull_heap_take(&policy->timers, now_ns, &timer))
        if (node_power_is_due(policy, (uint32_t)timer.number, now_ns))
            (void)lull_heap_add(
                &node_power_change(policy, group_number(policy, (uint32_t)timer.number))->due,
                -(int64_t)timer.number, timer.number);
}

static bool node_power_decide(struct lull_cluster_policy *handle,
                              const struct lull_cluster_state *state, int64_t now_ns,
                              struct lull_cluster_decision *decision)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;

    node_power_expire(policy, now_ns);
    for (uint32_t i = 0; i < policy->changed_count; i++)
        if (node_power_turn_off(policy, &policy->groups[policy->changed[i]], now_ns, decision))
            return true;
    if (policy->inner.calls->decide(policy->inner.policy, state, now_ns, decision)) {
        if (decision->act == LULL_CLUSTER_REJECT)
            node_power_want(policy, decision->job, false);
        return true;
    }
    while (policy->changed_count > 0) {
        struct idle_group *const group =
            &policy->groups[policy->changed[policy->changed_count - 1]];

        if (node_power_turn_on(policy, group, decision))
            return true;
        group->has_changed = false;
        policy->changed_count--;
    }
    return false;
}

static int64_t node_power_wake_ns(const struct lull_cluster_policy *handle, int64_t now_ns)
{
    const struct lull_node_power *const policy = (const struct lull_node_power *)handle;
    int64_t wake = lull_cluster_decider_wake_ns(handle, now_ns);

    /* An expired timer has been handled, or will be when the policy is next called. */
    if (policy->timers.count > 0 && policy->timers.entries[0].key > now_ns &&
        policy->timers.entries[0].key < wake)
        wake = policy->timers.entries[0].key;
    return wake;
}

/* ---- beginning and end -------------------------------------------------------------------- */

static void node_power_release(struct lull_node_power *policy)
{
    const size_t count = lull_cluster_group_count(policy->cluster);

    for (size_t i = 0; policy->groups != NULL && i < count; i++) {
        lull_heap_fini(&policy->groups[i].off);
        lull_heap_fini(&policy->groups[i].due);
    }
    lull_heap_fini(&policy->timers);
    lull_node_groups_fini(&policy->members);
    free(policy->groups);
    free(policy->changed);
    free(policy->waits);
    free(policy->power);
    free(policy->idle_since_ns);
    free(policy);
}

static void node_power_destroy(struct lull_cluster_policy *handle)
{
    struct lull_node_power *const policy = (struct lull_node_power *)handle;

    policy->inner.calls->destroy(policy->inner.policy);
    node_power_release(policy);
}

static int node_power_make_room(struct lull_node_power *policy)
{
    const struct lull_cluster *cluster = policy->cluster;
    const size_t count = lull_cluster_group_count(cluster);

    policy->groups = calloc(count, sizeof(*policy->groups));
    policy->changed = calloc(count, sizeof(*policy->changed));
    policy->waits =
        calloc(policy->jobs->count > 0 ? policy->jobs->count : 1, sizeof(*policy->waits));
    policy->power = calloc(cluster->node_count, sizeof(*policy->power));
    policy->idle_since_ns = calloc(cluster->node_count, sizeof(*policy->idle_since_ns));
    if (policy->groups == NULL || policy->changed == NULL || policy->waits == NULL ||
        policy->power == NULL || policy->idle_since_ns == NULL ||
        lull_node_groups_init(&policy->members, cluster) < 0)
        return -ENOMEM;
    return 0;
}

static const struct lull_cluster_policy_calls calls = {
    .destroy = node_power_destroy,
    .arrive = node_power_arrive,
    .adopt = lull_cluster_decider_adopt,
    .recall = lull_cluster_decider_recall,
    .end = lull_cluster_decider_end,
    .decide = node_power_decide,
    .begin = node_power_begin,
    .pace = lull_cluster_decider_pace,
    .node = node_power_node_changed,
    .idle = node_power_mark_idle,
    .wake_ns = node_power_wake_ns,
};

int lull_node_power_wrap(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                         struct lull_cluster_decider *decider)
{
    struct lull_node_power *policy = calloc(1, sizeof(*policy));

    if (policy == NULL)
        return -ENOMEM;
    policy->cluster = cluster;
    policy->jobs = jobs;
    policy->inner = *decider;
    if (node_power_make_room(policy) < 0) {
        node_power_release(policy);
        return -ENOMEM;
    }
    for (uint32_t node = 0; node < cluster->node_count; node++) {
        policy->idle_since_ns[node] = LULL_CLUSTER_NEVER;
        set_idle(policy, node, 0);
    }
    *decider = (struct lull_cluster_decider){&calls, (struct lull_cluster_policy *)policy};
    return 0;
}
