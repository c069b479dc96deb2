/*
 * A batch system's queue at one moment: nodes, running jobs and waiting jobs. It depends on no
 * library of a batch system, so that tests can write queues by hand.
 *
 * Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_QUEUE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/cluster.h"

struct lull_queue_node {
    const char *name;
    const char *type; /* of its GPUs; "": no type is configured */
    uint32_t gpus;    /* 0: it has none, or Lull does not place jobs there */
    uint32_t used;    /* GPUs allocated to jobs, as counted by the batch system */
    bool is_usable;   /* jobs can begin there now */
};

enum lull_queue_stage {
    LULL_QUEUE_WAITS,    /* held until Lull releases it */
    LULL_QUEUE_RELEASED, /* has nodes assigned by Lull and has not begun */
    LULL_QUEUE_RUNS,     /* has GPUs, started by Lull or otherwise */
};

/* A job with GPUs. Texts are "" where there is none. Times are seconds since 1970. */
struct lull_queue_job {
    uint32_t id;
    uint32_t user;
    enum lull_queue_stage stage;
    bool is_of_lull;  /* it is to be scheduled by Lull */
    const char *name; /* by which its operating points are known */
    const char *type; /* the type of GPU that it requires; "": any */
    uint32_t gpus;    /* in all */
    uint32_t nodes;   /* that share the GPUs evenly; 0: any number of nodes, in any shares */
    int64_t submit_s;
    int64_t begin_s;    /* begin of a running job; time of release of a released one */
    int64_t limit_s;    /* 0: none */
    int64_t deadline_s; /* 0: none */
    uint32_t sm_mhz;    /* of a job that runs or was released; 0: full clocks */
    uint32_t tries;     /* number of times that it was released and held again */
    bool takes_clocks;  /* a clock can be set for it */
    /* Of a job that waits: why Lull cannot place it, in its user's words; NULL: it can. */
    const char *obstacle;
    const char *delay;                       /* why it is not to begin yet; NULL: it may */
    const struct lull_cluster_share *shares; /* by the queue's nodes; of one that does not wait */
    uint32_t share_count;
};

struct lull_queue {
    int64_t now_s;
    const struct lull_queue_node *nodes;
    uint32_t node_count;
    const struct lull_queue_job *jobs; /* in the order of their submission */
    uint32_t job_count;
};

#endif
