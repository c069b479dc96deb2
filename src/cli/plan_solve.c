/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan_solve.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "core/pipeline/round.h"

enum {
    MOST_ROUNDED_OPS = 8000000, /* operations of all plans of a frontier */
    LEAST_POINTS = 64,
    MOST_COMPARED_OPS = 20000000, /* operations times EnvPipe's iterations */
    SILENT_NS = 2000000000,
    REDRAW_NS = 100000000,
};

struct solver {
    const struct lull_plan_task *task;
    const struct lull_plan_wish *wish;
    struct lull_error *err;
    struct lull_frontier *frontier;
    struct lull_pipeline_rounding *rounding;
    int64_t *duration_ns; /* relaxed */
    uint32_t *option;
    int64_t begun_ns;
    int64_t drawn_ns; /* when the progress line was; 0: not yet */
};

static bool has_switching(const struct lull_plan_wish *wish)
{
    return wish->switching.down_ns > 0 || wish->switching.up_ns > 0 || wish->switching.dwell_ns > 0;
}

/* ---- progress ---------------------------------------------------------------------------- */

static void show_progress(struct solver *solver, int64_t time_ns)
{
    const int64_t now_ns = lull_now_ns();
    const struct lull_plan_task *const task = solver->task;

    if (now_ns - solver->begun_ns < SILENT_NS || now_ns - solver->drawn_ns < REDRAW_NS ||
        !isatty(STDERR_FILENO))
        return;
    solver->drawn_ns = now_ns;
    fprintf(stderr, "\rlull plan: %zu operations, at %.3f s, down to %.3f s ", task->graph.op_count,
            (double)time_ns * 1e-9, (double)task->shortest_ns * 1e-9);
}

static void end_progress(const struct solver *solver)
{
    if (solver->drawn_ns != 0)
        fprintf(stderr, "\r\033[K");
}

/* ---- one plan ---------------------------------------------------------------------------- */

/* Evaluates the plan at hand; its bound is filled in by the caller. */
static int evaluate(const struct solver *solver, int64_t deadline_ns,
                    struct lull_plan_point *point_out)
{
    const struct lull_plan_wish *const wish = solver->wish;
    const struct lull_pipeline_problem *const problem = &solver->task->problem;
    struct lull_pipeline_cost cost;

    if (has_switching(wish)) {
        struct lull_pipeline_dwell_report report;
        const int result = lull_pipeline_dwell(problem, &wish->switching, deadline_ns,
                                               solver->option, &report, solver->err);

        if (result < 0)
            return result;
        cost = lull_pipeline_plan_cost(problem, solver->option,
                                       report.time_ns > wish->straggler_ns ? report.time_ns
                                                                           : wish->straggler_ns);
        point_out->time_ns = cost.time_ns < 0 ? cost.time_ns : report.time_ns;
    } else {
        cost = lull_pipeline_plan_cost(problem, solver->option, wish->straggler_ns);
        point_out->time_ns = cost.time_ns;
    }
    point_out->energy_j = cost.energy_j;
    return point_out->time_ns < 0 ? (int)point_out->time_ns : 0;
}

static int refuse_deadline(const struct solver *solver, int64_t deadline_ns)
{
    return lull_error_set(solver->err, -ERANGE,
                          "a deadline of %.6f ms: no plan is that fast, the shortest takes %.6f ms "
                          "(T_min); the highest clocks take %.6f ms",
                          (double)deadline_ns * 1e-6, (double)solver->task->shortest_ns * 1e-6,
                          (double)solver->task->all_max.time_ns * 1e-6);
}

/*
 * How slow a plan may be that is asked to hold a deadline: slower than the time of the least energy
 * only costs more, unless somebody else takes that long anyway.
 */
static int find_target(const struct solver *solver, int64_t *target_out)
{
    const struct lull_plan_wish *const wish = solver->wish;
    int64_t target_ns = wish->deadline_ns;
    int result = lull_frontier_seek_cheapest(solver->frontier);

    if (result < 0)
        return result;
    if (wish->straggler_ns == 0 && lull_frontier_here(solver->frontier).time_ns < target_ns)
        target_ns = lull_frontier_here(solver->frontier).time_ns;
    *target_out = target_ns;
    return 0;
}

/* Proves how little any plan as fast as this one can need. */
static int prove(const struct solver *solver, struct lull_plan_single *single)
{
    const struct lull_plan_task *const task = solver->task;
    int result = lull_frontier_seek(solver->frontier, single->point.time_ns);

    if (result == 0)
        result = lull_certificate_init(&single->certificate, &task->graph);
    if (result < 0)
        return result;
    lull_frontier_certify(solver->frontier, &single->certificate);
    result = lull_certificate_check(&single->certificate, &task->graph, solver->err);
    if (result < 0)
        return result;
    single->point.bound_j =
        lull_certificate_bound(&single->certificate, &task->problem, single->point.time_ns) +
        task->blocking_sum_w * (double)(single->period_ns - single->point.time_ns) * 1e-9;
    return 0;
}

