/*
 * EDL with theta readjustment: Wang et al., "Energy-aware task scheduling with deadline constraint
 * in DVFS-enabled heterogeneous clusters" (TPDS 2022, arXiv 2104.00486), section 4, and the rules
 * it is compared with. Tasks take one GPU each and are not interrupted; nodes are off until a task
 * turns one on.
 *
 * The released code has errors; each is a flag here, so that what was published can be had again
 * and what an error was worth can be told.
 *
 * Pure. One thread for each pool. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_REPRODUCE_EDL_EDL_H
#define LULL_REPRODUCE_EDL_EDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "reproduce/edl/dvfs_task.h"
#include "reproduce/edl/gpu_pool.h"

enum lull_edl_order {
    LULL_EDL_EDF, /* earliest deadline first */
    LULL_EDL_LPT, /* longest time first */
};

/* Which of the GPUs of nodes that are on. Only SPT and PACK readjust clocks to a deadline. */
enum lull_edl_place {
    LULL_EDL_SPT, /* the one that is free first, EDL's own rule */
    LULL_EDL_BF,  /* of those that meet the deadline the most loaded */
    LULL_EDL_WF,  /* the least loaded */
    LULL_EDL_FF,  /* the first */
    LULL_EDL_BIN, /* the least loaded at time 0, then the first */
    /* The first; if none fits the one that is free first, readjusted. Not published: SPT asks one
       GPU only, and turns on nodes where others would do. */
    LULL_EDL_PACK,
};

/* Errors of the released code. */
enum lull_edl_error {
    /* On arrival clocks are chosen without a look at the deadline; such a task is late wherever it
       is put, and online it turns on a node of its own. */
    LULL_EDL_ARRIVAL_UNCHECKED = 1 << 0,
    /* Readjustment raises the memory clock never above what is best without a deadline, and where
       no point in time beats the base point's energy it keeps the point that is too slow. */
    LULL_EDL_READJUSTS_TO_NONE = 1 << 1,
    /* BF, WF and BIN at time 0 count from when a GPU fell idle, not from now. */
    LULL_EDL_STARTS_IN_PAST = 1 << 2,
    /* Online and with DVFS, tasks of slot 0 that can be in time get a GPU each, whatever the rule.
     */
    LULL_EDL_DEDICATED_START = 1 << 3,
};

struct lull_edl_config {
    enum lull_edl_order order;
    enum lull_edl_place place;
    unsigned errors; /* enum lull_edl_error */
    bool has_dvfs;   /* off: every task runs at the base point */
    double
        theta_ratio; /* 0..1: a task may be given so much less than its best time; 1: none less */
    /* A task is readjusted only where that costs no more than a node for it would: turn_on_j, and
       idle_w for each other GPU of the node while the task runs. INFINITY: always, as published. */
    double turn_on_j;
    double idle_w;
    uint32_t gpus_per_node; /* > 0 */
    uint32_t node_limit;    /* 0: as many as are wanted, as the published figures were computed */
    struct lull_dvfs_range range;
};

/* EDF, SPT, no errors, DVFS, theta 1, always readjusted, 1 GPU per node, no limit, the assumed
 * range. */
void lull_edl_config_default(struct lull_edl_config *config);

/*
 * A set of errors by name: "published" all, "repaired" only the dedicated start, "repaired-shared"
 * none. -EINVAL: no such name; nothing is written then.
 */
int lull_edl_find_variant(const char *name, unsigned *errors_out);

/* One error by name ("arrival-unchecked", ...); NULL in index order past the last. */
const char *lull_edl_error_name(unsigned index);

struct lull_edl_job {
    const struct lull_dvfs_task *task;
    struct lull_dvfs_point point;
    double start_s;
    double finish_s;
    uint32_t node; /* offline by order of turning on */
    uint32_t gpu;  /* of the node */
};

struct lull_edl_outcome {
    double run_j;
    double idle_s; /* of all GPUs of nodes that are on, in whole slots */
    uint64_t turn_ons;
    uint64_t most_nodes; /* on at a time */
    uint64_t misses;     /* tasks that end over 1e-6 s after their deadline */
};

/* Fills in run_j and misses from the jobs, in their order. */
void lull_edl_add_up(const struct lull_edl_job *jobs, size_t count,
                     struct lull_edl_outcome *outcome);

/* ---- one decision ------------------------------------------------------------------------- */

/* The clocks of a task that is known from now_s on: the least energy, within its deadline. */
struct lull_dvfs_point lull_edl_choose_point(const struct lull_edl_config *config,
                                             const struct lull_dvfs_task *task, double now_s);

/* Puts jobs, whose points are chosen, into the order in which they get GPUs; stable. The jobs lie
   in one array, in the order in which they came. */
void lull_edl_sort(const struct lull_edl_config *config, struct lull_edl_job **jobs, size_t count);

/*
 * The GPU for a job, whose point may be readjusted for it; LULL_GPU_NONE: turn on a node, and take
 * its first GPU whatever the deadline.
 */
int64_t lull_edl_choose_gpu(const struct lull_edl_config *config, const struct lull_gpu_pool *pool,
                            struct lull_edl_job *job, double now_s);

/*
 * The same where all nodes are on and none of their GPUs fits: the one that is free first, with the
 * least energy that still meets the deadline, or else as fast as can be (as it was, where clocks
 * are not readjusted). LULL_GPU_NONE: no GPU at all.
 */
int64_t lull_edl_choose_crowded_gpu(const struct lull_edl_config *config,
                                    const struct lull_gpu_pool *pool, struct lull_edl_job *job,
                                    double now_s);

/* The job follows the tasks that the GPU has; sets its start and finish. */
void lull_edl_give(struct lull_gpu_pool *pool, uint32_t gpu, double now_s,
                   struct lull_edl_job *job);

/* ---- all tasks at once -------------------------------------------------------------------- */

/*
 * Schedules tasks that have all arrived at time 0; jobs_out has room for all, in the tasks' order.
 * Idle time of a GPU: the work of the busiest of its node, less its own. O(n log n) but for BF and
 * WF (gpu_pool.h). Errors: -EINVAL a task that arrives later; -ENOMEM; -E2BIG more GPUs than a pool
 * holds.
 */
int lull_edl_schedule(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err);

#endif
