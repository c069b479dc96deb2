/*
 * Plans when each waiting job should run and in which operating point: all jobs get reservations in
 * time at once, which are recomputed after every change. A reservation is no promise before the job
 * begins, so a later job may displace one that has not begun.
 *
 * A GPU-second at time t has a posted price that fades from what the jobs that wait are worth to
 * what jobs that are still to come probably will be (fluid_price.h):
 *
 *   price(t) = near exp(-(t - now) / fade) + far (1 - exp(-(t - now) / fade))
 *
 * Jobs are placed one after the other, each in its schedule of highest gain less price, at the
 * earliest start of each operating point; one whose gain no schedule's price leaves anything of
 * stays out. The order is that of gain per GPU-second; `near` is searched for, and after that
 * orders that differ a little at random. Of all plans tried, the one is kept whose gains, less what
 * it takes at `far` prices from jobs to come, are highest.
 *
 * Pure; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_POLICY_RESERVATIONS_H
#define LULL_CLUSTER_CORE_POLICY_RESERVATIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cluster/core/model/job.h"
#include "cluster/core/model/timeline.h"
#include "core/stats/random.h"

#define LULL_RESERVATION_NONE UINT32_MAX

struct lull_reservation {
    uint32_t job;
    uint32_t point; /* LULL_RESERVATION_NONE: left out */
    int64_t start_ns;
    double price_j; /* the price that the schedule would pay; 0 if left out */
};

/* A pool of the cluster at one moment. */
struct lull_reservation_room {
    const struct lull_cluster_job *jobs;
    const struct lull_cluster_type *types;
    uint32_t type_count;
    const uint64_t
        *gpus; /* [type] of the pool; an operating point of a type with less is skipped */
    const struct lull_timeline *free; /* [type], from now_ns on; never falling */
    const double *far_j;              /* [type] J per GPU and second; >= 0 */
    double fade_ns;                   /* > 0 */
    int64_t now_ns;
    double second_j; /* as in lull_cluster_gain_j() */
};

struct lull_reserver; /* opaque: memory for planning */

/* -ENOMEM. */
int lull_reserver_create(uint32_t type_count, struct lull_reserver **reserver_out);
void lull_reserver_destroy(struct lull_reserver *reserver);

/*
 * Chooses operating point and start of each of plan[0..count), whose jobs are set, and puts them
 * into the order of the best plan. Jobs that have to run come before all others. max_steps: how
 * much may be tried, in looks at a reserved step (some nanoseconds each); where it does not suffice
 * for all jobs those that pay least per GPU-second are left out. -ENOMEM.
 */
int lull_reserver_plan(struct lull_reserver *reserver, const struct lull_reservation_room *room,
                       struct lull_random *random, double max_steps, struct lull_reservation *plan,
                       size_t count);

#endif
