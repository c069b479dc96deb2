/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/bound/slot_relaxation.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "base/clock.h"
#include "cluster/core/bound/mode_hull.h"

/* The maximum number of parts into which the times of a mixture are divided, per corner of its
 * hull. More parts give a tighter bound and take longer. */
enum { PARTS = 4 };

/* A mixture may take this much longer, since each clock change rounds its end to a nanosecond.
 */
static const double rounding_s = 1e-6;

struct slotter {
    const struct lull_cluster *cluster;
    const struct lull_slotting *slotting;
    struct lull_slot_relaxation *relaxation;
    struct lull_node_groups groups;
    size_t point_count;
};

static double relaxation_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

static double rest_w(const struct slotter *slotter, const struct lull_cluster_point *point)
{
    const struct lull_slotting *slotting = slotter->slotting;

    if (slotting->rest_w == NULL)
        return 0.0;
    return slotting->rest_w[point->type] * point->gpus;
}

/* The job's peak power above that of its GPUs at rest. The simulation never counts a busy GPU below
 * an idle one, and neither does this. */
static uint32_t relaxation_power_w(const struct slotter *slotter,
                                   const struct lull_cluster_point *point)
{
    const double peak_ratio = fmax(slotter->slotting->peak_ratio, 1.0);
    const double idle_w = slotter->cluster->types[point->type].idle_w * point->gpus;
    const double peak_w =
        fmax(peak_ratio * point->energy_j / relaxation_seconds(point->time_ns), idle_w);

    return (uint32_t)fmin(floor(fmax(peak_w - rest_w(slotter, point), 0.0)), UINT32_MAX);
}

/* Returns the cost of the job if it starts on arrival. */
static double cost_j(const struct slotter *slotter, const struct lull_cluster_job *job,
                     const struct lull_cluster_point *point)
{
    const double count_w = slotter->slotting->completion_w * job->weight;
    const double rest_j = slotter->slotting->is_above_rest
                              ? rest_w(slotter, point) * relaxation_seconds(point->time_ns)
                              : 0.0;

    return point->energy_j - rest_j - job->value_j + count_w * relaxation_seconds(point->time_ns);
}

/* The slots that a job may occupy. */
struct relaxed_span {
    int64_t until_ns; /* it ends by then */
    int64_t first;    /* slot */
    int64_t begun_ns; /* after its arrival; below 0: the slot started earlier */
};

static struct relaxed_span relaxation_span_of(const struct slotter *slotter,
                                              const struct lull_cluster_job *job)
{
    const struct lull_slotting *slotting = slotter->slotting;
    const int64_t first = job->arrival_ns / slotting->slot_ns;
    const bool is_late = slotting->is_open || job->deadline_ns < slotting->horizon_ns;

    return (struct relaxed_span){is_late ? job->deadline_ns : slotting->horizon_ns, first,
                                 first * slotting->slot_ns - job->arrival_ns};
}

/* An interval of run times of a job with GPUs of one type, and the least cost of them if the job
 * starts on arrival. */
struct relaxed_part {
    const struct lull_cluster_point *like; /* its type and GPUs */
    int64_t min_ns;
    double cost_j;
    uint32_t power_w;
};

/* Adds an operating point without GPUs and with one start, which bounds the job's cost from below.
 */
static void add_free(struct slotter *slotter, const struct lull_cluster_job *job,
                     const struct relaxed_part *part, int64_t first, int64_t after_ns)
{
    const double count_w = slotter->slotting->completion_w * job->weight;

    slotter->relaxation->points[slotter->point_count++] = (struct lull_slot_point){
        .type = job->pool * slotter->cluster->type_count + part->like->type,
        .gpus = part->like->gpus,
        .first = (uint32_t)first,
        .last = (uint32_t)first,
        .cost_j = part->cost_j + count_w * relaxation_seconds(after_ns),
    };
}

static void relaxation_add_part(struct slotter *slotter, const struct lull_cluster_job *job,
                                const struct relaxed_part *part)
{
    const int64_t horizon_ns = slotter->slotting->horizon_ns;
    const int64_t slot_ns = slotter->slotting->slot_ns;
    const double count_w = slotter->slotting->completion_w * job->weight;
    const struct relaxed_span span = relaxation_span_of(slotter, job);
    int64_t last_ns = span.until_ns - part->min_ns;

    if (last_ns < job->arrival_ns)
        return;
    if (slotter->slotting->is_open && last_ns > horizon_ns) {
        last_ns = horizon_ns;
        add_free(slotter, job, part, 0,
                 horizon_ns > job->arrival_ns ? horizon_ns - job->arrival_ns : 0);
        if (count_w <= 0.0 || last_ns < job->arrival_ns)
            return; /* no other start is better */
    }
    slotter->relaxation->points[slotter->point_count++] = (struct lull_slot_point){
        .type = job->pool * slotter->cluster->type_count + part->like->type,
        .gpus = part->like->gpus,
        .slots = (uint32_t)(part->min_ns / slot_ns),
        .first = (uint32_t)span.first,
        .last = (uint32_t)(last_ns / slot_ns),
        .power_w = part->power_w,
        .cost_j = part->cost_j + count_w * relaxation_seconds(span.begun_ns),
        .delay_j = count_w * relaxation_seconds(slot_ns),
    };
}

