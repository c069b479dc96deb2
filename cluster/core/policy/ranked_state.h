/*
 * Private to ranked*.c and to the files of single rules, which read it: queues by shape, and
 * running jobs by rank. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_RANKED_STATE_H
#define LULL_CLUSTER_CORE_POLICY_RANKED_STATE_H

#include "base/heap.h"
#include "cluster/core/policy/ranked.h"
#include "cluster/core/model/placement.h"

/* Jobs of a group that request this many GPUs. The numbers in the heaps are job << 32 | stamp,
   inverted for running jobs, so that of equal ones the job with the highest number stops first.
   Entries whose stamp is not the job's any more are stale. */
struct lull_ranked_shape {
    uint32_t gpus;
    struct lull_heap waiting; /* by rank */
    struct lull_heap running; /* preemptible, what ranks last first */
    /* Failed attempts to place its first job since GPUs were last freed: 0,
       none; 1, with the GPUs that it requests; 2, with any number of them. */
    uint32_t tries;
};

/* A pool's GPUs of a type. */
struct lull_ranked_group {
    struct lull_ranked_shape *shapes; /* by GPUs */
    uint32_t shape_count;
    struct lull_running_set running;
    double level;         /* at the last choice of clocks */
    uint32_t cursor;      /* of running jobs whose clocks are being chosen; running.count: none */
    uint64_t barren_gpus; /* number of free GPUs at which no running job was worth resizing */
};

/* A change that takes several decisions, which are requested one by one: jobs stop, then one
 * starts. */
struct lull_ranked_plan {
    uint32_t *stops;
    uint32_t stop_count;
    uint32_t next_stop;
    bool has_start;
    uint32_t job;
    uint32_t point;
    struct lull_cluster_share *shares;
    size_t share_count;
};

struct lull_ranked {
    const struct lull_cluster *cluster;
    const struct lull_cluster_ranking *ranking;
    double setting;
    void *more;
    struct lull_job_ledger ledger;
    uint32_t *types; /* by job: the one that it may use; UINT32_MAX: any */
    size_t type_room;
    struct lull_ranked_group *groups; /* [pool * types + type] */
    struct lull_queue_stats *queues;
    struct lull_cluster_state *copy; /* to try placements on */
    struct lull_ranked_plan plan;
    struct lull_heap urgent; /* waiting jobs, by when they have to start for their deadlines */
    bool *is_dirty;          /* by pool: something may fit */
    uint32_t *dirty;         /* pools, the last first */
    uint32_t dirty_count;
    struct lull_heap_entry *popped; /* room for all that can run in a group */
    uint32_t popped_room;
};

/* The group of a job's pool and a type. */
static inline size_t lull_ranked_group_of(const struct lull_ranked *policy, uint32_t job,
                                          uint32_t type)
{
    return lull_cluster_group(policy->cluster, policy->ledger.jobs->all[job].pool, type);
}

/* ---- ranked_queue.c ------------------------------------------------------------------------ */

/* A running job may be preempted from now on, if it is preemptible. */
void lull_ranked_offer(struct lull_ranked *policy, uint32_t job, int64_t now_ns);

/* Notes that GPUs of the pool were freed: all shapes of the pool are tried again. */
void lull_ranked_unblock(struct lull_ranked *policy, uint32_t pool);

/* Removes a job from the running ones. */
void lull_ranked_forget(struct lull_ranked *policy, uint32_t job);

/* Counts the job in or out of the queues of the types that it may use: `waiting` (1, 0, -1) jobs
   that wait, and `weight` of those that are not done. */
void lull_ranked_count(struct lull_ranked *policy, uint32_t job, int waiting, double weight);

/* Puts the job into the queues of its shapes. -ENOMEM. */
int lull_ranked_enqueue(struct lull_ranked *policy, uint32_t job, int64_t now_ns);

/* Makes those waiting jobs urgent that have to start now for their deadlines and can still meet
   them. */
void lull_ranked_mark_urgent(struct lull_ranked *policy, int64_t now_ns);

/* ---- ranked_points.c ------------------------------------------------------------------------ */

/* Returns whether clocks are to be chosen again in a group; if so, they are taken to be. */
bool lull_ranked_has_new_level(struct lull_ranked *policy, size_t group);

/* The next running job from the group's cursor on whose clock is to change, and its new operating
 * point. */
bool lull_ranked_next_clock(struct lull_ranked *policy, size_t group, int64_t now_ns,
                            uint32_t *job_out, uint32_t *point_out);

/* The operating point that represents a job's shape in a type; point_count: it has none there. */
uint32_t lull_ranked_entry_point(const struct lull_ranked *policy, uint32_t job, uint32_t type);

/* The operating point of least cost of the type, whatever is free, where running jobs are resized;
   else the entry operating point itself. */
uint32_t lull_ranked_wanted(const struct lull_ranked *policy, uint32_t job, uint32_t entry_point,
                            int64_t now_ns);

/* The rank of a job in one of its operating points; running: in the one that it has. */
int64_t lull_ranked_rank(const struct lull_ranked *policy, uint32_t job, uint32_t point,
                         int64_t now_ns);

/* The operating point of least cost, of `like`'s type, with `gpus` GPUs; 0: any number up to
   `most`. Without a cost `like` itself. */
uint32_t lull_ranked_cheapest(const struct lull_ranked *policy, uint32_t job, uint32_t like,
                              uint32_t gpus, uint64_t most, int64_t now_ns);

/* An operating point that can be placed, and its shares. */
struct lull_ranked_choice {
    uint32_t point;
    size_t share_count;
    struct lull_cluster_share *shares; /* the caller's */
};

/* The operating point of least cost that could be placed, and its shares: of those with as many
   GPUs as the entry operating point, or, if it is elastic, with fewer or more. False: none. */
bool lull_ranked_choose(const struct lull_ranked *policy, const struct lull_cluster_state *state,
                        uint32_t job, uint32_t entry_point, bool is_elastic, int64_t now_ns,
                        struct lull_ranked_choice *choice);

/* ranked_preempt.c: makes a plan for a job that does not fit; false: what ranks behind it has not
   enough GPUs, or it is not preemptible. */
bool lull_ranked_make_room(struct lull_ranked *policy, const struct lull_cluster_state *state,
                           uint32_t job, uint32_t entry_point, int64_t now_ns);

/* ---- ranked_resize.c ----------------------------------------------------------------------- */

/* A plan: a running job that is worth free GPUs stops to begin again on more. False: none is.
   `shares`: room for node_count to work in. */
bool lull_ranked_grow(struct lull_ranked *policy, const struct lull_cluster_state *state,
                      uint32_t pool, uint32_t type, int64_t now_ns,
                      struct lull_cluster_share *shares);

#endif