static int plan_envpipe(const struct solver *solver)
{
    const int64_t deadline_ns = solver->wish->deadline_ns;
    struct lull_envpipe_outcome outcome;
    const int result = lull_envpipe_plan(&solver->task->problem, solver->wish->method, UINT32_MAX,
                                         solver->option, &outcome);
    const int64_t time_ns =
        result == 0 ? lull_pipeline_plan_cost(&solver->task->problem, solver->option, 0).time_ns
                    : result;

    if (time_ns < 0)
        return (int)time_ns;
    if (deadline_ns > 0 && time_ns > deadline_ns)
        return lull_error_set(solver->err, -ERANGE,
                              "EnvPipe knows no deadlines: its plan takes %.6f ms, not %.6f ms; "
                              "--planner frontier holds any from %.6f ms on",
                              (double)time_ns * 1e-6, (double)deadline_ns * 1e-6,
                              (double)solver->task->shortest_ns * 1e-6);
    return 0;
}

static int plan_single(const struct solver *solver)
{
    int64_t target_ns;
    int result;

    if (solver->wish->planner == LULL_PLAN_ENVPIPE)
        return plan_envpipe(solver);
    if (solver->wish->deadline_ns < solver->task->shortest_ns)
        return refuse_deadline(solver, solver->wish->deadline_ns);
    result = find_target(solver, &target_ns);
    return result < 0 ? result
                      : lull_pipeline_round_thorough(solver->rounding, solver->frontier, target_ns,
                                                     solver->option);
}

static int solve_single(const struct solver *solver, struct lull_plan_single *single)
{
    const struct lull_plan_wish *const wish = solver->wish;
    int result = plan_single(solver);

    if (result == 0)
        result =
            evaluate(solver, wish->deadline_ns > 0 ? wish->deadline_ns : INT64_MAX, &single->point);
    if (result < 0)
        return result;
    single->deadline_ns = wish->deadline_ns > 0 ? wish->deadline_ns : single->point.time_ns;
    single->period_ns =
        single->point.time_ns > wish->straggler_ns ? single->point.time_ns : wish->straggler_ns;
    return prove(solver, single);
}

/* ---- the whole frontier ------------------------------------------------------------------ */

static int add_point(struct lull_plan_result *result, size_t *room,
                     const struct lull_plan_point *point)
{
    if (result->point_count == *room) {
        const size_t wanted = *room == 0 ? 256 : *room * 2;
        struct lull_plan_point *const larger =
            reallocarray(result->points, wanted, sizeof(*larger));

        if (larger == NULL)
            return -ENOMEM;
        result->points = larger;
        *room = wanted;
    }
    result->points[result->point_count++] = *point;
    return 0;
}

static int round_here(struct solver *solver, struct lull_plan_result *result, size_t *room)
{
    const int64_t time_ns = lull_frontier_here(solver->frontier).time_ns;
    struct lull_plan_point point = {0};
    int code;

    lull_frontier_durations(solver->frontier, solver->duration_ns);
    code =
        lull_pipeline_round_quick(solver->rounding, solver->duration_ns, time_ns, solver->option);
    if (code == 0)
        code = evaluate(solver, time_ns, &point);
    if (code == -ERANGE) { /* too fast for this switching: others are not */
        *solver->err = (struct lull_error){0};
        return 0;
    }
    return code < 0 ? code : add_point(result, room, &point);
}

/* From the least energy down to the shortest time: at every corner of the relaxation, or, where
 * that are too many, at some of them, evenly over time. */
static int walk(struct solver *solver, struct lull_plan_result *result)
{
    const size_t wanted = MOST_ROUNDED_OPS / solver->task->graph.op_count;
    struct lull_frontier_point point;
    int64_t rounded_ns;
    int64_t stride_ns;
    size_t room = 0;
    int moved = 1;
    int code = lull_frontier_seek_cheapest(solver->frontier);

    point = lull_frontier_here(solver->frontier);
    rounded_ns = INT64_MAX;
    stride_ns = (point.time_ns - solver->task->shortest_ns) /
                (int64_t)(wanted < LEAST_POINTS ? LEAST_POINTS : wanted);
    while (code == 0 && moved == 1) {
        if (rounded_ns - point.time_ns >= stride_ns) {
            rounded_ns = point.time_ns;
            code = round_here(solver, result, &room);
        }
        show_progress(solver, point.time_ns);
        moved = lull_frontier_next(solver->frontier, &point);
    }
    if (code == 0 && moved == 0 && rounded_ns != point.time_ns)
        code = round_here(solver, result, &room);
    return moved < 0 ? moved : code;
}

static int by_time(const void *a, const void *b)
{
    const struct lull_plan_point *const left = a;
    const struct lull_plan_point *const right = b;

    if (left->time_ns != right->time_ns)
        return left->time_ns < right->time_ns ? -1 : 1;
    return (left->energy_j > right->energy_j) - (left->energy_j < right->energy_j);
}

