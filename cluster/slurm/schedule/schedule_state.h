/* Private to schedule*.c. SPDX-License-Identifier: Apache-2.0 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_SCHEDULE_STATE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_SCHEDULE_STATE_H

#include "base/heap.h"
#include "cluster/core/model/operating_points.h"
#include "cluster/slurm/schedule/schedule.h"

#define LULL_SCHEDULE_NONE UINT32_MAX

/* A job of the queue. */
struct lull_schedule_job {
    uint32_t number;      /* of the cluster's jobs; LULL_SCHEDULE_NONE: it is none of them */
    const char *obstacle; /* NULL: none */
    bool is_shifted;
    struct lull_power_shift shift;     /* valid if is_shifted */
    bool has_energy;                   /* the energy of its points is known */
    bool has_time;                     /* its time is known, not only its limit */
    uint32_t share_count;              /* running, also if only in virtual time */
    struct lull_cluster_share *shares; /* by the cluster's nodes; its own */
};

struct lull_schedule {
    const struct lull_queue *queue;
    struct lull_scheduling_rules rules;
    int64_t base_s; /* 0 of the policy's time */
    int64_t now_ns;

    struct lull_cluster cluster;
    struct lull_cluster_type *types;
    struct lull_cluster_node *nodes;
    uint32_t *node_of;  /* [cluster's node]: the queue's */
    uint32_t *inner_of; /* [queue's node]: the cluster's, LULL_SCHEDULE_NONE: not there */
    uint32_t *max_gpus; /* [type]: of its largest node, and of its smallest */
    uint32_t *min_gpus;

    struct lull_schedule_job *own; /* [queue's job] */
    struct lull_cluster_job *jobs; /* [number] */
    uint32_t *job_of;   /* [number]: the queue's; LULL_SCHEDULE_NONE: it is of the past */
    uint32_t *recalled; /* [number] of a job of the past: the point that it was given */
    struct lull_cluster_jobs all;
    uint32_t past_next, past_end;      /* jobs of rules.past that are still to be added */
    struct lull_cluster_point *points; /* of all jobs */
    size_t point_count;
    size_t point_room;

    struct lull_cluster_state *state;
    struct lull_cluster_decider decider;
    struct lull_cluster_share *shares;   /* [cluster's node], of a decision */
    struct lull_cluster_share *reported; /* the same, by the queue's nodes */
    struct lull_heap ends;               /* of running jobs, by their numbers */
};

/* Makes the cluster of the queue's nodes, and the jobs with their points. -ENOMEM; -EINVAL. */
int lull_schedule_make_cluster(struct lull_schedule *schedule, struct lull_error *err);
int lull_schedule_make_jobs(struct lull_schedule *schedule, struct lull_error *err);

/* schedule_past.c */

/* Chooses the past jobs that are passed to the policy: none if it does not learn. */
void lull_schedule_bound_past(struct lull_schedule *schedule);

/* Adds those that were submitted no later than this job of the queue; NULL: all that are left. One
 * that waits again is not of the past. */
void lull_schedule_add_past(struct lull_schedule *schedule, const struct lull_queue_job *job);

/* The number of a type of GPU; type_count: there is none. */
uint32_t lull_schedule_find_type(const struct lull_schedule *schedule, const char *name);

#endif
