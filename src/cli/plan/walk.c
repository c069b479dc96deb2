/*
 * The whole frontier, from the least energy down to the shortest time: a plan at every corner of
 * the relaxation or, where there are too many, at some of them, evenly over time.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cli/plan/solver.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/clock.h"

enum {
    MAX_ROUNDED_OPS = 8000000, /* operations of all plans together, some seconds; chosen */
    MIN_POINTS = 32,
    MAX_SEARCHED_OPS = 2048, /* of a searched plan, about a second; as in solve.c */
    MAX_STEPS_OPS = 512,     /* of searched plans together, half a second; chosen */
};

/* ---- progress ---------------------------------------------------------------------------- */

static void plan_walk_show_progress(struct lull_plan_solver *solver, int64_t time_ns)
{
    const struct lull_plan_task *const task = solver->task;

    if (lull_progress_is_due(&solver->progress))
        lull_progress_draw("lull plan: %zu operations, at %.3f s, down to %.3f s",
                           task->graph.op_count, (double)time_ns * 1e-9,
                           (double)task->shortest_ns * 1e-9);
}

/* ---- the whole frontier ------------------------------------------------------------------ */

/* Adds the current plan, which was rounded for time_ns. */
static int add_plan(struct lull_plan_solver *solver, int64_t time_ns,
                    struct lull_plan_result *result)
{
    struct lull_plan_point point = {0};
    int code = lull_plan_evaluate(solver, time_ns, &point);

    if (code == -ERANGE) { /* This time is too short for the switching; others are not. */
        *solver->err = (struct lull_error){0};
        return 0;
    }
    if (code < 0)
        return code;
    if (lull_array_grow(&result->points, result->point_count, sizeof(*result->points)) < 0)
        return -ENOMEM;
    result->points[result->point_count++] = point;
    return 0;
}

/* Rounds the current durations, which meet time_ns, and adds the plan. */
static int add_rounded(struct lull_plan_solver *solver, int64_t time_ns,
                       struct lull_plan_result *result)
{
    const int code =
        lull_pipeline_round_quick(solver->rounding, solver->duration_ns, time_ns, solver->option);

    return code < 0 ? code : add_plan(solver, time_ns, result);
}

static int add_searched(struct lull_plan_solver *solver, int64_t time_ns,
                        struct lull_plan_result *result)
{
    const int code = lull_plan_round(solver, time_ns);

    plan_walk_show_progress(solver, time_ns);
    return code < 0 ? code : add_plan(solver, time_ns, result);
}

/* Number of grid steps between searched plans, chosen so that the searches take about half a
 * second; 1 for tiny pipelines. */
static int64_t choose_stride(const struct lull_plan_task *task, int64_t last_ns)
{
    const size_t ops = task->graph.op_count;
    const double step_ns = (double)(lull_plan_grid_ns(task, 1) - task->all_max.time_ns);
    const double steps = (double)(last_ns - task->all_max.time_ns) / fmax(step_ns, 1.0);

    if (ops <= LULL_PLAN_TINY_OPS)
        return 1;
    return (int64_t)fmax(1.0, ceil(steps * (double)ops / MAX_STEPS_OPS));
}

/* Adds searched plans at the time of the highest clocks, at that of the least energy and at steps
 * between, up to twice the first. They are those that --slowdown gives for the same time. */
static int add_all_searched(struct lull_plan_solver *solver, int64_t cheapest_ns,
                            struct lull_plan_result *result)
{
    const struct lull_plan_task *const task = solver->task;
    const size_t ops = task->graph.op_count;
    const int64_t highest_ns = task->all_max.time_ns;
    const int64_t last_ns = lull_earlier_ns(cheapest_ns, 2 * highest_ns);
    const int64_t stride = choose_stride(task, last_ns);
    int64_t time_ns = lull_earlier_ns(highest_ns, cheapest_ns);
    int code = 0;

    if (ops > MAX_SEARCHED_OPS)
        return 0;
    code = add_searched(solver, time_ns, result);
    if (code == 0 && ops <= MAX_STEPS_OPS)
        code = add_searched(solver, cheapest_ns, result);
    for (int64_t step = stride; code == 0 && ops <= MAX_STEPS_OPS; step += stride) {
        if (lull_plan_grid_ns(task, step) > last_ns)
            break;
        code = add_searched(solver, lull_plan_grid_ns(task, step), result);
    }
    for (int64_t step = -1; code == 0 && ops <= LULL_PLAN_TINY_OPS && time_ns > task->shortest_ns;
         step--) {
        if (lull_plan_grid_ns(task, step) >= cheapest_ns)
            continue;
        time_ns = lull_later_ns(lull_plan_grid_ns(task, step), task->shortest_ns);
        code = add_searched(solver, time_ns, result);
    }
    return code;
}