static bool relaxation_is_possible(const struct slotter *slotter,
                                   const struct lull_cluster_job *job, uint32_t number)
{
    return lull_cluster_point_is_possible(job, number, slotter->cluster, slotter->groups.gpus);
}

static struct relaxed_part part_of(const struct slotter *slotter,
                                   const struct lull_cluster_job *job, uint32_t number)
{
    const struct lull_cluster_point *point = &job->points[number];

    return (struct relaxed_part){point, point->time_ns, cost_j(slotter, job, point),
                                 relaxation_power_w(slotter, point)};
}

/* ---- mixtures ----------------------------------------------------------------------------- */

/* The hull of the job's feasible operating points with the type and GPUs of a given one, or of all
 * (NULL). part_out receives the least time and power. */
static void make_hull(const struct slotter *slotter, const struct lull_cluster_job *job,
                      const struct lull_cluster_point *like, struct lull_mode_hull *hull_out,
                      struct relaxed_part *part_out)
{
    struct lull_mode_corner corners[LULL_CLUSTER_RELAXED_POINTS];
    size_t count = 0;

    *part_out = (struct relaxed_part){
        .like = &job->points[0], .min_ns = LULL_CLUSTER_NEVER, .power_w = UINT32_MAX};

    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];

        if (!relaxation_is_possible(slotter, job, i) ||
            (like != NULL && (point->type != like->type || point->gpus != like->gpus)))
            continue;
        corners[count++] = (struct lull_mode_corner){relaxation_seconds(point->time_ns),
                                                     cost_j(slotter, job, point)};
        part_out->like = point;
        part_out->min_ns = lull_earlier_ns(part_out->min_ns, point->time_ns);
        if (relaxation_power_w(slotter, point) < part_out->power_w)
            part_out->power_w = relaxation_power_w(slotter, point);
    }
    lull_mode_hull_make(corners, count, hull_out);
}

/* Adds a job that may be paused, in any mixture of operating points that ends in time. */
static void add_paused(struct slotter *slotter, const struct lull_cluster_job *job)
{
    const struct relaxed_span span = relaxation_span_of(slotter, job);
    const double window_s = relaxation_seconds(span.until_ns - job->arrival_ns) + rounding_s;
    struct lull_mode_hull hull;
    struct relaxed_part part;

    make_hull(slotter, job, NULL, &hull, &part);
    if (hull.count == 0 || hull.corners[0].time_s > window_s)
        return;
    part.cost_j = lull_mode_hull_min_j(&hull, 0.0, window_s);
    add_free(slotter, job, &part, slotter->slotting->is_open ? 0 : span.first, span.begun_ns);
}

/* Adds the run times of a job with the type and the number of GPUs of one of its operating points,
 * one slot apart, or several slots where that would be too many. */
static void add_mixtures(struct slotter *slotter, const struct lull_cluster_job *job,
                         uint32_t number)
{
    const int64_t slot_ns = slotter->slotting->slot_ns;
    struct lull_mode_hull hull;
    int64_t min_ns, max_ns, first, step;
    struct relaxed_part part;

    make_hull(slotter, job, &job->points[number], &hull, &part);
    min_ns = part.min_ns;
    max_ns = llround(lull_mode_hull_best_s(&hull) * 1e9); /* longer ones cost no less */
    first = min_ns / slot_ns;
    step = (max_ns / slot_ns - first) / (PARTS * (int64_t)hull.count) + 1;
    for (int64_t slots = first; slots <= max_ns / slot_ns; slots += step) {
        part.min_ns = lull_later_ns(slots * slot_ns, min_ns);
        part.cost_j =
            lull_mode_hull_min_j(&hull, relaxation_seconds(part.min_ns),
                                 relaxation_seconds((slots + step) * slot_ns) + rounding_s);
        relaxation_add_part(slotter, job, &part);
    }
}

/* Returns whether an operating point is the first feasible one of its type and number of GPUs. */
static bool is_first_of_group(const struct slotter *slotter, const struct lull_cluster_job *job,
                              uint32_t number)
{
    for (uint32_t i = 0; i < number; i++)
        if (job->points[i].type == job->points[number].type &&
            job->points[i].gpus == job->points[number].gpus &&
            relaxation_is_possible(slotter, job, i))
            return false;
    return true;
}

/* ---- the problem -------------------------------------------------------------------------- */

