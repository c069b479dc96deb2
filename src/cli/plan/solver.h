/*
 * Within the solver of `lull plan`: what its two ways, one plan and the whole frontier, share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_SOLVER_H
#define LULL_CLI_PLAN_SOLVER_H

#include "cli/plan/long.h"
#include "cli/plan/solve.h"
#include "base/watch.h"
#include "core/pipeline/round/round.h"

struct lull_plan_solver {
    const struct lull_plan_task *task;
    const struct lull_plan_wish *wish;
    struct lull_error *err;
    struct lull_plan_long *extended; /* NULL: solved directly */
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    struct lull_certificate certificate; /* of the relaxation at hand, where it is extended */
    int64_t *duration_ns;                /* relaxed */
    uint32_t *option;
    struct lull_watch watch;
};

/* Evaluates the plan in solver->option, which is made to respect switching first; its bound is left
 * alone. -ERANGE: switching is too slow for this deadline. */
int lull_plan_evaluate(struct lull_plan_solver *solver, int64_t deadline_ns,
                       struct lull_plan_point *point_out);

/* Makes sure that there is a frontier: it is not needed while the relaxation is extended. */
int lull_plan_solve_directly(struct lull_plan_solver *solver);

/* Fills the result with the whole frontier. */
int lull_plan_walk(struct lull_plan_solver *solver, struct lull_plan_result *result);

#endif
