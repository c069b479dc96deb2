/*
 * Waiting: a device that is blocked between two operations has operating points of its own.
 *
 * A plan's timeline leaves gaps on each device, before its first operation, between two, and after
 * the last. In each the device may wait at a lower clock, at less than its blocking power, if
 * going down and coming back both fit: the clock is raised so early that the next operation finds
 * it settled, so that no operation is ever delayed. What this saves is told apart from the plan's
 * energy, which counts blocking power (plan.h), so that energies of plans stay comparable.
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_WAITING_H
#define LULL_CORE_PIPELINE_ROUND_WAITING_H

#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/plan.h"

/* A way of waiting. While going down and coming up the device still draws its blocking power. */
struct lull_pipeline_waiting_point {
    uint32_t sm_mhz;
    double power_w;  /* >= 0, of all GPUs of the stage */
    int64_t down_ns; /* >= 0, from the command until power_w is reached */
    int64_t up_ns;   /* >= 0, from the command until any clock of the profile holds */
    double switch_j; /* >= 0, what going there and back costs beyond */
};

struct lull_pipeline_wait {
    uint32_t device;
    uint32_t before_op; /* the operation that ends the gap; UINT32_MAX: the iteration's end does */
    uint32_t point;     /* index of the waiting point chosen */
    int64_t begin_ns;   /* when the device is told to go down */
    int64_t wake_ns;    /* when it is told to come up: up_ns before the gap's end */
    int64_t end_ns;     /* the gap's end */
    double saved_j;     /* against blocking power, > 0 */
};

/* A plan over time. */
struct lull_pipeline_timeline {
    const uint32_t *option; /* of each operation; NULL: only where dwell_ns is 0 */
    const int64_t *begin_ns;
    const int64_t *end_ns;
    int64_t period_ns; /* when the iteration ends, at least the last end */
    int64_t dwell_ns;  /* >= 0: from one change of a device's clock to the next (dwell.h) */
};

/*
 * Chooses for every gap of every device the point that saves most, if any saves at all; with a
 * dwell, gap by gap as time goes on, only points that leave it between all changes of the device's
 * clock, those of the plan and those chosen before. waits_out: room for op_count + device_count;
 * written in the order of devices and of time. Returns their number; *saved_j_out: the sum.
 * O(operations * points).
 */
size_t lull_pipeline_waiting(const struct lull_pipeline_problem *problem,
                             const struct lull_pipeline_waiting_point *points, size_t point_count,
                             const struct lull_pipeline_timeline *timeline,
                             struct lull_pipeline_wait *waits_out, double *saved_j_out);

#endif
