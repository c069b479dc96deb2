/*
 * Queue: what a plan asks of the drivers of its nodes, which serve one call after the other.
 *
 * Every change of a device's clock is a call. A raising has a latest begin, `up_ns` ahead of its
 * operation; a lowering an earliest one, the end of the operation before. Raisings are served in
 * the order of their latest begins and packed backwards, so that none is late (Jackson 1955; as
 * core/switching/driver_plan.h does in the job); a lowering goes where it delays none of them.
 * One iteration follows the other.
 *
 * A plan can be delivered if every lowering is served before the device's next change is. What it
 * waits until then, and what raisings come earlier, is energy.
 *
 * Pure; init/fini; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUND_QUEUE_H
#define LULL_CORE_PIPELINE_ROUND_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/round/dwell.h"

/* A change of clock; times within the iteration, raisings for its begin may be below 0. */
struct lull_pipeline_call {
    uint32_t op;     /* that wants the clock */
    uint32_t before; /* the device's operation before it */
    uint32_t driver;
    bool is_raising;
    int64_t want_ns;  /* latest begin of a raising, earliest one of a lowering */
    int64_t begin_ns; /* planned; INT64_MAX: never */
    int64_t next_ns;  /* of a lowering: begin of the device's next change */
};

struct lull_pipeline_queue {
    uint32_t stages; /* devices of a copy of the pipeline */
    struct lull_pipeline_call *calls;
    size_t count;
    uint32_t *order; /* of a driver's raisings, or lowerings */
    int64_t *busy_ns;
};

struct lull_pipeline_queue_verdict {
    int64_t short_ns; /* by how much lowerings come too late, all together; 0: can be delivered */
    double more_nj;   /* energy that waiting in the queue costs */
};

/* -ENOMEM; fini in any case. */
int lull_pipeline_queue_init(struct lull_pipeline_queue *queue,
                             const struct lull_pipeline_problem *problem);
void lull_pipeline_queue_fini(struct lull_pipeline_queue *queue);

/*
 * Plans the calls of a plan whose operations end at end_ns, an iteration taking period_ns. Nothing
 * where switching->call_ns is 0 or it is not fed forward. O(n + calls log calls).
 */
struct lull_pipeline_queue_verdict
lull_pipeline_queue_walk(struct lull_pipeline_queue *queue,
                         const struct lull_pipeline_problem *problem,
                         const struct lull_pipeline_switching *switching, const uint32_t *option,
                         const int64_t *end_ns, int64_t period_ns);

/* Whether a plan can be delivered. -ENOMEM. */
int lull_pipeline_queue_is_deliverable(const struct lull_pipeline_problem *problem,
                                       const struct lull_pipeline_switching *switching,
                                       const uint32_t *option, bool *is_out);

/*
 * Makes it one: lowerings that come too late are left out, the latest first, or their operations'
 * clock is raised to the next one's. No operation becomes slower. -ENOMEM; the plan is then left
 * somewhere between.
 */
int lull_pipeline_queue_deliver(const struct lull_pipeline_problem *problem,
                                const struct lull_pipeline_switching *switching,
                                uint32_t *option_inout);

#endif
