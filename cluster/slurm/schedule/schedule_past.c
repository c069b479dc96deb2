/* Passes earlier placements to the policy. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>

#include "cluster/slurm/schedule/schedule_state.h"

#define SECOND_NS INT64_C(1000000000)

/* Half of what a policy's time can hold. */
static const int64_t longest_ago_s = LULL_CLUSTER_MAX_NS / SECOND_NS / 2;

void lull_schedule_bound_past(struct lull_schedule *schedule)
{
    const struct lull_past *const past = schedule->rules.past;
    const int64_t now_s = schedule->queue->now_s;

    if (past == NULL || schedule->rules.policy->calls->recall == NULL)
        return;
    schedule->past_end = past->count;
    while (schedule->past_end > 0 && past->jobs[schedule->past_end - 1]->submit_s > now_s)
        schedule->past_end--;
    while (schedule->past_next < schedule->past_end &&
           past->jobs[schedule->past_next]->submit_s < now_s - longest_ago_s)
        schedule->past_next++;
}

/* Appends the points whose type of GPU still exists. Returns the number of the chosen one, or
 * LULL_SCHEDULE_NONE: it is not among them. */
static uint32_t schedule_past_take_points(struct lull_schedule *schedule,
                                          const struct lull_past_job *job, uint32_t *count_out)
{
    struct lull_cluster_point *const points = &schedule->points[schedule->point_count];
    uint32_t chosen = LULL_SCHEDULE_NONE;

    *count_out = 0;
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_past_point *const point = &job->points[i];
        const uint32_t type = lull_schedule_find_type(schedule, point->type);

        if (type == schedule->cluster.type_count)
            continue;
        if (i == job->chosen)
            chosen = *count_out;
        points[(*count_out)++] = (struct lull_cluster_point){.type = type,
                                                             .gpus = job->gpus,
                                                             .sm_mhz = point->sm_mhz,
                                                             .time_ns = point->time_ns,
                                                             .energy_j = point->energy_j};
    }
    return chosen;
}

static void schedule_past_add(struct lull_schedule *schedule, const struct lull_past_job *job)
{
    const uint32_t number = (uint32_t)schedule->all.count;
    uint32_t chosen, count;

    assert(schedule->point_count + LULL_CLUSTER_MAX_POINTS <= schedule->point_room);
    chosen = schedule_past_take_points(schedule, job, &count);
    if (chosen == LULL_SCHEDULE_NONE)
        return;
    schedule->jobs[number] = (struct lull_cluster_job){
        .arrival_ns = (job->submit_s - schedule->base_s) * SECOND_NS,
        .deadline_ns = LULL_CLUSTER_NEVER,
        .weight = 1.0,
        .point_count = count,
        .points = &schedule->points[schedule->point_count],
    };
    schedule->point_count += count;
    schedule->job_of[number] = LULL_SCHEDULE_NONE;
    schedule->recalled[number] = chosen;
    schedule->all.count++;
}

void lull_schedule_add_past(struct lull_schedule *schedule, const struct lull_queue_job *job)
{
    for (; schedule->past_next < schedule->past_end; schedule->past_next++) {
        const struct lull_past_job *const past = schedule->rules.past->jobs[schedule->past_next];

        if (job != NULL && (past->submit_s > job->submit_s ||
                            (past->submit_s == job->submit_s && past->id > job->id)))
            return;
        if (job == NULL || past->id != job->id || job->stage != LULL_QUEUE_WAITS)
            schedule_past_add(schedule, past);
    }
}

uint32_t lull_schedule_find_type(const struct lull_schedule *schedule, const char *name)
{
    for (uint32_t type = 0; type < schedule->cluster.type_count; type++) {
        assert(schedule->types[type].name != NULL);
        if (strcmp(schedule->types[type].name, name) == 0)
            return type;
    }
    return schedule->cluster.type_count;
}
