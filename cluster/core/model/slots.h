/*
 * Scheduling in time slots with everything known in advance: each job gets an operating point and a
 * first slot, at the least cost. Offline bounds are computed on such problems (dual_bound.h).
 *
 * A schedule (operating point, start) of a job takes `gpus` GPUs of one type and `power_w` watts in
 * each of the slots [start, start + slots), and costs cost_j + delay_j * (start - first). Each job
 * has one schedule or is rejected; the schedules never exceed the GPUs of a type or the power cap.
 * The sum of costs is minimised.
 *
 * Energy: cost_j is an operating point's energy. Weighted completion: delay_j is the cost of one
 * slot of delay. Welfare (value less energy, no job has to run): cost_j = energy - value, reject_j
 * = 0, and the welfare is -cost. A value that drops at some deadlines: an operating point for each,
 * with its own window and cost.
 *
 * Pure. Threads: any for const objects. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_CORE_MODEL_SLOTS_H
#define LULL_CLUSTER_CORE_MODEL_SLOTS_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
    LULL_SLOTS_MOST = 1 << 20, /* slots */
    LULL_SLOTS_MAX_TYPES = 1 << 16,
    LULL_SLOTS_MOST_GPUS = 1 << 26,
    LULL_SLOTS_MAX_POINTS = 1 << 10, /* of one job */
};

#define LULL_SLOTS_MANDATORY ((double)INFINITY)
#define LULL_SLOTS_UNCAPPED INT64_MAX

/* The highest power cap, W. */
#define LULL_SLOTS_MOST_CAP_W (INT64_C(1) << 50)

/* The largest cost, J. */
#define LULL_SLOTS_MAX_J 1e18

struct lull_slot_point {
    uint32_t type;
    uint32_t gpus;    /* 1 to LULL_SLOTS_MOST_GPUS */
    uint32_t slots;   /* 0: it needs no slot; start + slots <= slots of the problem */
    uint32_t first;   /* earliest start */
    uint32_t last;    /* latest start, >= first */
    uint32_t power_w; /* of all its GPUs, counts against the cap; rounded down it stays a bound */
    double cost_j;    /* of a start at `first`; may be negative */
    double delay_j;   /* additional cost for each later slot; >= 0 */
};

struct lull_slot_job {
    double reject_j; /* cost of leaving it out; LULL_SLOTS_MANDATORY: it has to run */
    uint32_t point_count;
    const struct lull_slot_point *points;
};

struct lull_slot_problem {
    uint32_t slots;       /* 1 to LULL_SLOTS_MOST */
    uint32_t type_count;  /* 1 to LULL_SLOTS_MAX_TYPES */
    const uint32_t *gpus; /* of each type, at most LULL_SLOTS_MOST_GPUS */
    int64_t cap_w;        /* of all jobs together in any slot, 0 to LULL_SLOTS_MOST_CAP_W; or
                             LULL_SLOTS_UNCAPPED */
    size_t job_count;
    const struct lull_slot_job *jobs;
};

/* Checks that all numbers are within their ranges, and that each mandatory job has an operating
 * point. Errors: -EINVAL, with the job's number. */
int lull_slot_problem_check(const struct lull_slot_problem *problem, struct lull_error *err);

/* The schedule that a job was given. */
struct lull_slot_choice {
    uint32_t point; /* LULL_SLOT_REJECTED: none */
    uint32_t start;
};

#define LULL_SLOT_REJECTED UINT32_MAX

#endif
