/*
 * Plan: one real operating point for every operation of a task graph; how long a plan takes and
 * what it costs.
 *
 * Energy of an iteration of time T: every operation at its operating point, and every device at its
 * blocking power for the rest of T: E = sum of energies + sum over devices of blocking_w * (T - the
 * time that the device is busy)
 *
 * Never trust what a planner says of its plan: evaluate it. Pure. Threads: any.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_PIPELINE_MODEL_PLAN_H
#define LULL_CORE_PIPELINE_MODEL_PLAN_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/pipeline/model/graph.h"
#include "core/pipeline/model/profile.h"

/* Input of all planners. The graph is finished; blocking_w has one power for every device, >= 0. */
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

/* The operating point that a plan gives an operation; point: of every operation, as in all plans.
 */
static inline const struct lull_pipeline_point *
lull_pipeline_point_of(const struct lull_pipeline_problem *problem, const uint32_t *point,
                       size_t op)
{
    const struct lull_pipeline_class *class = lull_pipeline_class_of(problem, op);

    assert(point[op] < class->point_count);
    return &class->points[point[op]];
}

/* The blocking power of all devices together, W. */
double lull_pipeline_blocking_sum_w(const struct lull_pipeline_problem *problem);

/* The number of devices of one copy of the pipeline, >= 1: copies stand one after the other and
 * begin with the same stage. */
uint32_t lull_pipeline_stages(const struct lull_pipeline_problem *problem);

struct lull_pipeline_cost {
    int64_t time_ns; /* the plan's own makespan; -ENOMEM: out of memory to find it */
    double energy_j; /* of an iteration that takes period_ns (see below) */
};

/* Makes the plan of every operation at its class's highest clock. point_out: op_count indices into
 * the operating points. */
void lull_pipeline_plan_highest(const struct lull_pipeline_problem *problem, uint32_t *point_out);

/*
 * Evaluates a plan with the profile's own numbers. period_ns: how long the iteration takes, with
 * the time that it waits for a straggler elsewhere or a deadline; less than the makespan means the
 * makespan. O(n).
 */
struct lull_pipeline_cost lull_pipeline_plan_cost(const struct lull_pipeline_problem *problem,
                                                  const uint32_t *point, int64_t period_ns);

#endif
