/*
 * Plan: one real option for every operation of a task graph; and what a plan takes and costs.
 *
 * Energy of an iteration of time T: every operation at its option, and every device at its blocking
 * power for the rest of T:
 *   E = sum of energies + sum over devices of blocking_w * (T - what the device is busy)
 *
 * Never trust what a planner says of its plan: evaluate it. Pure. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_PLAN_H
#define LULL_CORE_PIPELINE_PLAN_H

#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/graph.h"
#include "core/pipeline/profile.h"

/* What all planners are given. The graph is finished; blocking_w: one for every device, >= 0. */
struct lull_pipeline_problem {
    const struct lull_pipeline_profile *profile;
    const struct lull_pipeline_graph *graph;
    const double *blocking_w;
};

/* The class of an operation, op < op_count. */
static inline const struct lull_pipeline_class *
lull_pipeline_class_of(const struct lull_pipeline_problem *problem, size_t op)
{
    return &problem->profile->classes[problem->graph->ops[op].class_index];
}

/* Devices of one copy of the pipeline: copies stand one behind the other and begin alike. >= 1. */
uint32_t lull_pipeline_stages(const struct lull_pipeline_problem *problem);

struct lull_pipeline_cost {
    int64_t time_ns; /* makespan of the plan itself; -ENOMEM: no memory to find it */
    double energy_j; /* of an iteration that takes `period_ns` (below) */
};

/* Every operation at its class's highest clock. option_out: op_count indices into the options. */
void lull_pipeline_plan_highest(const struct lull_pipeline_problem *problem, uint32_t *option_out);

/*
 * Evaluates a plan with the profile's own numbers. period_ns: how long the iteration takes all told
 * (a straggler elsewhere, a deadline that is waited for); less than the makespan means the
 * makespan. O(n).
 */
struct lull_pipeline_cost lull_pipeline_plan_cost(const struct lull_pipeline_problem *problem,
                                                  const uint32_t *option, int64_t period_ns);

#endif
