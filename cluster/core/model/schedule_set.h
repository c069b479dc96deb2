/*
 * Jobs of a cluster (job.h) for the policy with a proven ratio (posted_prices.h): sets of schedules
 * in slots, and the constants of its theorem (cluster/docs/competitive.md).
 *
 * Times are rounded up to whole slots, and so is an arrival: so a schedule that fits in slots fits
 * in time. Its read rate is rounded up to whole MB/s, and counts if the rules have a storage. A job
 * gains its value less the energy of its operating point; without a value its set is empty. Types
 * of the problem are [pool * type_count + type].
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_SCHEDULE_SET_H
#define LULL_CLUSTER_CORE_MODEL_SCHEDULE_SET_H

#include <stdbool.h>

#include "cluster/core/model/job.h"
#include "cluster/core/policy/posted_prices.h"
#include "cluster/core/model/slots.h"

/* The typical slot: coarse, because the proven ratio grows with the logarithm of a job's length in
 * slots. */
#define LULL_SCHEDULE_SLOT_NS INT64_C(300000000000)

/* What is assumed of jobs before the first one comes. Zero-initialised: the typical slot, and the
 * ranges of the jobs themselves, which a policy that is online could not know. */
struct lull_schedule_rules {
    int64_t slot_ns;     /* > 0; 0: LULL_SCHEDULE_SLOT_NS */
    int64_t gang;        /* the most GPUs that a schedule takes of a type; 0: of the jobs */
    double min_j;        /* the least gain per GPU and slot; 0: of the jobs, as max_j */
    double max_j;        /* the most gain per GPU; >= min_j */
    double ratio;        /* to be proven, where that is no less than what can be; 0: the typical */
    double storage_mb_s; /* what jobs can read together, finite, in whole MB/s; 0: all they want */
};

/* rules: NULL: all zeros. */
int64_t lull_schedule_slot_ns(const struct lull_schedule_rules *rules);

/*
 * The ratio that a policy keeps, of the least that can be proven: the rules' or, usually, a quarter
 * more, but 1 to 4. A job that could gain as much in an empty slot counts with its whole gain in
 * the dual, so that at the least ratio jobs are spread over empty slots where they could share one;
 * 1 more pays for that, and what is beyond fills slots with jobs that gain little. (The ratio that
 * prices without a bend had, c = 1, is higher on the traces of cluster/docs/competitive.md.)
 */
double lull_schedule_ratio(const struct lull_schedule_rules *rules, double min_ratio);

/* Why a job has no schedule in a set. */
enum lull_schedule_lack {
    LULL_SCHEDULE_HAS_SOME,
    LULL_SCHEDULE_NO_VALUE,
    LULL_SCHEDULE_NO_GAIN,  /* it costs more energy than it is worth */
    LULL_SCHEDULE_NO_SLOTS, /* none of whole slots ends by the deadline */
    LULL_SCHEDULE_TOO_FAR,  /* they would lie beyond the last slot that there can be */
    LULL_SCHEDULE_LACKS,
};

struct lull_schedule_set {
    struct lull_slot_job job; /* of the operating points below; it may be left out at no cost */
    struct lull_slot_point points[LULL_CLUSTER_MAX_POINTS];
    uint32_t numbers[LULL_CLUSTER_MAX_POINTS]; /* of the cluster's job, for each of these operating
                                                   points */
    enum lull_schedule_lack lack;
    bool is_cut; /* starts are left out that lie beyond the last slot that there can be */
};

/*
 * The schedules that end by the job's deadline. Without a deadline the last start is the first, or
 * slot `known` if that is later. The set refers to itself: not to be copied. O(operating points).
 */
void lull_schedule_set_make(const struct lull_cluster *cluster, const struct lull_cluster_job *job,
                            const struct lull_schedule_rules *rules, uint32_t known,
                            struct lull_schedule_set *set_out);

/* laws_out [pool * type_count + type], and behind them the storage's, fit to the ratio that is
 * kept, which it returns, too: the ranges of gangs and gains of the rules, or else those that all
 * of the jobs' sets lie in (lull_bid_widen), as it always is for what they read. -ENOMEM. O(nodes +
 * jobs * operating points). */
int lull_schedule_set_laws(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                           const struct lull_schedule_rules *rules, struct lull_price_law *laws_out,
                           double *ratio_out);

/* The result of the theorem for the jobs, and how many of them it does not cover. */
struct lull_schedule_set_theorem {
    bool has_schedules; /* one job or more has a schedule in its set; else there is no ratio */
    double ratio;       /* optimum over what the rule gains, at most; may be INFINITY */
    struct lull_price_law law;           /* of the type whose ratio that is */
    struct lull_price_law storage;       /* a gang of 0: nothing reads */
    size_t lacking[LULL_SCHEDULE_LACKS]; /* by lull_schedule_lack */
    size_t cut;                          /* jobs whose sets are cut */
    size_t without_deadline; /* of those with a value: later starts than the rule's are not covered
                              */
    size_t of_all_gpus;      /* an operating point would take all GPUs of its type, or all of the
                                storage: not covered */
    size_t out_of_range;     /* an operating point that gains lies out of the ranges: not covered */
};

/* -ENOMEM. */
int lull_schedule_set_theorem(const struct lull_cluster *cluster,
                              const struct lull_cluster_jobs *jobs,
                              const struct lull_schedule_rules *rules,
                              struct lull_schedule_set_theorem *theorem_out);

#endif
