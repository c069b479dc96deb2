/*
 * Dwell: changing a clock takes time, and a device cannot be changed at will.
 *
 * A device is told its next clock as soon as an operation has ended. Until the clock has settled,
 * the next operation runs at the slower of both clocks (the worst case: a lowered clock is low at
 * once, a raised one only at the end). Two changes on a device are at least the dwell apart. The
 * clock before the first operation is that of the device's last one, in the iteration before; it is
 * told to change when the iteration begins.
 *
 * Fed forward, as a conductor does (core/pipeline/online/conductor.h), raisings are asked for ahead
 * of the operations that need them. Then no operation begins below its clock, and switching takes
 * energy instead of time: a higher clock holds a little before its operation begins, a lower one
 * only a while after, and a lowering that would have to be taken back first is left out. That
 * operations end sooner by it is not counted on. Where devices share a driver (call_ns), a plan
 * asks for no more than it can deliver, and pays for what waits in its queue (queue.h).
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_DWELL_H
#define LULL_CORE_PIPELINE_ROUND_DWELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/plan.h"
#include "core/pipeline/round/round.h"

enum { LULL_PIPELINE_MAX_DRIVERS = 4096 };

struct lull_pipeline_switching {
    int64_t down_ns;  /* >= 0: from the command until a lower clock holds, in the worst case */
    int64_t up_ns;    /* the same for a higher one */
    int64_t dwell_ns; /* >= 0: from one change of a device to the next */
    double switch_j;  /* >= 0: what one change costs (the driver, the time of a host thread) */
    bool is_fed_forward; /* up_ns is how long ahead a raising is asked for */
    int64_t early_ns;    /* >= 0, fed forward: a higher clock holds so long before it is needed */
    int64_t call_ns;     /* >= 0, fed forward: a node's driver is busy for so long with each change,
                          * and serves one after the other (queue.h); 0: all are served at once */
    uint32_t drivers;    /* nodes with as many devices each, in the order of ranks; 0: one */
};

/*
 * When each operation begins and ends in the worst case; returns the makespan. Both outputs:
 * op_count, either may be NULL. -ENOMEM. O(n).
 */
int64_t lull_pipeline_dwell_timeline(const struct lull_pipeline_problem *problem,
                                     const struct lull_pipeline_switching *switching,
                                     const uint32_t *option, int64_t *begin_out, int64_t *end_out);

/*
 * What switching costs in energy, J: what operations need more because the clock is still, or
 * already, higher than the plan says, the drivers' queues included; 0 unless it is fed forward. One
 * iteration follows the other. Changes themselves (switch_j) are not counted. NAN: no memory. O(n).
 */
double lull_pipeline_dwell_energy_j(const struct lull_pipeline_problem *problem,
                                    const struct lull_pipeline_switching *switching,
                                    const uint32_t *option);

struct lull_pipeline_dwell_report {
    size_t switches_before; /* changes of clock in an iteration, all devices */
    size_t switches_after;
    int64_t time_ns; /* worst-case makespan after */
    double lost_j;   /* energy of the operations given up to it, switches not counted */
};

/*
 * Makes a plan respect switching within deadline_ns: neighbouring operations of a device get one
 * clock where that costs less than the changes it saves, or where the dwell demands it; clocks
 * are raised where settling would break the deadline. Other plans are looked at too: one clock for
 * each device, and stretches of one clock, such as a device's warm-up, its steady phase and its
 * cool-down (dwell_stretches.c). Errors: -ERANGE the deadline cannot be kept by a plan that this
 * finds (the text in err says by how much); -ENOMEM. On failure the plan is left alone. One to four
 * seconds for 192 operations, up to nine for 2048.
 */
int lull_pipeline_dwell(const struct lull_pipeline_problem *problem,
                        const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                        uint32_t *option_inout, struct lull_pipeline_dwell_report *report_out,
                        struct lull_error *err);

/* The same with less effort, for each point of a frontier: most of what there is to save. */
int lull_pipeline_dwell_quick(const struct lull_pipeline_problem *problem,
                              const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                              uint32_t *option_inout, struct lull_pipeline_dwell_report *report_out,
                              struct lull_error *err);

/*
 * The same from where the plan came from: also looks at plans for somewhat shorter deadlines, which
 * leave clocks time to settle. option_inout: the plan to compare with; the frontier is left
 * standing somewhere near. A second or two for 512 operations. Errors: those, and
 * lull_frontier_seek's.
 */
int lull_pipeline_dwell_replan(const struct lull_pipeline_problem *problem,
                               struct lull_pipeline_rounding *rounding,
                               struct lull_frontier *frontier,
                               const struct lull_pipeline_switching *switching, int64_t deadline_ns,
                               uint32_t *option_inout,
                               struct lull_pipeline_dwell_report *report_out,
                               struct lull_error *err);

#endif
