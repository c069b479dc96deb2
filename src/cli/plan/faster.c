/*
 * Faster plans that need less energy than the one that was rounded for a deadline: where clocks are
 * few and far apart, a plan may be far above its bound, and a plan for a shorter time below it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/plan/solver.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* Step between the shorter times that are tried, per mille of the time at the highest clocks, for
 * pipelines of at most max_ops operations. A search takes about 1 ms for 12 operations, 50 ms for
 * 64 and 700 ms for 256 (measured), so all searches together take about a second. */
static const struct {
    size_t max_ops;
    int64_t per_mille;
} steps[] = {{64, 5}, {SIZE_MAX, 10}};

enum {
    MAX_SEARCHED_OPS = 256, /* larger pipelines get quick plans for shorter times */
    MAX_PLANS = 4096,       /* of one direction; only a bound on the work */
    MAX_SWITCHED = 32,      /* of plans whose switching is searched for each */
};

struct faster {
    struct lull_plan_solver *solver;
    uint32_t *option; /* of the best plan */
    struct lull_plan_point best;
    uint32_t left; /* number of plans that may still be evaluated */
};

static bool is_switched(const struct lull_plan_options *options)
{
    return options->switching.is_fed_forward || options->switching.down_ns > 0 ||
           options->switching.up_ns > 0 || options->switching.dwell_ns > 0;
}

/* Lower bound on the energy of a plan that takes no longer than the frontier's present point, in an
 * iteration that takes as long as the straggler. */
static double bound_here(const struct faster *faster)
{
    const struct lull_plan_solver *const solver = faster->solver;
    const struct lull_frontier_point here = lull_frontier_here(solver->frontier);
    const int64_t wait_ns = solver->options->straggler_ns - here.time_ns;

    return here.energy_j + solver->task->blocking_sum_w * (double)lull_later_ns(wait_ns, 0) * 1e-9;
}

/* Evaluates the current plan, and keeps it if it is the best. A plan that is infeasible with this
 * switching is not an error. */
static int plan_faster_accept(struct faster *faster, int64_t time_ns)
{
    struct lull_plan_solver *const solver = faster->solver;
    struct lull_plan_point point = faster->best;
    const int code = lull_plan_evaluate(solver, time_ns, &point);

    faster->left--;
    if (code == -ERANGE) {
        *solver->err = (struct lull_error){0};
        return 0;
    }
    if (code < 0 || point.energy_j >= faster->best.energy_j)
        return code;
    faster->best = point;
    memcpy(faster->option, solver->option, solver->task->graph.op_count * sizeof(*faster->option));
    return 0;
}

static bool is_corner(const struct lull_frontier *frontier)
{
    const int64_t here_ns = lull_frontier_here(frontier).time_ns;
    size_t count;
    const struct lull_frontier_point *const points = lull_frontier_points(frontier, &count);

    while (count > 0 && points[count - 1].time_ns < here_ns)
        count--;
    return count > 0 && points[count - 1].time_ns == here_ns;
}

/* Quick plans at the corners of the frontier, as lull_plan_walk() makes them; there is none at the
 * target itself, because the walk makes none there. */
static int try_corners(struct faster *faster, int64_t target_ns)
{
    struct lull_plan_solver *const solver = faster->solver;
    struct lull_frontier_point point;
    int code = lull_frontier_seek(solver->frontier, target_ns);
    int moved = 1;

    if (code == 0 && !is_corner(solver->frontier))
        moved = lull_frontier_next(solver->frontier, &point);
    while (code == 0 && moved == 1 && faster->left > 0) {
        if (bound_here(faster) >= faster->best.energy_j)
            return 0;
        lull_frontier_durations(solver->frontier, solver->duration_ns);
        code =
            lull_pipeline_round_quick(solver->rounding, solver->duration_ns,
                                      lull_frontier_here(solver->frontier).time_ns, solver->option);
        if (code == 0)
            code = plan_faster_accept(faster, lull_frontier_here(solver->frontier).time_ns);
        else if (code == -ERANGE)
            code = 0;
        moved = lull_frontier_next(solver->frontier, &point);
    }
    return moved < 0 ? moved : code;
}

int64_t lull_plan_grid_ns(const struct lull_plan_task *task, int64_t step)
{
    const double highest_ns = (double)task->all_max.time_ns;
    size_t i = 0;

    while (task->graph.op_count > steps[i].max_ops)
        i++;
    return task->all_max.time_ns +
           (int64_t)(highest_ns * ((double)(step * steps[i].per_mille) / 1000.0));
}

/* Searched plans for the times of a grid that does not depend on the deadline, so that a longer
 * deadline never finds a more expensive plan than another one of the grid. */
static int try_grid(struct faster *faster, int64_t target_ns)
{
    struct lull_plan_solver *const solver = faster->solver;
    const double step_ns =
        (double)(lull_plan_grid_ns(solver->task, 1) - solver->task->all_max.time_ns);
    int64_t step =
        (int64_t)ceil((double)(target_ns - solver->task->all_max.time_ns) / fmax(step_ns, 1.0)) + 2;
    int64_t time_ns = target_ns;
    int code = 0;

    while (code == 0 && faster->left > 0 && time_ns > solver->task->shortest_ns) {
        time_ns = lull_later_ns(lull_plan_grid_ns(solver->task, --step), solver->task->shortest_ns);
        if (time_ns >= target_ns)
            continue;
        code = lull_frontier_seek(solver->frontier, time_ns);
        if (code < 0 || bound_here(faster) >= faster->best.energy_j)
            break;
        code = lull_plan_round(solver, time_ns);
        if (code == 0)
            code = plan_faster_accept(faster, time_ns);
    }
    return code;
}

int lull_plan_try_faster(struct lull_plan_solver *solver, int64_t target_ns,
                         struct lull_plan_point *point_inout)
{
    const size_t count = solver->task->graph.op_count;
    struct faster faster = {
        .solver = solver,
        .option = malloc(count * sizeof(*faster.option)),
        .best = *point_inout,
        .left = is_switched(solver->options) ? MAX_SWITCHED : MAX_PLANS,
    };
    int code;

    if (faster.option == NULL)
        return -ENOMEM;
    memcpy(faster.option, solver->option, count * sizeof(*faster.option));
    code = try_corners(&faster, target_ns);
    if (code == 0 && count <= MAX_SEARCHED_OPS)
        code = try_grid(&faster, target_ns);
    memcpy(solver->option, faster.option, count * sizeof(*faster.option));
    free(faster.option);
    *point_inout = faster.best;
    return code;
}
