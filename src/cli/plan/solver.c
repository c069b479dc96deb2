/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/solver.h"

#include <errno.h>
#include <stdlib.h>

int lull_plan_solver_init(struct lull_plan_solver *solver)
{
    const size_t count = solver->task->graph.op_count;
    const int result = lull_pipeline_rounding_create(&solver->task->problem, &solver->rounding);

    solver->progress = lull_progress_begin();
    solver->duration_ns = calloc(count, sizeof(*solver->duration_ns));
    solver->option = calloc(count, sizeof(*solver->option));
    if (result < 0 || solver->duration_ns == NULL || solver->option == NULL)
        return -ENOMEM;
    solver->frontier = lull_frontier_create(&solver->task->problem, solver->err);
    return solver->frontier != NULL ? 0 : solver->err->code;
}

void lull_plan_solver_fini(struct lull_plan_solver *solver)
{
    lull_frontier_destroy(solver->frontier);
    lull_pipeline_rounding_destroy(solver->rounding);
    free(solver->duration_ns);
    free(solver->option);
}

/* ---- evaluating a plan ------------------------------------------------------------------- */

static bool has_switching(const struct lull_plan_options *options)
{
    return options->switching.is_fed_forward || options->switching.down_ns > 0 ||
           options->switching.up_ns > 0 || options->switching.dwell_ns > 0;
}

int lull_plan_evaluate(struct lull_plan_solver *solver, int64_t deadline_ns,
                       struct lull_plan_point *point_out)
{
    const struct lull_plan_options *const options = solver->options;
    const struct lull_pipeline_problem *const problem = &solver->task->problem;
    struct lull_pipeline_switching_report report = {0};
    const bool is_changed = has_switching(options);
    int64_t period_ns = options->straggler_ns;
    struct lull_pipeline_cost cost;

    if (is_changed) {
        const bool is_quick = options->deadline_ns == 0; /* one of many */
        const int result = lull_pipeline_switching(problem, &options->switching, deadline_ns,
                                                   is_quick, solver->option, &report, solver->err);

        if (result < 0)
            return result;
        if (report.time_ns > period_ns)
            period_ns = report.time_ns;
    }
    cost = lull_pipeline_plan_cost(problem, solver->option, period_ns);
    if (cost.time_ns < 0)
        return (int)cost.time_ns;
    if (has_switching(options))
        cost.energy_j +=
            lull_pipeline_switching_energy_j(problem, &options->switching, solver->option);
    point_out->time_ns = is_changed ? report.time_ns : cost.time_ns;
    point_out->energy_j = cost.energy_j;
    return 0;
}
