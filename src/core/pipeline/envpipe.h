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
 * EnvPipe guesses it from receive times; the low clock is of each class, not one for a stage; a
 * step is one clock of the profile; the path is believed at once, not after ten iterations. So
 * emulated, the energies recorded for it with Perseus (SOSP'24) come out to 9 digits (tests/core).
 *
 * Pure. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_ENVPIPE_H
#define LULL_CORE_PIPELINE_ENVPIPE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "core/pipeline/plan.h"

enum lull_envpipe_method {
    LULL_ENVPIPE_UNIFORM,  /* low clocks everywhere */
    LULL_ENVPIPE_ENVELOPE, /* and the envelope at the highest; nothing is raised */
    LULL_ENVPIPE_BALANCED, /* raises what is lowest on the path, one step */
    LULL_ENVPIPE_GREEDY,   /* raises the path's last operation that can be, three steps */
    LULL_ENVPIPE_METHODS
};

struct lull_envpipe_outcome {
    uint32_t iterations; /* in which clocks were raised */
    bool is_settled;     /* the critical path lies in the envelope, or all on it is at the highest;
                            false: most_iterations came first */
};

/* What a look at the critical path led to. */
enum lull_envpipe_step {
    LULL_ENVPIPE_INSIDE, /* the path lies in the envelope: nothing was raised */
    LULL_ENVPIPE_RAISED,
    LULL_ENVPIPE_EXHAUSTED /* all on the path is at the highest clock */
};

/*
 * The planner step by step, for a job that executes its plan between two looks (EnvPipe's loop:
 * execute, find the critical path, reconfigure). The problem is borrowed until destroy; method is
 * not UNIFORM or ENVELOPE where steps are taken. NULL: no memory.
 */
struct lull_envpipe;
struct lull_envpipe *lull_envpipe_create(const struct lull_pipeline_problem *problem,
                                         enum lull_envpipe_method method);
void lull_envpipe_destroy(struct lull_envpipe *envpipe);

/* The plan as it is, op_count indices into the options; valid until the next step. */
const uint32_t *lull_envpipe_options(const struct lull_envpipe *envpipe);

/*
 * Looks at an iteration and raises clocks: when every operation ended, measured, by a clock that
 * all devices share, ns. The path goes to what an operation waited for, the latest to arrive;
 * arrivals that are no more than tie_ns (>= 0) apart count as one. O(operations).
 */
enum lull_envpipe_step lull_envpipe_step(struct lull_envpipe *envpipe, const int64_t *end_ns,
                                         int64_t tie_ns);

/*
 * option_out: op_count indices into the options. outcome_out is true of what was returned, settled
 * or not. Errors: -ENOMEM. O(operations) for every iteration.
 */
int lull_envpipe_plan(const struct lull_pipeline_problem *problem, enum lull_envpipe_method method,
                      uint32_t most_iterations, uint32_t *option_out,
                      struct lull_envpipe_outcome *outcome_out);

#endif
