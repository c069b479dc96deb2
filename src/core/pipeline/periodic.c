/* SPDX-License-Identifier: Apache-2.0 */
#include "core/pipeline/periodic.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/pipeline/frontier_state.h"
#include "core/pipeline/periodic_expand.h"

struct lull_periodic {
    struct lull_periodic_problem problem;
    struct expansion expansion;
    struct lull_frontier *small;
    struct lull_frontier *larger;
    struct curves curves; /* of the full graph */
    struct lull_frontier_point *points;
    int64_t *small_ns; /* where the small frontier stands at every point */
    size_t point_count;
    int64_t *slower_ns; /* durations at the point before */
};

/* A frontier's points in the order of slopes: where it stands at a slope. */
struct walk {
    const struct lull_frontier_point *points;
    size_t count;
    size_t at;
};

static double next_slope(const struct walk *walk)
{
    return walk->at + 1 < walk->count ? walk->points[walk->at + 1].slope_w : INFINITY;
}

static void walk_to(struct walk *walk, double slope_w)
{
    while (walk->at + 1 < walk->count && next_slope(walk) <= slope_w)
        walk->at++;
}

/* At equal slope, time and energy are affine in the number of periods. */
static struct lull_frontier_point extrapolate(const struct walk *small, const struct walk *larger,
                                              int64_t periods, double slope_w)
{
    const struct lull_frontier_point *from = &small->points[small->at];
    const struct lull_frontier_point *to = &larger->points[larger->at];

    return (struct lull_frontier_point){
        .time_ns = from->time_ns + periods * (to->time_ns - from->time_ns),
        .energy_j = from->energy_j + (double)periods * (to->energy_j - from->energy_j),
        .slope_w = slope_w,
    };
}

static int extrapolate_all(struct lull_periodic *periodic)
{
    struct walk small = {.at = 0};
    struct walk larger = {.at = 0};
    double slope_w = 0.0;

    small.points = lull_frontier_points(periodic->small, &small.count);
    larger.points = lull_frontier_points(periodic->larger, &larger.count);
    periodic->points = malloc((small.count + larger.count) * sizeof(*periodic->points));
    periodic->small_ns = malloc((small.count + larger.count) * sizeof(*periodic->small_ns));
    if (periodic->points == NULL || periodic->small_ns == NULL)
        return -ENOMEM;
    while (slope_w < INFINITY) {
        const size_t count = periodic->point_count;
        const struct lull_frontier_point point =
            extrapolate(&small, &larger, periodic->expansion.periods, slope_w);

        /* Where stages differ much, times that do not fall are no points of a frontier. */
        if (count == 0 || point.time_ns < periodic->points[count - 1].time_ns) {
            periodic->points[count] = point;
            periodic->small_ns[count] = small.points[small.at].time_ns;
            periodic->point_count++;
        }
        slope_w = fmin(next_slope(&small), next_slope(&larger));
        walk_to(&small, slope_w);
        walk_to(&larger, slope_w);
    }
    return 0;
}

static int solve(struct lull_frontier **frontier_out, const struct lull_pipeline_problem *problem,
                 struct lull_error *err)
{
    struct lull_frontier_point point;
    int status = 1;

    *frontier_out = lull_frontier_create(problem, err);
    if (*frontier_out == NULL)
        return -EINVAL;
    while (status == 1)
        status = lull_frontier_next(*frontier_out, &point);
    return status == 0 ? 0 : lull_error_set(err, status, "no memory for the frontier");
}

static int init(struct lull_periodic *periodic, struct lull_error *err)
{
    const size_t op_count = periodic->problem.full.graph->op_count;
    int status = expansion_init(&periodic->expansion, &periodic->problem, err);

    if (status == 0)
        status = lull_curves_init(&periodic->curves, &periodic->problem.full, err);
    if (status == 0)
        status = solve(&periodic->small, &periodic->problem.small, err);
    if (status == 0)
        status = solve(&periodic->larger, &periodic->problem.larger, err);
    if (status != 0)
        return status;
    periodic->slower_ns = malloc(op_count * sizeof(*periodic->slower_ns));
    if (periodic->slower_ns == NULL || extrapolate_all(periodic) != 0)
        return lull_error_set(err, -ENOMEM, "no memory for the frontier");
    /* Its points are all that is needed of it. */
    lull_frontier_destroy(periodic->larger);
    periodic->larger = NULL;
    return 0;
}

struct lull_periodic *lull_periodic_create(const struct lull_periodic_problem *problem,
                                           struct lull_error *err)
{
    struct lull_periodic *periodic = calloc(1, sizeof(*periodic));

    if (periodic == NULL) {
        lull_error_set(err, -ENOMEM, "no memory for the frontier");
        return NULL;
    }
    periodic->problem = *problem;
    if (init(periodic, err) != 0) {
        lull_periodic_destroy(periodic);
        return NULL;
    }
    return periodic;
}

