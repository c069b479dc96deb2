/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/preemptive_bound.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "cluster/core/model/cluster.h"
#include "cluster/core/bound/mode_hull.h"
#include "cluster/core/bound/preemptive_alone.h"

/* The share of all summed terms by which the bound is lowered: far more than the rounding errors of
 * doubles in millions of terms. */
static const double slip_ratio = 1e-9;

/* A window is extended by this, since each clock change of a running job rounds its end to a
 * nanosecond. It allows for a thousand changes. */
static const double rounding_s = 1e-6;

struct lull_preemptive {
    const struct lull_preemptive_problem *problem;
    struct lull_preemptive_slots slots;
    struct lull_node_groups members;
    size_t groups;
    struct lull_preemptive_job *jobs;
    size_t *number; /* [job here]: its number in the problem */
    size_t count;
    struct lull_preemptive_point *points; /* of all */
    size_t point_count;
};

/* ---- preparation-------------------------------------------------------------------------- */

static void preemptive_add_points(struct lull_preemptive *all, const struct lull_cluster_job *job)
{
    const struct lull_preemptive_problem *problem = all->problem;
    struct lull_preemptive_job *made = &all->jobs[all->count];

    made->points = &all->points[all->point_count];
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];
        const size_t group = lull_cluster_group(problem->cluster, job->pool, point->type);

        if (!lull_cluster_point_is_possible(job, i, problem->cluster, all->members.gpus))
            continue;
        all->points[all->point_count++] = (struct lull_preemptive_point){
            .time_s = (double)point->time_ns * 1e-9,
            .rate = 1e9 / (double)point->time_ns,
            .energy_j = point->energy_j,
            .gpu_s = point->gpus * (double)point->time_ns * 1e-9,
            .row = group * problem->slots,
        };
        made->point_count++;
    }
}

/*
 * A job whose value ends at its deadline makes its progress in window_s: sum of phi p <= window_s
 * over its operating points, including slow ones that alone would miss the deadline. Any multiplier
 * mu >= 0 of that row proves a bound: a unit of progress costs mu p more, and mu window_s is
 * subtracted. The multiplier of the least cost alone is the slope of the hull there. Returns false
 * if even the fastest operating point misses the deadline.
 */
static bool bind_to_window(struct lull_preemptive_job *job, struct lull_preemptive_point *points,
                           double window_s)
{
    struct lull_mode_corner corners[LULL_CLUSTER_MAX_POINTS];
    struct lull_mode_hull hull;
    double second_w;

    for (uint32_t i = 0; i < job->point_count; i++)
        corners[i] = (struct lull_mode_corner){
            points[i].time_s, points[i].energy_j + job->second_j * points[i].time_s};
    lull_mode_hull_make(corners, job->point_count, &hull);
    if (hull.count == 0 || hull.corners[0].time_s > window_s)
        return false;
    second_w = lull_mode_hull_fall_w(&hull, window_s);
    for (uint32_t i = 0; i < job->point_count; i++)
        points[i].energy_j += second_w * points[i].time_s;
    job->value_j += second_w * window_s;
    return true;
}

static void preemptive_add(struct lull_preemptive *all, size_t number)
{
    const struct lull_cluster_job *job = &all->problem->jobs->all[number];
    struct lull_preemptive_job *const made = &all->jobs[all->count];
    struct lull_preemptive_point *const points = &all->points[all->point_count];
    bool is_in_time = true;

    *made = (struct lull_preemptive_job){
        .arrival_s = (double)job->arrival_ns * 1e-9,
        .second_j = all->problem->second_j * job->weight,
        .value_j = job->value_j > 0.0 ? job->value_j : INFINITY,
        .deadline_s = INFINITY,
    };
    preemptive_add_points(all, job);
    if (job->value_j > 0.0 && job->deadline_ns != LULL_CLUSTER_NEVER) {
        made->deadline_s = (double)job->deadline_ns * 1e-9 + rounding_s;
        is_in_time = bind_to_window(
            made, points, (double)(job->deadline_ns - job->arrival_ns) * 1e-9 + rounding_s);
    }
    if (made->point_count == 0 || !is_in_time)
        return;
    all->number[all->count] = number;
    all->count++;
}

static size_t preemptive_count_points(const struct lull_cluster_jobs *jobs)
{
    size_t count = 0;

    for (size_t i = 0; i < jobs->count; i++)
        count += jobs->all[i].point_count;
    return count;
}

int lull_preemptive_create(const struct lull_preemptive_problem *problem,
                           struct lull_preemptive **preemptive_out)
{
    const size_t jobs = problem->jobs->count;
    struct lull_preemptive *all = calloc(1, sizeof(*all));

