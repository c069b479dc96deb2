/*
 * Straggler response: while a device, or another copy of the pipeline, is slow, the others are
 * slowed down too, as far as they would otherwise only wait for it. It feeds the iterations of each
 * copy to core/pipeline/follow/straggler_detector.h, has a plan made for the resulting request
 * (core/pipeline/follow/replan.h), and has the plan runner execute it as a detour. When the
 * straggler has caught up, all clocks return to the plan at once.
 *
 * Only copies whose GPUs are all on this node, and whose ranks report sections, are observed: the
 * stages on other nodes are not visible.
 *
 * Threads: create, tick and destroy belong to the main thread; tick takes the control's lock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_PLAN_STRAGGLER_RESPONSE_H
#define LULL_GOVERNOR_PLAN_STRAGGLER_RESPONSE_H

#include "governor/control/control.h"
#include "governor/plan/plan_runner.h"

struct lull_straggler_response;

/* NULL: out of memory. */
struct lull_straggler_response *lull_straggler_response_create(void);
void lull_straggler_response_destroy(struct lull_straggler_response *response);

/* Examines the latest iterations and responds. Call it every 50 ms, unless the pipeline is being
 * profiled. If memory runs out, it does not change the plan. */
void lull_straggler_response_tick(struct lull_straggler_response *response,
                                  struct lull_control *control, struct lull_plan_runner *runner);

/* Result of the response, for the report. */
struct lull_straggler_response_summary {
    uint32_t replans;    /* number of plans made and executed */
    uint64_t iterations; /* number of iterations at these plans */
    double slowest_ms;   /* longest time to make one */
    double
        saved_j; /* energy saved against iterations with a straggler at the plan; NAN: not known */
    double saved_ratio; /* the same as a share of what those drew; NAN: not known */
    double lost_ms;     /* maximum extension of an iteration */
    uint32_t refuted;   /* number of times that the other ranks turned out not to wait */
};
void lull_straggler_response_summary(const struct lull_straggler_response *response,
                                     const struct lull_control *control,
                                     const struct lull_plan_runner *runner,
                                     struct lull_straggler_response_summary *summary_out);

#endif
