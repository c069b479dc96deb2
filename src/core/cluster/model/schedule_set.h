/*
 * Jobs of a cluster (job.h) as the policy with a proof sees them (posted_prices.h): sets of
 * schedules in slots, and the numbers of its theorem (docs/competitive.md).
 *
 * Times are rounded up to whole slots, and so is an arrival: what a schedule holds in slots it
 * holds in time. A job gains its value less the energy of its operating point; without a value its
 * set is empty. Types of the problem are [pool * type_count + type].
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_CLUSTER_MODEL_SCHEDULE_SET_H
#define LULL_CORE_CLUSTER_MODEL_SCHEDULE_SET_H

#include "core/cluster/model/job.h"
#include "core/cluster/policy/posted_prices.h"
#include "core/cluster/model/slots.h"

/* Coarse, because the proven ratio grows with the logarithm of a job's length in slots. */
#define LULL_SCHEDULE_SLOT_NS INT64_C(300000000000)

struct lull_schedule_set {
    struct lull_slot_job job; /* of the operating points below; it may be left out at no cost */
    struct lull_slot_point points[LULL_CLUSTER_MOST_POINTS];
    uint32_t numbers[LULL_CLUSTER_MOST_POINTS]; /* of the cluster's job, for each of these operating
                                                   points */
};

/*
 * The schedules that end by the job's deadline. Without a deadline the last start is the first, or
 * slot `known` if that is later. The set refers to itself: not to be copied. O(operating points).
 */
void lull_schedule_set_make(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                            uint32_t known, struct lull_schedule_set *set_out);

/* laws_out [pool * type_count + type]: the ranges of gangs and gains that all of the jobs' sets
 * lie in (lull_bid_widen). O(nodes + jobs * operating points). */
void lull_schedule_set_laws(const struct lull_cluster *cluster,
                            const struct lull_cluster_jobs *jobs, struct lull_price_law *laws_out);

/* What the theorem says of the jobs, and how many of them it does not cover. */
struct lull_schedule_set_theorem {
    double ratio; /* optimum over what the rule gains, at most; may be INFINITY */
    size_t without_value;
    size_t without_deadline; /* of those with a value: later starts than the rule's are not covered
                              */
    size_t of_all_gpus;      /* of those: an operating point would take all GPUs of its type, and is
                                passed over */
};

/* -ENOMEM. */
int lull_schedule_set_theorem(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              struct lull_schedule_set_theorem *theorem_out);

#endif
