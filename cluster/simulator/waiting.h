/*
 * Explains why a job waited, by replaying the record of the run from its arrival to its start. Only
 * the GPUs that jobs held, and the order in which jobs were started, are looked at; the policy is
 * not called, so that the explanation works for every policy.
 *
 * One thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SIMULATOR_WAITING_H
#define LULL_CLUSTER_SIMULATOR_WAITING_H

#include <stdint.h>

#include "cluster/simulator/engine.h"

/* Why a job waits at an instant: the first of these that is true. */
enum lull_cluster_cause {
    LULL_CLUSTER_SHORT,     /* fewer GPUs were free, on nodes that are on, than any operating point
                               needs */
    LULL_CLUSTER_SCATTERED, /* enough, but on too many nodes for a gang (placement.h) */
    LULL_CLUSTER_BEHIND, /* it would have fitted, but another waiting job was started before it */
    LULL_CLUSTER_HELD,   /* it would have fitted and was the next, and yet it was not started */
    LULL_CLUSTER_CAUSES,
};

enum { LULL_CLUSTER_WAIT_NAMES = 4 };

/* A list of jobs, of which the first few are named. */
struct lull_cluster_names {
    uint64_t count;
    uint64_t gpus;                           /* of all of them */
    uint32_t first[LULL_CLUSTER_WAIT_NAMES]; /* the first min(count, LULL_CLUSTER_WAIT_NAMES) */
};

/* The free GPUs for one operating point, in the job's pool. */
struct lull_cluster_room {
    uint64_t gpus; /* all GPUs of its type */
    uint64_t free;
    uint32_t nodes;     /* of its type */
    uint32_t not_on;    /* off, turning on or down */
    uint32_t with_free; /* nodes that had one or more free */
    uint32_t most_free; /* on one node */
    uint32_t with_room; /* nodes that had as many free as the job took on its first node */
};

struct lull_cluster_wait {
    uint32_t point;                         /* the one that it ran in, else its first */
    int64_t end_ns;                         /* its first start; else the end of the last job */
    int64_t lasted_ns[LULL_CLUSTER_CAUSES]; /* their sum is the wait */
    struct lull_cluster_room on_arrival;    /* before anything was started at that instant */
    struct lull_cluster_room at_end;        /* likewise, when it was started itself */
    struct lull_cluster_names running;      /* on arrival, in its pool */
    struct lull_cluster_names ahead;        /* waited on arrival and started before it, in order */
    struct lull_cluster_names overtaking;   /* arrived later and started before it, in order */
    struct lull_cluster_names freed;        /* freed GPUs of its first place when it started */
    uint32_t behind; /* the job that delayed it for the longest time; UINT32_MAX: none */
    int64_t behind_ns;
    bool is_consolidated; /* placed as placement.h does */
};

/*
 * Explains the wait of a job that was not rejected. O(n log n) in the stretches of its pool, plus,
 * for every instant at which another job had priority, the jobs that arrived later and started
 * earlier. -ENOMEM.
 */
int lull_cluster_wait_explain(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              const struct lull_cluster_run *run, uint32_t job,
                              struct lull_cluster_wait *wait_out);

#endif
