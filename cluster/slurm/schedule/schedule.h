/*
 * A policy of cluster/core in front of a real queue: what starts now, where and at which clock, and
 * what will start later if jobs take as long as is expected. Rebuilt at each look at the queue: all
 * running jobs are adopted, also those that Lull did not start, so that no state has to be kept.
 *
 * Time is that of the queue, and moves only by lull_schedule_advance(). No I/O, no clock; one
 * thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_SLURM_SCHEDULE_SCHEDULE_H
#define LULL_CLUSTER_SLURM_SCHEDULE_SCHEDULE_H

#include "base/error.h"
#include "cluster/core/power/power_shift.h"
#include "cluster/core/policy/policy.h"
#include "cluster/slurm/schedule/past.h"
#include "cluster/slurm/schedule/queue.h"
#include "cluster/trace/point_table.h"

struct lull_scheduling_rules {
    const struct lull_cluster_policy_ops *policy;
    const struct lull_point_table *table; /* NULL: no job has known operating points */
    double cap_w;                         /* of all GPUs; 0: none */
    /* Cost or emissions of power, in time since 1970; NULL: jobs begin as soon as they can. */
    const struct lull_tariff *tariff;
    const struct lull_past *past; /* earlier placements; NULL: none */
};

struct lull_schedule; /* opaque */

struct lull_schedule_decision {
    uint32_t job;     /* of the queue */
    bool is_rejected; /* it cannot run under the rules; else it starts */
    const struct lull_cluster_point *point;
    const char *type;                        /* of GPU */
    uint32_t point_number;                   /* among lull_schedule_points() */
    double slowdown_ratio;                   /* to its fastest point on this type of GPU, >= 1 */
    const struct lull_cluster_share *shares; /* by the queue's nodes; until the next call */
    size_t share_count;
    const char *reason; /* the policy's, static; NULL: it gives none */
};

/* Borrows the queue and what the rules refer to. Errors: -EINVAL the rules do not match the
 * queue, such as a cap without the watts of its GPUs; -ENOMEM. */
int lull_schedule_create(const struct lull_queue *queue, const struct lull_scheduling_rules *rules,
                         struct lull_schedule **schedule_out, struct lull_error *err);
void lull_schedule_destroy(struct lull_schedule *schedule);

/*
 * Makes the next decision at this time, and assumes that it is executed. Returns 1; 0: there is
 * none. Errors: -EINVAL the policy's decision cannot be executed by a batch system.
 */
int lull_schedule_next(struct lull_schedule *schedule, struct lull_schedule_decision *decision_out,
                       struct lull_error *err);

/* Advances to the next time at which a job is expected to end, or at which the policy requests
 * to be called; false: never. */
bool lull_schedule_advance(struct lull_schedule *schedule);

/* The time now, seconds since 1970. */
double lull_schedule_now_s(const struct lull_schedule *schedule);

/* Why Lull does not place a waiting job, in its user's words; NULL: it does, or it does not wait.
 */
const char *lull_schedule_obstacle(const struct lull_schedule *schedule, uint32_t job);

/* The cheaper time until which a waiting job is delayed, since 1970: its deadline permits the wait,
 * and the saving is large enough (lull-schedule(1)). NULL: it is not kept. */
const struct lull_power_shift *lull_schedule_shift(const struct lull_schedule *schedule,
                                                   uint32_t job);

/* The operating points that a job could run in; count 0: Lull does not place it. */
const struct lull_cluster_point *lull_schedule_points(const struct lull_schedule *schedule,
                                                      uint32_t job, uint32_t *count_out);

/* Returns whether the energy of a job's points is known;
 * returns whether its time is known, not only the user's limit. */
bool lull_schedule_knows_energy(const struct lull_schedule *schedule, uint32_t job);
bool lull_schedule_knows_time(const struct lull_schedule *schedule, uint32_t job);

/* The number of free GPUs of a type on usable nodes; the type's name. */
uint64_t lull_schedule_free(const struct lull_schedule *schedule, uint32_t type);
const char *lull_schedule_type(const struct lull_schedule *schedule, uint32_t type);
uint32_t lull_schedule_type_count(const struct lull_schedule *schedule);

#endif
