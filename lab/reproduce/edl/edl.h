/*
 * EDL with theta readjustment: Wang et al., "Energy-aware task scheduling with deadline constraint
 * in DVFS-enabled heterogeneous clusters" (TPDS 2022, arXiv 2104.00486), section 4, and the rules
 * it is compared with. Tasks take one GPU each and are not interrupted; nodes are off until a task
 * turns one on.
 *
 * The released code has errors. Each is a flag here, to reproduce the published results and to
 * measure the effect of each error.
 *
 * Pure. One thread for each pool. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_LAB_REPRODUCE_EDL_EDL_H
#define LULL_LAB_REPRODUCE_EDL_EDL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "lab/reproduce/edl/dvfs_task.h"
#include "lab/reproduce/edl/gpu_pool.h"

enum lull_edl_order {
    LULL_EDL_EDF, /* earliest deadline first */
    LULL_EDL_LPT, /* longest time first */
};

/* Choice of the GPU of a task among the nodes that are on. Only SPT and PACK readjust clocks to a
 * deadline. */
enum lull_edl_place {
    LULL_EDL_SPT, /* the one that is free first, EDL's own rule */
    LULL_EDL_BF,  /* of those that meet the deadline the most loaded */
    LULL_EDL_WF,  /* the least loaded */
    LULL_EDL_FF,  /* the first */
    LULL_EDL_BIN, /* the least loaded at time 0, then the first */
    /* The first; if none fits the one that is free first, readjusted. Not published: SPT examines
       one GPU only, and turns on nodes although other GPUs would fit. */
    LULL_EDL_PACK,
};

/* The errors of the released code. */
enum lull_edl_error {
    /* On arrival clocks are chosen without regard to the deadline; such a
       task is late on any GPU, and online it turns on a separate node. */
    LULL_EDL_ARRIVAL_UNCHECKED = 1 << 0,
    /* Readjustment never raises the memory clock above the best one without a deadline. If no
       point in time has less energy than the base point, it keeps the point that is too slow. */
    LULL_EDL_READJUSTS_TO_NONE = 1 << 1,
    /* BF, WF and BIN at time 0 count from the time at which a GPU became idle, not from now. */
    LULL_EDL_STARTS_IN_PAST = 1 << 2,
    /* Online and with DVFS, tasks of slot 0 that can be in time get a GPU each, whatever the rule.
     */
    LULL_EDL_DEDICATED_START = 1 << 3,
};

struct lull_edl_config {
    enum lull_edl_order order;
    enum lull_edl_place place;
    unsigned errors;    /* enum lull_edl_error */
    bool has_dvfs;      /* off: every task runs at the base point */
    double theta_ratio; /* 0..1: a task gets at least this share of its best time; 1: never less */
    /* A task is readjusted only if that costs no more than another node for it:
       turn_on_j plus, while the task runs, idle_w for each other GPU of the node. With INFINITY it
       is always readjusted, as published. */
    double turn_on_j;
    double idle_w;
    uint32_t gpus_per_node; /* > 0 */
    uint32_t node_limit;    /* 0: no limit, as in the published figures */
    struct lull_dvfs_range range;
};

/* Sets EDF, SPT, no errors, DVFS, theta 1, tasks that are always readjusted, 1 GPU per node, no
 * limit of nodes and the assumed range. */
void lull_edl_config_default(struct lull_edl_config *config);

/*
 * Finds a set of errors by its name: "published" is all, "repaired" only the dedicated start,
 * "repaired-shared" none. -EINVAL: there is no such name, and nothing is written.
 */
int lull_edl_find_variant(const char *name, unsigned *errors_out);

/* The name of the error 1 << index, such as "arrival-unchecked"; NULL past the last one. */
const char *lull_edl_error_name(unsigned index);

struct lull_edl_job {
    const struct lull_dvfs_task *task;
    struct lull_dvfs_point point;
    double start_s;
    double finish_s;
    uint32_t node; /* offline they are numbered in the order in which they are turned on */
    uint32_t gpu;  /* of the node */
};

struct lull_edl_outcome {
    double run_j;
    double idle_s; /* of all GPUs of nodes that are on, in whole slots */
    uint64_t turn_ons;
    uint64_t max_nodes; /* on at a time */
    uint64_t misses;    /* tasks that end over 1e-6 s after their deadline */
};

/* Fills in run_j and misses, adding up over the jobs in their order. */
void lull_edl_add_up(const struct lull_edl_job *jobs, size_t count,
                     struct lull_edl_outcome *outcome);

/* ---- one decision ------------------------------------------------------------------------- */

/* The clocks of a task that is known from now_s on: the least energy, within its deadline. */
struct lull_dvfs_point lull_edl_choose_point(const struct lull_edl_config *config,
                                             const struct lull_dvfs_task *task, double now_s);

/* Puts jobs, whose points are chosen, into the order in which they get GPUs; stable. The jobs lie
 * in one array, in the order of their arrival. */
void lull_edl_sort(const struct lull_edl_config *config, struct lull_edl_job **jobs, size_t count);

/*
 * Chooses the GPU for a job, whose point may be readjusted for it. LULL_GPU_NONE: turn on a node
 * and take its first GPU, whatever the deadline.
 */
int64_t lull_edl_choose_gpu(const struct lull_edl_config *config, const struct lull_gpu_pool *pool,
                            struct lull_edl_job *job, double now_s);

/*
 * Chooses a GPU where all nodes are on and none of their GPUs fits: the one that is free first. The
 * job gets the least energy that still meets the deadline, or else the fastest point; where clocks
 * are not readjusted it keeps its point. LULL_GPU_NONE: there is no GPU at all.
 */
int64_t lull_edl_choose_crowded_gpu(const struct lull_edl_config *config,
                                    const struct lull_gpu_pool *pool, struct lull_edl_job *job,
                                    double now_s);

/* Puts the job behind the tasks that the GPU has already, and sets its start and finish. */
void lull_edl_give(struct lull_gpu_pool *pool, uint32_t gpu, double now_s,
                   struct lull_edl_job *job);

/* ---- all tasks at once -------------------------------------------------------------------- */

/*
 * Schedules tasks that have all arrived at time 0; jobs_out has room for all, in the tasks' order.
 * The idle time of a GPU is the work of the busiest GPU of its node, less its own. O(n log n) but
 * for BF and WF (gpu_pool.h). Errors: -EINVAL a task that arrives later; -ENOMEM; -E2BIG more GPUs
 * than a pool holds.
 */
int lull_edl_schedule(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err);

#endif
