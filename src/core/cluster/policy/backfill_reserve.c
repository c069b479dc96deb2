/* When the first job of a pool can start at the latest. SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "core/cluster/model/placement.h"
#include "core/cluster/policy/backfill_state.h"

/* Running jobs of a running set by their ends, into policy->ends as places in the running set. */
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
    ends = realloc(policy->ends, 2 * count * sizeof(*ends));
    if (ends == NULL)
        return false;
    policy->ends = ends;
    policy->end_room = 2 * count;
    return true;
}

/*
 * When an operating point would fit if nothing more were started, at most before_ns; its shares are
 * in policy->shares then, and the trial is as the cluster will be. LULL_CLUSTER_NEVER: not
 * before, or there is no memory.
 */
static int64_t find_start(struct lull_backfill *policy, const struct lull_cluster_state *state,
                          uint32_t pool, const struct lull_cluster_point *point, int64_t before_ns,
                          size_t *share_count_out)
{
    const struct lull_running_set *running = lull_backfill_running_of(policy, pool, point->type);

    if (!has_room_for_ends(policy, running->count))
        return LULL_CLUSTER_NEVER;
    for (uint32_t i = 0; i < running->count; i++)
        policy->ends[i] = running->jobs[i];
    if (running->count > 0)
        qsort_r(policy->ends, running->count, sizeof(*policy->ends), by_end, policy);
    lull_trial_state_sync(&policy->trial, state, pool, point->type);
    for (uint32_t i = 0; i < running->count; i++) {
        const uint32_t job = policy->ends[i];
        const int64_t end_ns = lull_job_ledger_end_ns(&policy->ledger, job);

        if (end_ns >= before_ns)
            break;
        lull_trial_state_give(&policy->trial, policy->ledger.records[job].shares,
                              policy->ledger.records[job].share_count);
        if (i + 1 < running->count &&
            lull_job_ledger_end_ns(&policy->ledger, policy->ends[i + 1]) == end_ns)
            continue;
        *share_count_out = lull_cluster_place_consolidated(policy->trial.state, pool, point->type,
                                                           point->gpus, policy->shares);
        if (*share_count_out > 0)
            return end_ns;
    }
    return LULL_CLUSTER_NEVER;
}

void lull_backfill_show_spare(struct lull_backfill *policy, const struct lull_cluster_state *state,
                              uint32_t node)
{
    const uint32_t now = lull_cluster_state_free(state, node);
    const uint32_t want = now < policy->later[node] ? now : policy->later[node];
    const uint32_t have = lull_cluster_state_free(policy->trial.state, node);

    if (have > want)
        lull_cluster_state_take(policy->trial.state,
                                &(struct lull_cluster_share){node, have - want}, 1);
    else if (have < want)
        lull_cluster_state_give(policy->trial.state,
                                &(struct lull_cluster_share){node, want - have}, 1);
}

void lull_backfill_reserve(struct lull_backfill *policy, const struct lull_cluster_state *state,
                           uint32_t pool_number, uint32_t job)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    struct lull_backfill_pool *const pool = &policy->pools[pool_number];
    size_t count = 0;

    pool->reserved = job;
    pool->start_ns = LULL_CLUSTER_NEVER;
    for (uint32_t type = 0; type < policy->cluster->type_count; type++) {
        const uint32_t point = lull_backfill_point_of(policy, job, type);
        const size_t group = (size_t)pool_number * policy->cluster->type_count + type;
        int64_t start_ns;

        if (point == asked->point_count)
            continue;
        start_ns =
            find_start(policy, state, pool_number, &asked->points[point], pool->start_ns, &count);
        if (start_ns == LULL_CLUSTER_NEVER)
            continue;
        pool->start_ns = start_ns;
        pool->type = type;
        lull_cluster_state_take(policy->trial.state, policy->shares, count);
        for (size_t i = policy->trial.groups.first[group];
             i < policy->trial.groups.first[group + 1]; i++)
            policy->later[policy->trial.groups.nodes[i]] =
                lull_cluster_state_free(policy->trial.state, policy->trial.groups.nodes[i]);
    }
}