    if (all == NULL)
        return -ENOMEM;
    *all = (struct lull_preemptive){
        .problem = problem,
        .slots = {(double)problem->slot_ns * 1e-9, problem->slots},
        .groups = lull_cluster_group_count(problem->cluster),
        .jobs = calloc(jobs + 1, sizeof(*all->jobs)),
        .number = calloc(jobs + 1, sizeof(*all->number)),
        .points = calloc(preemptive_count_points(problem->jobs) + 1, sizeof(*all->points)),
    };
    if (all->jobs == NULL || all->number == NULL || all->points == NULL ||
        lull_node_groups_init(&all->members, problem->cluster) < 0) {
        lull_preemptive_destroy(all);
        return -ENOMEM;
    }
    for (size_t i = 0; i < jobs; i++)
        preemptive_add(all, i);
    *preemptive_out = all;
    return 0;
}

void lull_preemptive_destroy(struct lull_preemptive *preemptive)
{
    if (preemptive == NULL)
        return;
    lull_node_groups_fini(&preemptive->members);
    free(preemptive->jobs);
    free(preemptive->number);
    free(preemptive->points);
    free(preemptive);
}

/* ---- the bound ---------------------------------------------------------------------------- */

size_t lull_preemptive_cells(const struct lull_preemptive *preemptive)
{
    return preemptive->groups * preemptive->slots.slots;
}

double lull_preemptive_bound(struct lull_preemptive *preemptive, const double *gpu_w,
                             double *excess_out)
{
    const struct lull_preemptive_slots *slots = &preemptive->slots;
    double worth_j = 0.0; /* of all GPUs, all the time */
    double bound_j = 0.0;
    double added_j = 0.0;

    for (size_t group = 0, cell = 0; group < preemptive->groups; group++) {
        const double gpu_s = (double)preemptive->members.gpus[group] * slots->slot_s;

        for (uint32_t slot = 0; slot < slots->slots; slot++, cell++) {
            excess_out[cell] = -gpu_s;
            worth_j += gpu_s * gpu_w[cell];
        }
    }
    for (size_t i = 0; i < preemptive->count; i++) {
        const double alone_j =
            lull_preemptive_alone_j(&preemptive->jobs[i], slots, gpu_w, excess_out);

        bound_j += alone_j;
        added_j += fabs(alone_j);
        if (!isinf(preemptive->jobs[i].value_j))
            added_j += preemptive->jobs[i].value_j;
    }
    return bound_j - worth_j - slip_ratio * (added_j + worth_j);
}

/* ---- the search --------------------------------------------------------------------------- */

/* Adds up, slot by slot, the GPUs requested by the present jobs, and the cost of a second of them.
 */
static void count_present(const struct lull_preemptive *all, const int64_t *end_ns, double *gpus,
                          double *second_j)
{
    const int64_t slot_ns = all->problem->slot_ns;

    for (size_t i = 0; i < all->count; i++) {
        double unused_j;
        const struct lull_preemptive_point *point =
            lull_preemptive_best_point(&all->jobs[i], &unused_j);
        const int64_t arrival_ns = all->problem->jobs->all[all->number[i]].arrival_ns;
        const int64_t last_ns = end_ns[all->number[i]];

        for (int64_t slot = arrival_ns / slot_ns;
             slot < all->slots.slots && slot * slot_ns < last_ns; slot++) {
            gpus[point->row + (size_t)slot] += point->gpu_s * point->rate;
            second_j[point->row + (size_t)slot] += all->jobs[i].second_j;
        }
    }
}

/* Guesses the prices. If more GPUs are requested than available, the price of a GPU-second is the
 * loss of the jobs that get none. */
static int preemptive_guess(const struct lull_preemptive *all, const int64_t *end_ns, double *gpu_w)
{
    const size_t cells = lull_preemptive_cells(all);
    double *gpus = calloc(cells + 1, sizeof(*gpus));

    if (gpus == NULL)
        return -ENOMEM;
    count_present(all, end_ns, gpus, gpu_w);
    for (size_t cell = 0; cell < cells; cell++) {
        const size_t type = cell / all->slots.slots;
        const double room = (double)all->members.gpus[type];

        gpu_w[cell] = gpus[cell] > room ? gpu_w[cell] * (1.0 / room - 1.0 / gpus[cell]) : 0.0;
    }
    free(gpus);
    return 0;
}

static int preemptive_evaluate(void *asked, const double *gpu_w, double *bound_j_out,
                               double *excess_out)
{
    *bound_j_out = lull_preemptive_bound(asked, gpu_w, excess_out);
    return 0;
}

int lull_preemptive_search(struct lull_preemptive *preemptive, const int64_t *end_ns,
                           const struct lull_price_ascent *ascent, double *bound_j_out)
{
    const size_t cells = lull_preemptive_cells(preemptive);
    double *gpu_w = calloc(cells + 1, sizeof(*gpu_w));
    int rc;

    if (gpu_w == NULL)
        return -ENOMEM;
    rc = preemptive_guess(preemptive, end_ns, gpu_w);
    if (rc >= 0)
        rc = lull_price_ascend(cells, preemptive_evaluate, preemptive, ascent, gpu_w, bound_j_out);
    free(gpu_w);
    return rc;
}