/* Sorts, and keeps what no faster plan is as cheap as. */
static void keep_best(struct lull_plan_result *result)
{
    size_t kept = 0;

    if (result->point_count == 0)
        return;
    qsort(result->points, result->point_count, sizeof(*result->points), by_time);
    for (size_t i = 0; i < result->point_count; i++)
        if (kept == 0 || result->points[i].energy_j < result->points[kept - 1].energy_j)
            result->points[kept++] = result->points[i];
    result->point_count = kept;
}

/* The relaxation between its corners, which lie from the slow end to the fast one. */
static void set_bounds(const struct solver *solver, struct lull_plan_result *result)
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

static int solve_frontier(struct solver *solver, struct lull_plan_result *result)
{
    const int code = walk(solver, result);

    if (code < 0)
        return code;
    keep_best(result);
    if (result->point_count == 0)
        return lull_error_set(solver->err, -ERANGE,
                              "no plan of the frontier can be kept with this switching; take a "
                              "shorter --switch-ms or --min-dwell-ms, or a longer deadline");
    set_bounds(solver, result);
    return 0;
}

/* ---- all together ------------------------------------------------------------------------ */

static int solver_init(struct solver *solver)
{
    const size_t count = solver->task->graph.op_count;
    int result;

    solver->begun_ns = lull_now_ns();
    solver->frontier = lull_frontier_create(&solver->task->problem, solver->err);
    if (solver->frontier == NULL)
        return solver->err->code;
    result = lull_pipeline_rounding_create(&solver->task->problem, &solver->rounding);
    solver->duration_ns = calloc(count, sizeof(*solver->duration_ns));
    solver->option = calloc(count, sizeof(*solver->option));
    return solver->duration_ns == NULL || solver->option == NULL ? -ENOMEM : result;
}

static void solver_fini(struct solver *solver)
{
    lull_frontier_destroy(solver->frontier);
    lull_pipeline_rounding_destroy(solver->rounding);
    free(solver->duration_ns);
    free(solver->option);
}

static int solve_into_single(struct solver *solver, struct lull_plan_result *result)
{
    int code;

    result->points = calloc(1, sizeof(*result->points));
    result->single = calloc(1, sizeof(*result->single));
    if (result->points == NULL || result->single == NULL)
        return -ENOMEM;
    code = solve_single(solver, result->single);
    if (code < 0)
        return code;
    result->single->option = solver->option;
    solver->option = NULL;
    result->points[0] = result->single->point;
    result->point_count = 1;
    return 0;
}

int lull_plan_solve(const struct lull_plan_task *task, const struct lull_plan_wish *wish,
                    struct lull_plan_result *result_out, struct lull_error *err)
{
    struct solver solver = {.task = task, .wish = wish, .err = err};
    struct lull_plan_result result = {0};
    int code = solver_init(&solver);

    if (code == 0)
        code = wish->deadline_ns > 0 || wish->planner == LULL_PLAN_ENVPIPE
                   ? solve_into_single(&solver, &result)
                   : solve_frontier(&solver, &result);
    end_progress(&solver);
    solver_fini(&solver);
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
    }
    free(result->single);
    free(result->points);
}

struct lull_plan_point lull_plan_all_max(const struct lull_plan_task *task,
                                         const struct lull_plan_wish *wish)
{
    const int64_t time_ns = task->all_max.time_ns;
    struct lull_plan_point point = {.time_ns = time_ns, .energy_j = task->all_max.energy_j};

    if (wish->straggler_ns > time_ns)
        point.energy_j += task->blocking_sum_w * (double)(wish->straggler_ns - time_ns) * 1e-9;
    return point;
}

/* The bound of a time, by itself. */
static int bound_at(const struct lull_plan_task *task, int64_t time_ns, double *bound_j_out)
{
    struct lull_frontier *const frontier = lull_frontier_create(&task->problem, NULL);
    const int result = frontier == NULL ? -ENOMEM : lull_frontier_seek(frontier, time_ns);

    if (result == 0)
        *bound_j_out = lull_frontier_here(frontier).energy_j;
    lull_frontier_destroy(frontier);
    return result;
}

int lull_plan_compare(const struct lull_plan_task *task, struct lull_plan_point *envpipe_out)
{
    const size_t count = task->graph.op_count;
    uint32_t *const option = calloc(count, sizeof(*option));
    struct lull_envpipe_outcome outcome = {0};
    struct lull_plan_point point = {0};
    int result = option == NULL ? -ENOMEM : 0;

    if (result == 0)
        result = lull_envpipe_plan(&task->problem, LULL_ENVPIPE_BALANCED,
                                   (uint32_t)(MOST_COMPARED_OPS / count), option, &outcome);
    if (result == 0 && !outcome.is_settled)
        result = -E2BIG;
    if (result == 0) {
        const struct lull_pipeline_cost cost = lull_pipeline_plan_cost(&task->problem, option, 0);

        point.time_ns = cost.time_ns;
        point.energy_j = cost.energy_j;
        result =
            cost.time_ns < 0 ? (int)cost.time_ns : bound_at(task, cost.time_ns, &point.bound_j);
    }
    free(option);
    if (result == 0)
        *envpipe_out = point;
    return result;
}
