/*
 * EnvPipe's planner (Choi et al., USENIX ATC'23), so that plans can be compared with it.
 *
 * The outer envelope runs at the highest clock: the last stage, the forwards of the first
 * micro-batch and the backwards of the last one. Everything else begins at its low clock, the one
 * of least energy. Then, once per training iteration, the critical path is looked at: while it
 * leaves the envelope, clocks on it are raised. No step ever lowers a clock, and there is no model
 * of energy.
 *
 * What differs from the publication: the critical path is the longest one of the task graph, where
 * EnvPipe guesses it from receive times; each class has a low clock, not each stage; a step is one
 * clock of the profile; the path is believed at once, not after ten iterations. This emulation
 * gives the energies that were recorded for EnvPipe with Perseus (SOSP'24) to 9 digits
 * (tests/core).
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_FRONTIER_ENVPIPE_PLANNER_H
#define LULL_CORE_PIPELINE_FRONTIER_ENVPIPE_PLANNER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/model/plan.h"

enum lull_envpipe_method {
    LULL_ENVPIPE_UNIFORM,  /* low clocks everywhere */
    LULL_ENVPIPE_ENVELOPE, /* the envelope at the highest clocks as well; nothing is raised */
    LULL_ENVPIPE_BALANCED, /* raises the lowest clocks on the path by one step */
    LULL_ENVPIPE_GREEDY,   /* raises the path's last operation that can be raised by three steps */
    LULL_ENVPIPE_METHODS
};

struct lull_envpipe_outcome {
    uint32_t iterations; /* how many iterations raised clocks */
    bool is_settled;     /* whether the critical path lies in the envelope, or all of it is at the
                          * highest clocks; false: most_iterations came first */
};

/*
 * EnvPipe's loop in the running job: execute the plan, find the critical path of what happened,
 * raise clocks on it, until the path has stayed in the outer envelope for ten iterations in a row.
 * Besides what is said above, the path is found from when operations really ended, not from receive
 * times. The problem is borrowed until destroy; the method is BALANCED or GREEDY. The critical path
 * goes back to what an operation waited for longest; arrivals that are at most tie_ns (>= 0) apart
 * count as one. create returns null where there is no memory.
 */
struct lull_envpipe;
struct lull_envpipe *lull_envpipe_create(const struct lull_pipeline_problem *problem,
                                         enum lull_envpipe_method method, int64_t tie_ns);
void lull_envpipe_destroy(struct lull_envpipe *envpipe);

/* The current plan, op_count indices into the operating points; valid until the next take. */
const uint32_t *lull_envpipe_points(const struct lull_envpipe *envpipe);

/* Takes an iteration that was executed at the plan: when each operation ended, by a clock that all
 * devices share. Returns whether clocks were raised. O(operations). */
bool lull_envpipe_take(struct lull_envpipe *envpipe, const int64_t *end_ns);

/* Tells whether nothing will be raised any more; and how many times clocks were raised. */
bool lull_envpipe_is_done(const struct lull_envpipe *envpipe);
uint32_t lull_envpipe_count(const struct lull_envpipe *envpipe);

/*
 * Makes EnvPipe's plan. point_out receives op_count indices into the operating points; outcome_out
 * describes that plan, settled or not. Error: -ENOMEM. O(operations) for every iteration.
 */
int lull_envpipe_plan(const struct lull_pipeline_problem *problem, enum lull_envpipe_method method,
                      uint32_t most_iterations, uint32_t *point_out,
                      struct lull_envpipe_outcome *outcome_out);

#endif
