/* Nodes that are turned on and off, fail and work again. SPDX-License-Identifier: Apache-2.0 */
#include "cluster/simulator/engine_state.h"

#include <errno.h>

static const struct lull_cluster_type *engine_node_type_of(const struct lull_cluster_run *run,
                                                           uint32_t node)
{
    return &run->cluster->types[run->cluster->nodes[node].type];
}

/* Counts a node in or out of the nodes in a power state. */
static void engine_node_count(struct lull_cluster_run *run, uint32_t node,
                              enum lull_cluster_power power, bool is_more)
{
    struct lull_engine_use *const use = &run->use[run->cluster->nodes[node].type];
    const uint64_t gpus = run->cluster->nodes[node].gpus;

    if (power == LULL_CLUSTER_ON)
        use->on_gpus = is_more ? use->on_gpus + gpus : use->on_gpus - gpus;
    else if (power == LULL_CLUSTER_OFF)
        use->off_nodes = is_more ? use->off_nodes + 1 : use->off_nodes - 1;
    else if (power == LULL_CLUSTER_TURNING_ON)
        use->turning_on_nodes = is_more ? use->turning_on_nodes + 1 : use->turning_on_nodes - 1;
}

/* Changes a node's power state and reports it to the policy. The caller meters the power of its
 * type. */
static int engine_node_change(struct lull_cluster_run *run, uint32_t node,
                              enum lull_cluster_power power, int64_t now_ns)
{
    engine_node_count(run, node, lull_cluster_state_power(run->state, node), false);
    engine_node_count(run, node, power, true);
    lull_cluster_state_set_power(run->state, node, power);
    lull_cluster_decider_node(lull_engine_decider(run), run->state, node, now_ns);
    return lull_cluster_stretches_add_change(&run->stretches, now_ns, node, power);
}

static int set_power(struct lull_cluster_run *run, uint32_t node, enum lull_cluster_power power,
                     int64_t now_ns)
{
    const int rc = engine_node_change(run, node, power, now_ns);

    return rc < 0 ? rc : lull_engine_measure(run, run->cluster->nodes[node].type, now_ns);
}

int lull_engine_turn_on(struct lull_cluster_run *run, uint32_t node, int64_t now_ns)
{
    const struct lull_cluster_type *type;
    int rc;

    if (node >= run->cluster->node_count ||
        lull_cluster_state_power(run->state, node) != LULL_CLUSTER_OFF)
        return -EINVAL;
    type = engine_node_type_of(run, node);
    run->counts.turn_ons++;
    if (type->turn_on_ns == 0) {
        rc = lull_power_meter_spend(run->meter, run->cluster->nodes[node].type, type->turn_on_j,
                                    now_ns);
        return rc < 0 ? rc : set_power(run, node, LULL_CLUSTER_ON, now_ns);
    }
    run->on_ns[node] = now_ns + type->turn_on_ns;
    rc = lull_heap_add(&run->turn_ons, run->on_ns[node], node);
    return rc < 0 ? rc : set_power(run, node, LULL_CLUSTER_TURNING_ON, now_ns);
}

int lull_engine_turn_off(struct lull_cluster_run *run, uint32_t node, int64_t now_ns)
{
    if (node >= run->cluster->node_count || !lull_cluster_state_is_idle(run->state, node))
        return -EINVAL;
    run->counts.turn_offs++;
    return set_power(run, node, LULL_CLUSTER_OFF, now_ns);
}

static int engine_node_fail(struct lull_cluster_run *run,
                            const struct lull_cluster_failure *failure, int64_t now_ns)
{
    const uint32_t node = failure->node;
    int rc;

    run->counts.failures++;
    run->was_off[node] = lull_cluster_state_power(run->state, node) != LULL_CLUSTER_ON;
    rc = lull_heap_add(&run->repairs, failure->to_ns, node);
    if (rc < 0)
        return rc;
    rc = engine_node_change(run, node, LULL_CLUSTER_DOWN, now_ns);
    if (rc < 0)
        return rc;
    return lull_engine_lose_jobs(run, node, now_ns);
}

int lull_engine_change_nodes(struct lull_cluster_run *run, int64_t now_ns)
{
    const struct lull_cluster_conditions *conditions = &run->conditions;
    struct lull_heap_entry event;
    int rc = 0;

    while (rc == 0 && lull_heap_take(&run->repairs, now_ns, &event))
        rc = set_power(run, (uint32_t)event.number,
                       run->was_off[event.number] ? LULL_CLUSTER_OFF : LULL_CLUSTER_ON, now_ns);
    while (rc == 0 && lull_heap_take(&run->turn_ons, now_ns, &event))
        if (lull_cluster_state_power(run->state, (uint32_t)event.number) ==
                LULL_CLUSTER_TURNING_ON &&
            run->on_ns[event.number] == now_ns)
            rc = set_power(run, (uint32_t)event.number, LULL_CLUSTER_ON, now_ns);
    while (rc == 0 && run->next_failure < conditions->failure_count &&
           conditions->failures[run->next_failure].from_ns <= now_ns)
        rc = engine_node_fail(run, &conditions->failures[run->next_failure++], now_ns);
    return rc;
}

static int64_t engine_node_first_ns(const struct lull_heap *heap)
{
    return heap->count > 0 ? heap->entries[0].key : LULL_CLUSTER_NEVER;
}

int64_t lull_engine_next_change_ns(const struct lull_cluster_run *run)
{
    int64_t next_ns = engine_node_first_ns(&run->repairs);

    if (engine_node_first_ns(&run->turn_ons) < next_ns)
        next_ns = engine_node_first_ns(&run->turn_ons);
    if (run->next_failure < run->conditions.failure_count &&
        run->conditions.failures[run->next_failure].from_ns < next_ns)
        next_ns = run->conditions.failures[run->next_failure].from_ns;
    return next_ns;
}
