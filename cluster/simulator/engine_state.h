/*
 * Private to engine*.c: the state of a run, and the functions that its parts offer each other.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_ENGINE_STATE_H
#define LULL_CLUSTER_SIMULATOR_ENGINE_STATE_H

#include "base/heap.h"
#include "cluster/simulator/engine.h"

enum lull_engine_progress {
    LULL_ENGINE_ABSENT,
    LULL_ENGINE_WAITING,
    LULL_ENGINE_RUNNING,
    LULL_ENGINE_GONE
};

/* State of a job. */
struct lull_engine_life {
    enum lull_engine_progress progress;
    int64_t begun_ns; /* running: when it got its GPUs this time */
    int64_t since_ns; /* running: its energy and its work are counted until here */
    double pace; /* running: its speed since since_ns, as a part of that of its operating point */
    int64_t end_ns;     /* running: when it ends, unless it is preempted or its pace changes */
    int64_t looked_ns;  /* running: its first time in run->ends */
    double left_ratio;  /* the part of its work that is left at since_ns */
    double kept_ratio;  /* the part of its work that was left at its last checkpoint */
    int64_t restart_ns; /* time that it still draws power before it continues with its work */
    size_t stretch;     /* running: the number of its present stretch */
    size_t running;     /* running: its place in run->running */
};

/* GPUs and nodes of a type. */
struct lull_engine_use {
    uint64_t on_gpus; /* of nodes that are on */
    uint64_t busy_gpus;
    uint64_t off_nodes;
    uint64_t turning_on_nodes;
    double jobs_w;
};

struct lull_cluster_run {
    const struct lull_cluster *cluster;
    const struct lull_cluster_jobs *jobs;
    struct lull_cluster_conditions conditions;
    struct lull_cluster_job
        *reported; /* the jobs as reported to the policy; NULL: the actual jobs */
    struct lull_cluster_jobs reported_jobs;
    const char *policy_name;
    struct lull_cluster_decider decider;
    struct lull_cluster_state *state;
    struct lull_power_meter *meter;
    struct lull_cluster_outcome *outcomes;
    struct lull_engine_life *lives;
    struct lull_cluster_stretches stretches;
    struct lull_contention *contention; /* NULL: nothing is shared */
    struct lull_heap ends;              /* jobs; some have been preempted since, or end later */
    struct lull_heap repairs;           /* nodes */
    struct lull_heap turn_ons;
    size_t next_failure;
    uint32_t next_job; /* to arrive */
    size_t unfinished; /* jobs */
    uint32_t *running; /* jobs */
    size_t running_count;
    bool has_stopped;            /* a job has stopped at this instant */
    struct lull_engine_use *use; /* [type] */
    int64_t *on_ns;              /* [node]: for one that turns on, the time when it is on */
    uint8_t *was_off;            /* [node]: for one that is down, whether it was not on before */
    struct lull_cluster_node_counts counts;
    struct lull_cluster_share *scratch;
    double busy_j; /* of jobs, so far */
};

/* The decider as the functions of policy.h take it. */
static inline struct lull_cluster_policy *lull_engine_decider(struct lull_cluster_run *run)
{
    return (struct lull_cluster_policy *)&run->decider;
}

/* All functions below return 0 or -ENOMEM unless documented otherwise. */

/* engine_jobs.c */

/* Reports the current power of jobs and idle GPUs of a type to the meter. */
int lull_engine_measure(struct lull_cluster_run *run, uint32_t type, int64_t now_ns);

/* Execute a decision. Errors: also -EINVAL, it cannot be executed. */
int lull_engine_start(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                      int64_t now_ns);
int lull_engine_preempt(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                        int64_t now_ns);
int lull_engine_reclock(struct lull_cluster_run *run, const struct lull_cluster_decision *decision,
                        int64_t now_ns);

/* Computes the paces of jobs that share links or a storage, and reports changes to the policy. */
int lull_engine_change_paces(struct lull_cluster_run *run, int64_t now_ns);

/* Rejects a job that waits or has just arrived. */
void lull_engine_reject(struct lull_cluster_run *run, uint32_t job, const char *reason,
                        int64_t now_ns);

/* Ends the jobs whose time is over. */
int lull_engine_end_jobs(struct lull_cluster_run *run, int64_t now_ns);

/* Makes the jobs on a node that has just failed wait again, and measures the node's type. */
int lull_engine_lose_jobs(struct lull_cluster_run *run, uint32_t node, int64_t now_ns);

/* engine_nodes.c */

/* Turn a node on and off. Errors: also -EINVAL, the node is not off, or not on and idle. */
int lull_engine_turn_on(struct lull_cluster_run *run, uint32_t node, int64_t now_ns);
int lull_engine_turn_off(struct lull_cluster_run *run, uint32_t node, int64_t now_ns);

/* Changes the nodes that work again, have turned on, or fail now. */
int lull_engine_change_nodes(struct lull_cluster_run *run, int64_t now_ns);

/* Returns the time of the next such change; LULL_CLUSTER_NEVER: there is none. */
int64_t lull_engine_next_change_ns(const struct lull_cluster_run *run);

#endif