static void relaxation_add_points(struct slotter *slotter, const struct lull_cluster_job *job)
{
    if (job->is_preemptible) {
        add_paused(slotter, job);
        return;
    }
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct relaxed_part part = part_of(slotter, job, i);

        if (!relaxation_is_possible(slotter, job, i))
            continue;
        if (!slotter->slotting->may_reclock)
            relaxation_add_part(slotter, job, &part);
        else if (is_first_of_group(slotter, job, i))
            add_mixtures(slotter, job, i);
    }
}

static int add_jobs(struct slotter *slotter, const struct lull_cluster_jobs *jobs,
                    struct lull_error *err)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const size_t before = slotter->point_count;

        relaxation_add_points(slotter, &jobs->all[i]);
        if (slotter->point_count == before && jobs->all[i].value_j <= 0.0)
            return lull_error_set(err, -EINVAL,
                                  "job %zu fits nowhere between its arrival and its deadline", i);
        slotter->relaxation->jobs[i] = (struct lull_slot_job){
            .reject_j = jobs->all[i].value_j > 0.0 ? 0.0 : LULL_SLOTS_MANDATORY,
            .point_count = (uint32_t)(slotter->point_count - before),
            .points = slotter->relaxation->points + before,
        };
    }
    return lull_slot_problem_check(&slotter->relaxation->problem, err);
}

/* The number of slots, so that every job that starts by the horizon also ends in one of them. */
static int64_t relaxation_slots_of(const struct lull_cluster_jobs *jobs,
                                   const struct lull_slotting *slotting)
{
    int64_t slots = slotting->horizon_ns / slotting->slot_ns;

    if (slotting->is_open)
        slots += lull_cluster_longest_ns(jobs) / slotting->slot_ns;
    return slots > 0 ? slots : 1;
}

static int relaxation_check_sizes(const struct lull_cluster *cluster,
                                  const struct lull_cluster_jobs *jobs,
                                  const struct lull_slotting *slotting, struct lull_error *err)
{
    if (relaxation_slots_of(jobs, slotting) > LULL_SLOTS_MOST)
        return lull_error_set(err, -ERANGE, "over %d slots; take longer ones", LULL_SLOTS_MOST);
    if ((uint64_t)cluster->pool_count * cluster->type_count > LULL_SLOTS_MAX_TYPES)
        return lull_error_set(err, -ERANGE, "over %d types of GPU in pools", LULL_SLOTS_MAX_TYPES);
    return 0;
}

static int relaxation_make_room(struct slotter *slotter, const struct lull_cluster_jobs *jobs)
{
    struct lull_slot_relaxation *relaxation = slotter->relaxation;
    const size_t types = lull_cluster_group_count(slotter->cluster);
    size_t points = 0;

    for (size_t i = 0; i < jobs->count; i++)
        points += (size_t)jobs->all[i].point_count * 2 * (PARTS + 1); /* also after the horizon */
    relaxation->gpus = calloc(types, sizeof(*relaxation->gpus));
    relaxation->jobs = calloc(jobs->count + 1, sizeof(*relaxation->jobs));
    relaxation->points = calloc(points + 1, sizeof(*relaxation->points));
    relaxation->problem = (struct lull_slot_problem){
        .slots = (uint32_t)relaxation_slots_of(jobs, slotter->slotting),
        .type_count = (uint32_t)types,
        .gpus = relaxation->gpus,
        .cap_w = slotter->slotting->cap_w,
        .job_count = jobs->count,
        .jobs = relaxation->jobs,
    };
    if (relaxation->gpus == NULL || relaxation->jobs == NULL || relaxation->points == NULL ||
        lull_node_groups_init(&slotter->groups, slotter->cluster) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < types; i++)
        relaxation->gpus[i] = (uint32_t)slotter->groups.gpus[i];
    return 0;
}

int lull_slot_relaxation_create(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs,
                                const struct lull_slotting *slotting,
                                struct lull_slot_relaxation *slotted_out, struct lull_error *err)
{
    struct slotter slotter = {.cluster = cluster, .slotting = slotting, .relaxation = slotted_out};
    int result = relaxation_check_sizes(cluster, jobs, slotting, err);

    *slotted_out = (struct lull_slot_relaxation){0};
    if (result < 0)
        return result;
    result = relaxation_make_room(&slotter, jobs);
    if (result == 0)
        result = add_jobs(&slotter, jobs, err);
    else
        lull_error_set(err, result, "no memory for %zu jobs in slots", jobs->count);
    lull_node_groups_fini(&slotter.groups);
    if (result < 0)
        lull_slot_relaxation_fini(slotted_out);
    return result;
}

void lull_slot_relaxation_fini(struct lull_slot_relaxation *relaxation)
{
    free(relaxation->gpus);
    free(relaxation->jobs);
    free(relaxation->points);
    *relaxation = (struct lull_slot_relaxation){0};
}
