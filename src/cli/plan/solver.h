/*
 * Within the solver of `lull plan`: what its two ways, one plan (solve.c) and the whole frontier
 * (walk.c), share. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLI_PLAN_SOLVER_H
#define LULL_CLI_PLAN_SOLVER_H

#include "cli/plan/solve.h"
#include "base/progress.h"
#include "core/pipeline/rounding/rounding.h"

struct lull_plan_solver {
    const struct lull_plan_task *task;
    const struct lull_plan_options *options;
    struct lull_error *err;
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    int64_t *duration_ns; /* of the current relaxation */
    uint32_t *option;     /* of the current plan */
    struct lull_progress progress;
};

/* Prepares a solver whose task, options and err are set. The caller calls fini also after an error:
 * those of lull_frontier_create; -ENOMEM. */
int lull_plan_solver_init(struct lull_plan_solver *solver);
void lull_plan_solver_fini(struct lull_plan_solver *solver);

/* Evaluates the plan in solver->option, which is made to respect switching first; does not change
 * its bound. Errors: -ERANGE switching is too slow for this deadline; -ENOMEM. */
int lull_plan_evaluate(struct lull_plan_solver *solver, int64_t deadline_ns,
                       struct lull_plan_point *point_out);

/* Rounds a plan for a time into solver->option, as well as the size of the pipeline allows. Errors:
 * those of lull_pipeline_round_thorough. */
int lull_plan_round(struct lull_plan_solver *solver, int64_t target_ns);

/*
 * Looks for a plan that is faster than target_ns and needs less energy than the evaluated one in
 * solver->option, and leaves the better one there (faster.c). Times are tried whose bound is below
 * that energy: the corners of the frontier, and for small pipelines a grid of times that does not
 * depend on the target. Errors: -ENOMEM; those of lull_frontier_seek.
 */
int lull_plan_try_faster(struct lull_plan_solver *solver, int64_t target_ns,
                         struct lull_plan_point *point_inout);

/* A time of that grid: the time of the highest clocks and so many steps, below 0 too, of 0.5 % of
 * it (up to 64 operations) or 1 %; rounded as --slowdown is. Of pipelines of at most so many
 * operations the frontier has a plan for each time of the grid, so that it and single plans agree.
 */
enum { LULL_PLAN_TINY_OPS = 24 };
int64_t lull_plan_grid_ns(const struct lull_plan_task *task, int64_t step);

/* Fills the result with the whole frontier (walk.c). Errors: those of lull_plan_evaluate. */
int lull_plan_walk(struct lull_plan_solver *solver, struct lull_plan_result *result);

#endif
