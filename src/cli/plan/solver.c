/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/solver.h"

#include <errno.h>
#include <stdlib.h>

#include "core/pipeline/rounding/beam.h"

enum {
    MAX_THOROUGH_OPS = 2048, /* larger plans are rounded quickly; commit a5f86c4 chose it */
};

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

/* Small pipelines get the thorough search and the beam, larger ones a quick rounding, to keep the
 * time of a plan within seconds. */
int lull_plan_round(struct lull_plan_solver *solver, int64_t target_ns)
{
    int result;

    if (solver->task->graph.op_count <= MAX_THOROUGH_OPS) {
        result = lull_pipeline_round_thorough(solver->rounding, solver->frontier, target_ns,
                                              solver->option);
        if (result < 0)
            return result;
        return lull_pipeline_beam(solver->rounding, solver->frontier, target_ns, solver->option);
    }
    result = lull_frontier_seek(solver->frontier, target_ns);
    if (result < 0)
        return result;
    lull_frontier_durations(solver->frontier, solver->duration_ns);
    return lull_pipeline_round_quick(solver->rounding, solver->duration_ns, target_ns,
                                     solver->option);
}
