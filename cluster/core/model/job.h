/*
 * A job for schedulers: its arrival, its value, and its possible operating points. To a scheduler,
 * an operating point is a type of GPU, a number of GPUs and their clock, with the time and the
 * energy that the job takes there. Where those come from, curves of a GPU's power or plans of the
 * pipeline planner, does not matter here.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_JOB_H
#define LULL_CLUSTER_CORE_MODEL_JOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cluster/core/model/cluster.h"

enum {
    LULL_CLUSTER_MAX_POINTS = 16,
    /* Of a job in a bound (operating_points.h): three for each combination of four types of GPU and
       nine numbers of GPUs, or more of each if there are fewer combinations. */
    LULL_CLUSTER_RELAXED_POINTS = 144,
};

/* The latest time in a trace: about 30 years, so that no sum of a whole trace overflows. */
#define LULL_CLUSTER_MAX_NS INT64_C(1000000000000000000)
#define LULL_CLUSTER_NEVER INT64_MAX

struct lull_cluster_point {
    uint32_t type;   /* of GPU */
    uint32_t gpus;   /* > 0, all at once (a gang) */
    uint32_t sm_mhz; /* 0: the default clock, or those of a plan (job_pipeline.h) */
    /* The share of its time in which the job does nothing but communicate with other nodes, 0 to
     * 1; its load on a network that jobs share (contention.h). */
    float exposed_ratio;
    int64_t time_ns; /* > 0, from start to end without a pause */
    double energy_j; /* >= 0, of all its GPUs */
    float waiting_w; /* of all its GPUs while they wait for other jobs; >= 0, at most the mean */
    float read_mb_s; /* read rate from the shared storage; >= 0 */
};

struct lull_cluster_job {
    int64_t arrival_ns;  /* 0 to LULL_CLUSTER_MAX_NS */
    int64_t deadline_ns; /* on the same clock; LULL_CLUSTER_NEVER: none */
    double weight;       /* > 0: factor of a second of its completion time; default 1 */
    double value_j;      /* the energy that its completion by the deadline is worth; 0:
                            unknown, and the job has to run */
    uint32_t pool;
    uint32_t memory_mib; /* of each GPU; 0: not known */
    bool is_preemptible;
    int64_t checkpoint_ns; /* it saves its progress each time it has run this long; 0: never */
    uint32_t point_count;  /* 1 to LULL_CLUSTER_MAX_POINTS; in a bound, to _RELAXED_POINTS */
    const struct lull_cluster_point *points;
};

/* Jobs by number, in the order of their arrival. The arrays may grow while a cluster runs. */
struct lull_cluster_jobs {
    const struct lull_cluster_job *all;
    size_t count;
};

/*
 * Returns the gain of a job by a schedule, J: its value (0 if it has to run) less the energy of the
 * operating point and less second_j for each second from its arrival to its end, times its weight.
 * -INFINITY if a job that need not run would end after its deadline. second_j >= 0.
 */
double lull_cluster_gain_j(const struct lull_cluster_job *job, uint32_t point, int64_t start_ns,
                           double second_j);

/* The longest time of all operating points of the jobs; 0: there are no jobs. */
int64_t lull_cluster_longest_ns(const struct lull_cluster_jobs *jobs);

/* Returns whether a GPU of the type has the memory that the job needs, as far as both are known. */
bool lull_cluster_has_memory(const struct lull_cluster_job *job,
                             const struct lull_cluster_type *type);

/*
 * Returns whether an operating point of the job fits into the empty cluster: enough GPUs of its
 * type in the job's pool, and their memory. O(1) per operating point: gpus_of holds the GPUs of
 * [pool * type_count + type].
 */
bool lull_cluster_point_is_possible(const struct lull_cluster_job *job, uint32_t point,
                                    const struct lull_cluster *cluster, const uint64_t *gpus_of);

/* The first operating point of a type that is possible; point_count: none. O(operating points). */
uint32_t lull_cluster_first_point(const struct lull_cluster_job *job, uint32_t type,
                                  const struct lull_cluster *cluster, const uint64_t *gpus_of);

#endif