/* Minimum difference between the times of plans. */
static int64_t stride_of(const struct lull_plan_solver *solver, int64_t cheapest_ns)
{
    const size_t wanted = MAX_ROUNDED_OPS / solver->task->graph.op_count;

    return (cheapest_ns - solver->task->shortest_ns) /
           (int64_t)(wanted < MIN_POINTS ? MIN_POINTS : wanted);
}

/* Goes from the least energy to the shortest time. The frontier's own corners lie much closer
 * together than plans differ, so most are skipped. */
static int plan_walk_frontier(struct lull_plan_solver *solver, struct lull_plan_result *result)
{
    struct lull_frontier_point point;
    int64_t rounded_ns = INT64_MAX;
    int64_t cheapest_ns;
    int64_t stride_ns;
    int moved = 1;
    int code = lull_frontier_seek_cheapest(solver->frontier);

    point = lull_frontier_here(solver->frontier);
    cheapest_ns = point.time_ns;
    stride_ns = stride_of(solver, cheapest_ns);
    while (code == 0 && moved == 1) {
        if (rounded_ns - point.time_ns >= stride_ns) {
            rounded_ns = point.time_ns;
            lull_frontier_durations(solver->frontier, solver->duration_ns);
            code = add_rounded(solver, point.time_ns, result);
        }
        plan_walk_show_progress(solver, point.time_ns);
        moved = lull_frontier_next(solver->frontier, &point);
    }
    if (code == 0 && moved == 0 && rounded_ns != point.time_ns) {
        lull_frontier_durations(solver->frontier, solver->duration_ns);
        code = add_rounded(solver, point.time_ns, result);
    }
    if (code == 0 && moved == 0)
        code = add_all_searched(solver, cheapest_ns, result);
    return moved < 0 ? moved : code;
}

static int plan_walk_by_time(const void *a, const void *b)
{
    const struct lull_plan_point *const left = a;
    const struct lull_plan_point *const right = b;

    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return (left->energy_j > right->energy_j) - (left->energy_j < right->energy_j);
}

/* Sorts the plans, and keeps those that are cheaper than every faster one. */
static void plan_walk_keep_best(struct lull_plan_result *result)
{
    size_t kept = 0;

    if (result->point_count == 0)
        return;
    qsort(result->points, result->point_count, sizeof(*result->points), plan_walk_by_time);
    for (size_t i = 0; i < result->point_count; i++)
        if (kept == 0 || result->points[i].energy_j < result->points[kept - 1].energy_j)
            result->points[kept++] = result->points[i];
    result->point_count = kept;
}

/* Sets the bounds to the relaxation's line between its corners, which stand from the slow end to
 * the fast one. */
static void plan_walk_set_bounds(const struct lull_plan_solver *solver,
                                 struct lull_plan_result *result)
{
    size_t count;
    const struct lull_frontier_point *const corners =
        lull_frontier_points(solver->frontier, &count);
    size_t corner = count - 1;

    for (size_t i = 0; i < result->point_count; i++) {
        struct lull_plan_point *const point = &result->points[i];

        while (corner > 0 && corners[corner - 1].time_ns <= point->time_ns)
            corner--;
        point->bound_j = corners[corner].energy_j;
        if (corner > 0) {
            const struct lull_frontier_point *const longer = &corners[corner - 1];

            point->bound_j += (longer->energy_j - corners[corner].energy_j) *
                              (double)(point->time_ns - corners[corner].time_ns) /
                              (double)(longer->time_ns - corners[corner].time_ns);
        } else {
            point->bound_j +=
                solver->task->blocking_sum_w * (double)(point->time_ns - corners[0].time_ns) * 1e-9;
        }
    }
}

int lull_plan_walk(struct lull_plan_solver *solver, struct lull_plan_result *result)
{
    const int code = plan_walk_frontier(solver, result);

    lull_progress_end(&solver->progress);
    if (code < 0)
        return code;
    plan_walk_keep_best(result);
    if (result->point_count == 0)
        return lull_error_set(solver->err, -ERANGE,
                              "no plan of the frontier can be kept with this switching; take a "
                              "shorter --switch-ms or --min-dwell-ms, or a longer deadline");
    plan_walk_set_bounds(solver, result);
    return 0;
}
