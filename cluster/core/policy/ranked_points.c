/*
 * Operating points and ranks of jobs, and changes of the clocks of running jobs.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>
#include <math.h>

#include "cluster/core/model/placement.h"
#include "cluster/core/policy/ranked_state.h"

/* Clocks are chosen again when the level has changed by this factor. */
static const double LEVEL_STEP = 1.05;

int64_t lull_cluster_restart_ns(uint32_t gpus)
{
    if (gpus == 1)
        return INT64_C(7000000000);
    if (gpus <= 8)
        return INT64_C(30000000000);
    return INT64_C(60000000000);
}

uint32_t lull_ranked_entry_point(const struct lull_ranked *policy, uint32_t job, uint32_t type)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    uint32_t best = lull_cluster_first_point(asked, type, policy->cluster,
                                             lull_cluster_state_groups(policy->copy)->gpus);

    for (uint32_t point = best; policy->ranking->is_elastic && point < asked->point_count; point++)
        if (asked->points[point].type == type &&
            asked->points[point].gpus < asked->points[best].gpus)
            best = point;
    return best;
}

uint32_t lull_ranked_wanted(const struct lull_ranked *policy, uint32_t job, uint32_t entry_point,
                            int64_t now_ns)
{
    const uint32_t type = policy->ledger.jobs->all[job].points[entry_point].type;

    if (!policy->ranking->is_resized)
        return entry_point;
    return lull_ranked_cheapest(policy, job, entry_point, 0,
                                policy->queues[lull_ranked_group_of(policy, job, type)].gpus,
                                now_ns);
}

int64_t lull_ranked_rank(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                         int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const bool is_running = policy->ledger.records[job].stage == LULL_CLUSTER_RUNS;
    uint32_t its = point;
    int64_t need_ns;
    double rank;

    if (policy->ranking->is_fixed)
        its = lull_ranked_entry_point(policy, job, asked->points[point].type);
    if (is_running)
        need_ns = lull_job_ledger_end_ns(&policy->ledger, job) - now_ns;
    else
        need_ns = lull_job_ledger_need_ns(&policy->ledger, job, its);
    rank =
        policy->ranking->rank(asked, asked->points[its].gpus, asked->points[its].time_ns, need_ns);
    if (policy->ledger.records[job].is_urgent)
        rank /= policy->ranking->urgency(policy);
    return (int64_t)fmin(rank, 4e18);
}

uint32_t lull_ranked_cheapest(const struct lull_ranked *policy, uint32_t job, uint32_t like,
                              uint32_t gpus, uint64_t most, int64_t now_ns)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_queue_stats *queue =
        &policy->queues[lull_ranked_group_of(policy, job, asked->points[like].type)];
    uint32_t best = asked->point_count;
    double least = INFINITY;

    if (policy->ranking->cost == NULL)
        return like;
    for (uint32_t point = 0; point < asked->point_count; point++) {
        const struct lull_cluster_point *it = &asked->points[point];
        double cost;

        if (it->type != asked->points[like].type || (gpus > 0 ? it->gpus != gpus : it->gpus > most))
            continue;
        cost = policy->ranking->cost(policy, job, point, queue, now_ns);
        if (best == asked->point_count || cost < least) {
            best = point;
            least = cost;
        }
    }
    return best;
}

bool lull_ranked_choose(const struct lull_ranked *policy, const struct lull_cluster_state *state,
                        uint32_t job, uint32_t entry_point, bool is_elastic, int64_t now_ns,
                        struct lull_ranked_choice *choice)
{
    const struct lull_cluster_job *asked = &policy->ledger.jobs->all[job];
    const struct lull_cluster_point *entry = &asked->points[entry_point];
    uint64_t most = lull_cluster_state_free_of(state, asked->pool, entry->type);

    while (most >= entry->gpus) {
        const uint32_t point = lull_ranked_cheapest(policy, job, entry_point,
                                                    is_elastic ? 0 : entry->gpus, most, now_ns);
        const size_t shares = lull_cluster_place_consolidated(
            state, asked->pool, entry->type, asked->points[point].gpus, choice->shares);

        if (shares > 0) {
            choice->point = point;
            choice->share_count = shares;
            return true;
        }
        most = asked->points[point].gpus - 1;
    }
    return false;
}

bool lull_ranked_has_new_level(struct lull_ranked *policy, size_t group)
{
    const double level = policy->ranking->level(policy, &policy->queues[group]);
    double *const old = &policy->groups[group].level;

    if (level <= *old * LEVEL_STEP && *old <= level * LEVEL_STEP)
        return false;
    *old = level;
    policy->groups[group].barren_gpus = 0;
    return true;
}

bool lull_ranked_next_clock(struct lull_ranked *policy, size_t at, int64_t now_ns,
                            uint32_t *job_out, uint32_t *point_out)
{
    struct lull_ranked_group *const group = &policy->groups[at];

    assert(group->cursor <= group->running.count);
    while (group->cursor < group->running.count) {
        const uint32_t job = group->running.jobs[group->cursor++];
        const uint32_t old = policy->ledger.records[job].point;
        const uint32_t point = lull_ranked_cheapest(
            policy, job, old, policy->ledger.jobs->all[job].points[old].gpus, 0, now_ns);

        /* A decision at this same time may not have been executed (power_cap.h). */
        if (point == old || policy->ledger.records[job].since_ns == now_ns)
            continue;
        *job_out = job;
        *point_out = point;
        return true;
    }
    return false;
}
