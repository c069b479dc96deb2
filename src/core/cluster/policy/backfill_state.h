/* Private to backfill*.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CORE_CLUSTER_POLICY_BACKFILL_STATE_H
#define LULL_CORE_CLUSTER_POLICY_BACKFILL_STATE_H

#include "core/cluster/policy/policy.h"
#include "core/cluster/policy/job_ledger.h"
#include "core/cluster/policy/trial_state.h"
#include "core/cluster/policy/waiting.h"

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
    /* Of the nodes with a reservation: GPUs free from its start on, without those reserved and
       those of jobs that run longer; the trial has what of that is free now. */
    uint32_t *later;
    struct lull_trial_state trial;
    struct lull_cluster_share *shares;
    uint32_t *ends; /* a group's running jobs */
    uint32_t end_room;
};

/* The operating point that a job has on a type; point_count: none. */
static inline uint32_t lull_backfill_point_of(const struct lull_backfill *policy, uint32_t job,
                                              uint32_t type)
{
    return lull_cluster_first_point(&policy->ledger.jobs->all[job], type, policy->cluster,
                                    policy->trial.groups.gpus);
}

static inline struct lull_running_set *lull_backfill_running_of(const struct lull_backfill *policy,
                                                                uint32_t pool, uint32_t type)
{
    return &policy->running[(size_t)pool * policy->cluster->type_count + type];
}

/*
 * Gives the first job of a pool, which does not fit, the earliest time and place that the ends of
 * running jobs allow. O(r log r) for r that run.
 */
void lull_backfill_reserve(struct lull_backfill *policy, const struct lull_cluster_state *state,
                           uint32_t pool, uint32_t job);

/* The trial shows of a node what is free now and not reserved later. */
void lull_backfill_show_spare(struct lull_backfill *policy, const struct lull_cluster_state *state,
                              uint32_t node);

#endif
