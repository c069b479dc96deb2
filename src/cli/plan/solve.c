/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan/solve.h"

#include <errno.h>
#include <stdlib.h>

#include "cli/plan/solver.h"

/* ---- one plan ---------------------------------------------------------------------------- */

static int refuse_deadline(const struct lull_plan_solver *solver, int64_t deadline_ns)
{
    return lull_error_set(solver->err, -ERANGE,
                          "a deadline of %.6f ms: no plan is that fast, the shortest takes %.6f ms "
                          "(T_min); the highest clocks take %.6f ms",
                          (double)deadline_ns * 1e-6, (double)solver->task->shortest_ns * 1e-6,
                          (double)solver->task->all_max.time_ns * 1e-6);
}

/*
 * Finds how long a plan for a deadline should take: longer than the time of the least energy only
 * costs more, unless a straggler takes that long anyway.
 */
static int find_target(const struct lull_plan_solver *solver, int64_t *target_out)
{
    const int64_t deadline_ns = solver->options->deadline_ns;
    int result;

    *target_out = deadline_ns;
    if (solver->options->straggler_ns != 0)
        return 0;
    result = lull_frontier_seek_cheapest_within(solver->frontier, deadline_ns);
    *target_out = lull_frontier_here(solver->frontier).time_ns;
    return result;
}

/* Finds a flow for about the plan's time. A flow for another time proves less, but no less surely.
 */
static int find_flow(struct lull_plan_solver *solver, int64_t time_ns,
                     struct lull_certificate *certificate)
{
    const int result = lull_frontier_seek(solver->frontier, time_ns);

    if (result < 0)
        return result;
    lull_frontier_certify(solver->frontier, certificate);
    return 0;
}

/* Proves how little any plan as fast as this one can need. */
static int plan_solve_prove(struct lull_plan_solver *solver, struct lull_plan_single *single)
{
    const struct lull_plan_task *const task = solver->task;
    int result = lull_certificate_init(&single->certificate, &task->graph);

    if (result < 0)
        return result;
    result = find_flow(solver, single->point.time_ns, &single->certificate);
    if (result < 0)
        return result;
    result = lull_certificate_check(&single->certificate, &task->graph, solver->err);
    if (result < 0)
        return result;
    single->point.bound_j =
        lull_certificate_bound(&single->certificate, &task->problem, single->point.time_ns) +
        task->blocking_sum_w * (double)(single->period_ns - single->point.time_ns) * 1e-9;
    return 0;
}

static int plan_single(struct lull_plan_solver *solver, int64_t *target_out)
{
    int64_t target_ns;
    int result;

    if (solver->options->deadline_ns < solver->task->shortest_ns)
        return refuse_deadline(solver, solver->options->deadline_ns);
    result = find_target(solver, &target_ns);
    if (result < 0)
        return result;
    *target_out = target_ns;
    return lull_plan_round(solver, target_ns);
}

static int solve_single(struct lull_plan_solver *solver, struct lull_plan_single *single)
{
    const struct lull_plan_options *const options = solver->options;
    int64_t target_ns = 0;
    int result = plan_single(solver, &target_ns);

    if (result < 0)
        return result;
    result = lull_plan_evaluate(solver, options->deadline_ns, &single->point);
    if (result == 0)
        result = lull_plan_try_faster(solver, target_ns, &single->point);
    if (result < 0)
        return result;
    single->deadline_ns = options->deadline_ns;
    single->period_ns = single->point.time_ns;
    if (single->period_ns < options->straggler_ns)
        single->period_ns = options->straggler_ns;
    return plan_solve_prove(solver, single);
}

/* ---- all together ------------------------------------------------------------------------ */

/* Clocks for waiting are chosen last, in the gaps that the finished plan leaves. */
static int solve_into_single(struct lull_plan_solver *solver, struct lull_plan_result *result)
{
    int code;

    result->points = calloc(1, sizeof(*result->points));
    result->single = calloc(1, sizeof(*result->single));
    if (result->points == NULL || result->single == NULL)
        return -ENOMEM;
    code = solve_single(solver, result->single);
    if (code < 0)
        return code;
    if (solver->options->waiting.count > 0) {
        code = lull_plan_waiting_choose(&solver->task->problem, &solver->options->waiting,
                                        &solver->options->switching, solver->option,
                                        result->single->period_ns, &result->single->waits);
        if (code < 0)
            return code;
    }
    result->single->option = solver->option;
    solver->option = NULL;
    result->points[0] = result->single->point;
    result->point_count = 1;
    return 0;
}

int lull_plan_solve(const struct lull_plan_task *task, const struct lull_plan_options *options,
                    struct lull_plan_result *result_out, struct lull_error *err)
{
    struct lull_plan_solver solver = {.task = task, .options = options, .err = err};
    struct lull_plan_result result = {0};
    int code = lull_plan_solver_init(&solver);

    if (code == 0)
        code = options->deadline_ns > 0 ? solve_into_single(&solver, &result)
                                        : lull_plan_walk(&solver, &result);
    lull_plan_solver_fini(&solver);
    if (code == 0) {
        *result_out = result;
        return 0;
    }
    lull_plan_result_fini(&result);
    return err->code != 0 ? code : lull_error_set(err, code, "no memory for the plan");
}

void lull_plan_result_fini(struct lull_plan_result *result)
{
    if (result->single != NULL) {
        lull_certificate_fini(&result->single->certificate);
        free(result->single->option);
        free(result->single->waits.waits);
    }
    free(result->single);
    free(result->points);
}

struct lull_plan_point lull_plan_all_max(const struct lull_plan_task *task,
                                         const struct lull_plan_options *options)
{
    const int64_t time_ns = task->all_max.time_ns;
    struct lull_plan_point point = {.time_ns = time_ns, .energy_j = task->all_max.energy_j};

    if (options->straggler_ns > time_ns)
        point.energy_j += task->blocking_sum_w * (double)(options->straggler_ns - time_ns) * 1e-9;
    return point;
}
