/*
 * Private to ranked*.c: queues by shape, running jobs by rank. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_POLICY_RANKED_STATE_H
#define LULL_CORE_CLUSTER_POLICY_RANKED_STATE_H

#include "core/cluster/heap.h"
#include "core/cluster/policy/ranked.h"
#include "core/cluster/policy/scratch.h"

/* Jobs of a group that want so many GPUs. Numbers are job << 32 | stamp, those of running jobs
   inverted, so that of equals the highest stops first; those of old stamps are stale. */
struct lull_ranked_shape {
    uint32_t gpus;
    struct lull_heap waiting; /* by rank */
    struct lull_heap running; /* preemptible, what ranks last first */
    /* Its first did not fit, and nothing has been freed since: 1, with the GPUs that it wants; 2,
       with any number. */
    uint32_t tries;
};

/* A pool's GPUs of a type. */
struct lull_ranked_group {
    struct lull_ranked_shape *shapes; /* by GPUs */
    uint32_t shape_count;
    struct lull_cluster_roster running;
    double level;         /* when clocks were last chosen */
    uint32_t cursor;      /* of running jobs whose clocks are being chosen; running.count: none */
    uint64_t barren_gpus; /* that were free when no running job was worth more of them */
};

/* What is to be done one by one: jobs that stop, then one that starts. */
struct lull_ranked_plan {
    uint32_t *stops;
    uint32_t stop_count;
    uint32_t next_stop;
    bool has_start;
    uint32_t job;
    uint32_t mode;
    struct lull_cluster_share *shares;
    size_t share_count;
};

struct lull_cluster_policy {
    const struct lull_cluster *cluster;
    const struct lull_cluster_ranking *ranking;
    void *more;
    struct lull_cluster_book book;
    uint32_t *types; /* by job: the one that it may use; UINT32_MAX: any */
    size_t type_room;
    struct lull_ranked_group *groups; /* [pool * types + type] */
    struct lull_cluster_crowd *crowds;
    struct lull_cluster_scratch scratch;
    struct lull_ranked_plan plan;
    struct lull_heap urgent; /* waiting jobs, by when they have to start for their deadlines */
    bool *is_dirty;          /* by pool: something may fit */
    uint32_t *dirty;         /* pools, the last first */
    uint32_t dirty_count;
    struct lull_heap_entry *popped; /* room for all that can run in a group */
    uint32_t popped_room;
};

/* Where a job's GPUs of a type are: [pool * types + type]. */
static inline size_t lull_ranked_group_of(const struct lull_cluster_policy *policy, uint32_t job,
                                          uint32_t type)
{
    return (size_t)policy->book.jobs->all[job].pool * policy->cluster->type_count + type;
}

/* What is left of a running job is to run in its mode (is_on), or after all not. */
void lull_ranked_book(struct lull_cluster_policy *policy, uint32_t job, bool is_on);

/* ---- ranked_queue.c ------------------------------------------------------------------------ */

/* A running job may be preempted, if it is that kind of job. */
void lull_ranked_offer(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

/* GPUs of the pool came free. */
void lull_ranked_unblock(struct lull_cluster_policy *policy, uint32_t pool);

/* A running job runs no longer. */
void lull_ranked_forget(struct lull_cluster_policy *policy, uint32_t job);

/* Counts the job in or out of the crowds that it may use: of those that wait (1, -1), and so much
   weight of those that are not done. */
void lull_ranked_count(struct lull_cluster_policy *policy, uint32_t job, int waiting,
                       double weight);

/* In the queues of its shapes. -ENOMEM. */
int lull_ranked_enqueue(struct lull_cluster_policy *policy, uint32_t job, int64_t now_ns);

/* Waiting jobs that have to start now for their deadlines, and can meet them yet, are urgent from
   now on. */
void lull_ranked_mark_urgent(struct lull_cluster_policy *policy, int64_t now_ns);

/* ---- ranked_modes.c ------------------------------------------------------------------------ */

/* Whether clocks are to be chosen anew in a group; if so, they are taken to be. */
bool lull_ranked_has_new_level(struct lull_cluster_policy *policy, size_t group);

/* The next running job from the group's cursor on whose clock is to change. */
bool lull_ranked_reclock(struct lull_cluster_policy *policy, size_t group, int64_t now_ns,
                         struct lull_cluster_decision *decision);

/* The mode that stands for a job's shape in a type; mode_count: it has none there. */
uint32_t lull_ranked_entry_mode(const struct lull_cluster_policy *policy, uint32_t job,
                                uint32_t type);

/* The mode of least cost of the type, whatever is free, where running jobs are resized; else the
   entry mode itself. */
uint32_t lull_ranked_wanted(const struct lull_cluster_policy *policy, uint32_t job,
                            uint32_t entry_mode, int64_t now_ns);

/* Where a job stands in one of its modes; running: in the one that it has. */
int64_t lull_ranked_rank(const struct lull_cluster_policy *policy, uint32_t job, uint32_t mode,
                         int64_t now_ns);

/* The mode of least cost, of `like`'s type, with `gpus` GPUs; 0: any number up to `most`. Without a
   cost `like` itself. */
uint32_t lull_ranked_cheapest(const struct lull_cluster_policy *policy, uint32_t job, uint32_t like,
                              uint32_t gpus, uint64_t most, int64_t now_ns);

/* The mode of least cost that could be placed, and its shares: of those with as many GPUs as the
   entry mode, or, if it is elastic, with fewer or more. False: none. */
bool lull_ranked_choose(const struct lull_cluster_policy *policy,
                        const struct lull_cluster_state *state, uint32_t job, uint32_t entry_mode,
                        bool is_elastic, int64_t now_ns, uint32_t *mode_out,
                        struct lull_cluster_share *shares_out, size_t *share_count_out);

/* ranked_preempt.c: makes a plan for a job that does not fit; false: what ranks behind it has not
   enough GPUs, or it is not preemptible. */
bool lull_ranked_make_room(struct lull_cluster_policy *policy,
                           const struct lull_cluster_state *state, uint32_t job,
                           uint32_t entry_mode, int64_t now_ns);

/* ---- ranked_resize.c ----------------------------------------------------------------------- */

/* A plan: a running job that is worth free GPUs stops to begin again on more. False: none is.
   `shares`: room for node_count to work in. */
bool lull_ranked_grow(struct lull_cluster_policy *policy, const struct lull_cluster_state *state,
                      uint32_t pool, uint32_t type, int64_t now_ns,
                      struct lull_cluster_share *shares);

#endif