void lull_periodic_destroy(struct lull_periodic *periodic)
{
    if (periodic == NULL)
        return;
    lull_frontier_destroy(periodic->small);
    lull_frontier_destroy(periodic->larger);
    expansion_fini(&periodic->expansion);
    lull_curves_fini(&periodic->curves);
    free(periodic->points);
    free(periodic->small_ns);
    free(periodic->slower_ns);
    free(periodic);
}

const struct lull_frontier_point *lull_periodic_points(const struct lull_periodic *periodic,
                                                       size_t *count_out)
{
    *count_out = periodic->point_count;
    return periodic->points;
}

/* Durations of the full graph at a point; returns their makespan. */
static int64_t durations_at(struct lull_periodic *periodic, size_t point, int64_t *duration_out)
{
    if (lull_frontier_seek(periodic->small, periodic->small_ns[point]) != 0)
        return -ENOMEM;
    expansion_durations(&periodic->expansion, periodic->small, duration_out);
    return lull_pipeline_earliest(periodic->problem.full.graph, duration_out, NULL);
}

/* Between the durations of two points, as near to time_ns as they allow. */
static void mix(int64_t *duration_ns, int64_t faster_ns, const int64_t *slower, int64_t slower_ns,
                size_t count, int64_t time_ns)
{
    const double share = slower_ns <= time_ns
                             ? 1.0
                             : (double)(time_ns - faster_ns) / (double)(slower_ns - faster_ns);

    for (size_t op = 0; op < count; op++)
        duration_ns[op] += (int64_t)floor(share * (double)(slower[op] - duration_ns[op]));
}

static double relaxed_j(const struct lull_periodic *periodic, const int64_t *duration_ns,
                        int64_t time_ns)
{
    const struct lull_pipeline_problem *full = &periodic->problem.full;
    double energy_nj = 0.0;

    for (size_t place = 0; place < full->graph->op_count; place++) {
        const struct curve *curve = &periodic->curves.all[periodic->curves.of_op[place]];

        energy_nj += lull_curve_energy_nj(curve, periodic->curves.unit_w,
                                          duration_ns[full->graph->topological[place]]);
    }
    for (uint32_t device = 0; device < full->graph->device_count; device++)
        energy_nj += full->blocking_w[device] * (double)time_ns;
    return energy_nj * 1e-9;
}

/*
 * Finds the slowest points whose durations keep time_ns, and mixes them with the ones before.
 * Returns the point, negative on failure.
 */
static int64_t fit(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_out)
{
    const size_t op_count = periodic->problem.full.graph->op_count;
    int64_t slower_ns = INT64_MAX;
    int64_t faster_ns;
    size_t point = 0;

    while (point + 1 < periodic->point_count && periodic->points[point].time_ns > time_ns)
        point++;
    if (point > 0)
        slower_ns = durations_at(periodic, point - 1, periodic->slower_ns);
    for (;; point++) {
        if (point == periodic->point_count)
            return -ERANGE;
        faster_ns = durations_at(periodic, point, duration_out);
        if (slower_ns < 0 || faster_ns < 0)
            return -ENOMEM;
        if (faster_ns <= time_ns)
            break;
        slower_ns = faster_ns;
        for (size_t op = 0; op < op_count; op++)
            periodic->slower_ns[op] = duration_out[op];
    }
    if (slower_ns != INT64_MAX)
        mix(duration_out, faster_ns, periodic->slower_ns, slower_ns, op_count, time_ns);
    return (int64_t)point;
}

int lull_periodic_plan(struct lull_periodic *periodic, int64_t time_ns, int64_t *duration_out,
                       struct lull_certificate *certificate, struct lull_periodic_plan *plan_out,
                       struct lull_error *err)
{
    const struct lull_pipeline_problem *full = &periodic->problem.full;
    const int64_t point = fit(periodic, time_ns, duration_out);
    int status;

    if (point == -ERANGE)
        return lull_error_set(err, -ERANGE, "no plan of %.9g s: the fastest takes %.9g s",
                              (double)time_ns * 1e-9,
                              (double)periodic->points[periodic->point_count - 1].time_ns * 1e-9);
    if (point < 0)
        return lull_error_set(err, -ENOMEM, "no memory for the plan");
    status =
        expansion_certify(&periodic->expansion, periodic->small, duration_out, certificate, err);
    if (status != 0)
        return status;
    plan_out->time_ns = lull_pipeline_earliest(full->graph, duration_out, NULL);
    plan_out->relaxed_j = relaxed_j(periodic, duration_out, time_ns);
    plan_out->bound_j = lull_certificate_bound(certificate, full, time_ns);
    return plan_out->time_ns < 0 ? lull_error_set(err, -ENOMEM, "no memory for the plan") : 0;
}
