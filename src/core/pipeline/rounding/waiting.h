/*
 * Waiting: a device that is blocked between two operations has operating points of its own.
 *
 * A plan's timeline leaves gaps on each device, before its first operation, between two, and after
 * the last. In each the device may wait at a lower clock, at less than its blocking power, if
 * going down and coming back both fit: the clock is raised so early that the next operation finds
 * it settled, so that no operation is ever delayed. What this saves is distinguished from the
 * plan's energy, which counts blocking power (plan.h), so that energies of plans stay comparable.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_WAITING_H
#define LULL_CORE_PIPELINE_ROUNDING_WAITING_H

#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/model/plan.h"

/* An operating point for waiting. While it goes down and comes up, the device still draws its
 * blocking power. */
struct lull_pipeline_waiting_point {
    uint32_t sm_mhz;
    double power_w;  /* >= 0, of all GPUs of the stage */
    int64_t down_ns; /* >= 0, from the command until power_w is reached */
    int64_t up_ns;   /* >= 0, from the command until any clock of the profile holds */
    double switch_j; /* >= 0, what going there and back costs besides */
};

struct lull_pipeline_wait {
    uint32_t device;
    uint32_t
        before_op;  /* the operation that ends the gap, UINT32_MAX where the iteration's end does */
    uint32_t point; /* the index of the waiting point chosen */
    int64_t begin_ns; /* when the lowering is commanded */
    int64_t wake_ns;  /* when the raising is commanded: up_ns before the gap's end */
    int64_t end_ns;   /* the gap's end */
    double saved_j;   /* against blocking power, > 0 */
};

/* A plan and its times. */
struct lull_pipeline_timeline {
    const uint32_t *point; /* of each operation; may be null where dwell_ns is 0 */
    const int64_t *begin_ns;
    const int64_t *end_ns;
    int64_t period_ns; /* when the iteration ends, at least the last end */
    int64_t
        dwell_ns; /* >= 0, the least time between two changes of a device's clock (switching.h) */
};

/*
 * Chooses for every gap of every device the point that saves most, if any saves at all. With a
 * dwell it goes gap by gap as time continues, and takes only points that leave the dwell between
 * all changes of the device's clock, the plan's and those chosen before. waits_out has room for
 * op_count + device_count waits and is written in the order of devices and of time. Returns the
 * number of waits, and in *saved_j_out what they save together. O(operations * points).
 */
size_t lull_pipeline_waiting(const struct lull_pipeline_problem *problem,
                             const struct lull_pipeline_waiting_point *points, size_t point_count,
                             const struct lull_pipeline_timeline *timeline,
                             struct lull_pipeline_wait *waits_out, double *saved_j_out);

#endif
