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

/*
 * option_out: op_count indices into the options. outcome_out is true of what was returned, settled
 * or not. Errors: -ENOMEM. O(operations) for every iteration.
 */
int lull_envpipe_plan(const struct lull_pipeline_problem *problem, enum lull_envpipe_method method,
                      uint32_t most_iterations, uint32_t *option_out,
                      struct lull_envpipe_outcome *outcome_out);

#endif
