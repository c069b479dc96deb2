/*
 * Driver calls: what a plan asks of the drivers of its nodes, each of which serves one call after
 * the other.
 *
 * Every change of a device's clock is a call. A raising has a latest begin, `up_ns` ahead of its
 * operation; a lowering has an earliest begin, the end of the operation before. Raisings are served
 * in the order of their latest starts and packed backwards, so that none is late (Jackson 1955; as
 * core/switching/driver_queue.h does in the job); a lowering is served where it delays none of
 * them. One iteration follows the other.
 *
 * A plan can be delivered if every lowering is served before the device's next change. A lowering
 * that waits, and a raising that is served early, cost energy.
 *
 * Pure; init/fini; one thread at a time. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ROUNDING_DRIVER_CALLS_H
#define LULL_CORE_PIPELINE_ROUNDING_DRIVER_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "core/pipeline/switching/switching.h"

/* A change of a clock. Times count from the iteration's begin; raisings for its first operations
 * may begin before it. */
struct lull_pipeline_call {
    uint32_t op;     /* the operation that wants the clock */
    uint32_t before; /* the device's operation before it */
    uint32_t driver;
    bool is_raising;
    int64_t want_ns;  /* the latest begin of a raising, the earliest begin of a lowering */
    int64_t begin_ns; /* when it is planned to begin */
    int64_t next_ns;  /* of a lowering: when the device's next change begins */
};

struct lull_pipeline_queue {
    uint32_t stages; /* the devices of a copy of the pipeline */
    struct lull_pipeline_call *calls;
    size_t count;
    uint32_t *order;           /* a driver's raisings or lowerings, by when they are wanted */
    int64_t *busy_ns;          /* when a driver's raisings begin */
    struct lull_memory memory; /* of the arrays */
};

struct lull_pipeline_queue_verdict {
    int64_t short_ns; /* by how much lowerings come too late, all together; 0: the plan can be
                       * delivered */
    double more_nj;   /* the energy that waiting in the queue costs */
};

/* Allocates a queue; the caller frees queue->memory also after an error: -ENOMEM. */
int lull_pipeline_queue_init(struct lull_pipeline_queue *queue,
                             const struct lull_pipeline_problem *problem);

/*
 * Plans the calls of a plan. There are none where call_ns is 0 or switching is not fed forward. O(n
 * + calls^2 per driver).
 */
struct lull_pipeline_queue_verdict
lull_pipeline_queue_walk(struct lull_pipeline_queue *queue,
                         const struct lull_pipeline_timed_plan *plan);

/*
 * Changes a plan so that it can be delivered: lowerings that come too late are left out, the latest
 * first, or their operations' clock is raised to the next one's. No operation becomes slower.
 * Error: -ENOMEM; the plan is then partly changed.
 */
int lull_pipeline_queue_deliver(const struct lull_pipeline_problem *problem,
                                const struct lull_pipeline_switching *switching,
                                uint32_t *point_inout);

#endif
