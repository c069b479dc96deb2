/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/bound/slot_relaxation.h"

#include <errno.h>
#include <stdlib.h>

struct slotter {
    const struct lull_cluster *cluster;
    const struct lull_slotting *slotting;
    struct lull_slot_relaxation *relaxation;
    struct lull_node_groups groups;
    size_t point_count;
};

static double seconds(int64_t ns)
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

/* What the job draws at its peak above its GPUs at rest. The simulation never counts a GPU with a
 * job below an idle one, so that this does not either. */
static uint32_t power_w(const struct slotter *slotter, const struct lull_cluster_point *point)
{
    const double peak_ratio = fmax(slotter->slotting->peak_ratio, 1.0);
    const double idle_w = slotter->cluster->types[point->type].idle_w * point->gpus;
    const double peak_w = fmax(peak_ratio * point->energy_j / seconds(point->time_ns), idle_w);

    return (uint32_t)fmin(floor(fmax(peak_w - rest_w(slotter, point), 0.0)), UINT32_MAX);
}

/* What the job costs if it begins so long after its arrival; below 0 where its slot begins earlier.
 */
static double cost_j(const struct slotter *slotter, const struct lull_cluster_job *job,
                     const struct lull_cluster_point *point, int64_t after_ns)
{
    const double count_w = slotter->slotting->completion_w * job->weight;
    const double rest_j =
        slotter->slotting->is_above_rest ? rest_w(slotter, point) * seconds(point->time_ns) : 0.0;

    return point->energy_j - rest_j - job->value_j +
           count_w * (seconds(after_ns) + seconds(point->time_ns));
}

/* Adds an operating point that takes no GPUs and has one start, which bounds the job from below. */
static void add_free(struct slotter *slotter, const struct lull_cluster_job *job,
                     const struct lull_cluster_point *point, int64_t first, int64_t after_ns)
{
    slotter->relaxation->points[slotter->point_count++] = (struct lull_slot_point){
        .type = job->pool * slotter->cluster->type_count + point->type,
        .gpus = point->gpus,
        .first = (uint32_t)first,
        .last = (uint32_t)first,
        .cost_j = cost_j(slotter, job, point, after_ns),
    };
}

static void add_point(struct slotter *slotter, const struct lull_cluster_job *job, uint32_t number)
{
    const struct lull_cluster_point *point = &job->points[number];
    const int64_t horizon_ns = slotter->slotting->horizon_ns;
    const bool is_open = slotter->slotting->is_open;
    const int64_t until_ns =
        is_open || job->deadline_ns < horizon_ns ? job->deadline_ns : horizon_ns;
    const int64_t slot_ns = slotter->slotting->slot_ns;
    const int64_t first = job->arrival_ns / slot_ns;
    const int64_t begun_ns = first * slot_ns - job->arrival_ns;
    const double count_w = slotter->slotting->completion_w * job->weight;
    int64_t last_ns = until_ns - point->time_ns;

    if (last_ns < job->arrival_ns ||
        !lull_cluster_point_is_possible(job, number, slotter->cluster, slotter->groups.gpus))
        return;
    if (job->is_preemptible) {
        add_free(slotter, job, point, is_open ? 0 : first, begun_ns);
        return;
    }
    if (is_open && last_ns > horizon_ns) {
        last_ns = horizon_ns;
        add_free(slotter, job, point, 0,
                 horizon_ns > job->arrival_ns ? horizon_ns - job->arrival_ns : 0);
        if (count_w <= 0.0 || last_ns < job->arrival_ns)
            return; /* no start is better than that one */
    }
    slotter->relaxation->points[slotter->point_count++] = (struct lull_slot_point){
        .type = job->pool * slotter->cluster->type_count + point->type,
        .gpus = point->gpus,
        .slots = (uint32_t)(point->time_ns / slot_ns),
        .first = (uint32_t)first,
        .last = (uint32_t)(last_ns / slot_ns),
        .power_w = power_w(slotter, point),
        .cost_j = cost_j(slotter, job, point, begun_ns),
        .delay_j = count_w * seconds(slot_ns),
    };
}

static int add_jobs(struct slotter *slotter, const struct lull_cluster_jobs *jobs,
                    struct lull_error *err)
{
    for (size_t i = 0; i < jobs->count; i++) {
        const size_t before = slotter->point_count;

        for (uint32_t m = 0; m < jobs->all[i].point_count; m++)
            add_point(slotter, &jobs->all[i], m);
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

/* How many slots there are, so that whatever begins by the horizon also ends in one of them. */
static int64_t slots_of(const struct lull_cluster_jobs *jobs, const struct lull_slotting *slotting)
{
    int64_t slots = slotting->horizon_ns / slotting->slot_ns;

    if (slotting->is_open)
        slots += lull_cluster_longest_ns(jobs) / slotting->slot_ns;
    return slots > 0 ? slots : 1;
}

static int check_sizes(const struct lull_cluster *cluster, const struct lull_cluster_jobs *jobs,
                       const struct lull_slotting *slotting, struct lull_error *err)
{
    if (slots_of(jobs, slotting) > LULL_SLOTS_MOST)
        return lull_error_set(err, -ERANGE, "over %d slots; take longer ones", LULL_SLOTS_MOST);
    if ((uint64_t)cluster->pool_count * cluster->type_count > LULL_SLOTS_MOST_TYPES)
        return lull_error_set(err, -ERANGE, "over %d types of GPU in pools", LULL_SLOTS_MOST_TYPES);
    return 0;
}

static int make_room(struct slotter *slotter, const struct lull_cluster_jobs *jobs)
{
    struct lull_slot_relaxation *relaxation = slotter->relaxation;
    const size_t types = lull_cluster_group_count(slotter->cluster);
    size_t points = 0;

    for (size_t i = 0; i < jobs->count; i++)
        points += 2 * (size_t)jobs->all[i].point_count; /* one behind the horizon, too */
    relaxation->gpus = calloc(types, sizeof(*relaxation->gpus));
    relaxation->jobs = calloc(jobs->count + 1, sizeof(*relaxation->jobs));
    relaxation->points = calloc(points + 1, sizeof(*relaxation->points));
    relaxation->problem = (struct lull_slot_problem){
        .slots = (uint32_t)slots_of(jobs, slotter->slotting),
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
    int result = check_sizes(cluster, jobs, slotting, err);

    *slotted_out = (struct lull_slot_relaxation){0};
    if (result < 0)
        return result;
    result = make_room(&slotter, jobs);
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
