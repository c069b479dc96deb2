/*
 * Switching: changing a clock takes time, and a device's changes are limited in rate.
 *
 * A device's next clock is commanded as soon as an operation has ended. Until the clock has
 * settled, the next operation runs at the slower of both clocks (the worst case: a lowered clock is
 * low at once, a raised one only at the end). Two changes on a device are at least the *dwell*
 * apart. Before the first operation the device has the clock of its last operation in the iteration
 * before. The change is commanded when the iteration begins.
 *
 * Fed forward, as a plan controller does it (core/pipeline/follow/plan_controller.h), raisings are
 * requested ahead of the operations that need them. Then no operation begins below its clock, and
 * switching costs energy instead of time: a higher clock holds a little before its operation
 * begins, a lower one only a while after, and a lowering that a raising would have to take back
 * before it holds is left out. Operations that run at a higher clock end sooner, but no plan counts
 * on it. If devices share a driver (call_ns), a plan requests no more than the driver can serve,
 * and pays for what waits in its queue (driver_calls.h).
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_SWITCHING_SWITCHING_H
#define LULL_CORE_PIPELINE_SWITCHING_SWITCHING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/model/plan.h"

enum { LULL_PIPELINE_MAX_DRIVERS = 4096 };

struct lull_pipeline_switching {
    int64_t down_ns;     /* >= 0: from the command until a lower clock holds, in the worst case */
    int64_t up_ns;       /* >= 0: the same for a higher clock */
    int64_t dwell_ns;    /* >= 0: the least time from one change of a device to the next */
    double switch_j;     /* >= 0: what one change costs (the driver, the time of a host thread) */
    bool is_fed_forward; /* a raising is requested up_ns ahead */
    int64_t early_ns;    /* >= 0, fed forward: a higher clock holds this long before it is needed */
    int64_t call_ns;  /* >= 0, fed forward: a node's driver is busy this long with each change, and
                       * serves one after the other (driver_calls.h); 0: it serves all at once */
    uint32_t drivers; /* nodes with equally many devices each, in the order of ranks; 0: one */
};

/* A plan under switching, and its times. */
struct lull_pipeline_timed_plan {
    const struct lull_pipeline_problem *problem;
    const struct lull_pipeline_switching *switching;
    const uint32_t *point;
    const int64_t *end_ns; /* when each operation ends */
    int64_t period_ns;     /* length of the iteration; another one like it follows */
};

/*
 * Finds when each operation begins and ends in the worst case, and returns the makespan. Both
 * outputs have op_count places, and either may be null. Error: -ENOMEM. O(n).
 */
int64_t lull_pipeline_switching_timeline(const struct lull_pipeline_problem *problem,
                                         const struct lull_pipeline_switching *switching,
                                         const uint32_t *point, int64_t *begin_out,
                                         int64_t *end_out);

/*
 * The energy that switching costs, J: the additional energy of operations whose clock is still, or
 * already, higher than planned, drivers' queues included. It is 0 unless switching is fed
 * forward. One iteration follows the other. The changes themselves (switch_j) are not counted. It
 * returns NAN if memory runs out. O(n).
 */
double lull_pipeline_switching_energy_j(const struct lull_pipeline_problem *problem,
                                        const struct lull_pipeline_switching *switching,
                                        const uint32_t *point);

struct lull_pipeline_switching_report {
    size_t switches_before; /* changes of clocks in an iteration, of all devices */
    size_t switches_after;
    int64_t time_ns; /* the changed plan's makespan in the worst case */
    double lost_j;   /* additional energy of the operations, switches not counted */
};

/*
 * Makes a plan respect switching within deadline_ns: neighbouring operations of a device get one
 * clock where that costs less than the changes it saves, or where the dwell demands it; clocks are
 * raised where settling would break the deadline. It also considers stretches of one clock, such as
 * a device's warm-up, its steady phase and its cool-down (switching_stretches.c). If devices share
 * a driver, changes that it could not serve in time are left out (driver_calls.h). Errors: -ERANGE
 * no plan that it finds keeps the deadline (the text in err says by how much); -ENOMEM. On failure
 * the plan is left unchanged. It takes one to four seconds for 192 operations, up to nine for 2048.
 * With is_quick it does an eighth of that work, as for each point of a frontier, and finds most of
 * what there is to save.
 */
int lull_pipeline_switching(const struct lull_pipeline_problem *problem,
                            const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                            bool is_quick, uint32_t *point_inout,
                            struct lull_pipeline_switching_report *report_out,
                            struct lull_error *err);

#endif
