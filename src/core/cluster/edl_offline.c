/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/edl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

struct schedule {
    const struct lull_edl_config *config;
    struct lull_gpu_pool *pool;
    uint32_t nodes;
};

static int turn_on(struct schedule *schedule, int64_t *gpu_out)
{
    const uint64_t first = (uint64_t)schedule->nodes * schedule->config->gpus_per_node;

    for (uint64_t i = 0; i < schedule->config->gpus_per_node; i++) {
        const int result = first + i < LULL_GPU_POOL_MOST
                               ? lull_gpu_pool_add(schedule->pool, (uint32_t)(first + i))
                               : -E2BIG;

        if (result < 0)
            return result;
    }
    schedule->nodes++;
    *gpu_out = (int64_t)first;
    return 0;
}

static int place(struct schedule *schedule, struct lull_edl_job *job)
{
    const struct lull_edl_config *config = schedule->config;
    int64_t gpu = lull_edl_choose_gpu(config, schedule->pool, job, 0.0);
    int result = 0;

    if (gpu == LULL_GPU_NONE && (config->node_limit == 0 || schedule->nodes < config->node_limit))
        result = turn_on(schedule, &gpu);
    else if (gpu == LULL_GPU_NONE)
        gpu = lull_edl_choose_crowded_gpu(config, schedule->pool, job, 0.0);
    if (result < 0)
        return result;
    lull_edl_give(schedule->pool, (uint32_t)gpu, 0.0, job);
    job->node = (uint32_t)gpu / config->gpus_per_node;
    job->gpu = (uint32_t)gpu % config->gpus_per_node;
    return 0;
}

/* A node is on until the last of its GPUs is done. */
static double idle_of_node(const struct schedule *schedule, uint32_t node)
{
    const uint32_t count = schedule->config->gpus_per_node;
    double most_s = 0.0;
    double idle_s = 0.0;

    for (uint32_t i = 0; i < count; i++)
        most_s = fmax(most_s, lull_gpu_pool_get(schedule->pool, node * count + i).work_s);
    for (uint32_t i = 0; i < count; i++)
        idle_s += most_s - lull_gpu_pool_get(schedule->pool, node * count + i).work_s;
    return idle_s;
}

static int place_all(struct schedule *schedule, struct lull_edl_job *jobs,
                     struct lull_edl_job **order, size_t count, struct lull_error *err)
{
    for (size_t i = 0; i < count; i++)
        order[i] = &jobs[i];
    lull_edl_sort(schedule->config, order, count);
    for (size_t i = 0; i < count; i++) {
        const int result = place(schedule, order[i]);

        if (result == -E2BIG)
            return lull_error_set(err, result, "the tasks want more than %d GPUs; limit them",
                                  LULL_GPU_POOL_MOST);
        if (result < 0)
            return lull_error_set(err, result, "no memory for %u nodes", schedule->nodes + 1);
    }
    return 0;
}

static int schedule_jobs(struct schedule *schedule, struct lull_edl_job *jobs, size_t count,
                         struct lull_edl_outcome *outcome, struct lull_error *err)
{
    struct lull_edl_job **order = malloc((count + 1) * sizeof(struct lull_edl_job *));
    int result;

    if (order == NULL || schedule->pool == NULL)
        result = lull_error_set(err, -ENOMEM, "no memory for %zu tasks", count);
    else
        result = place_all(schedule, jobs, order, count, err);
    free(order);
    if (result < 0)
        return result;
    *outcome = (struct lull_edl_outcome){
        .turn_ons = schedule->nodes,
        .most_nodes = schedule->nodes,
    };
    for (uint32_t node = 0; node < schedule->nodes; node++)
        outcome->idle_s += idle_of_node(schedule, node);
    lull_edl_add_up(jobs, count, outcome);
    return 0;
}

int lull_edl_schedule(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err)
{
    struct schedule schedule = {.config = config};
    int result;

    for (size_t i = 0; i < count; i++) {
        if (tasks[i].arrival_s > 0.0)
            return lull_error_set(err, -EINVAL,
                                  "task %llu arrives at %g s, not at 0: schedule it online",
                                  (unsigned long long)tasks[i].id, tasks[i].arrival_s);
        jobs_out[i] = (struct lull_edl_job){
            .task = &tasks[i],
            .point = lull_edl_choose_point(config, &tasks[i], 0.0),
        };
    }
    schedule.pool = lull_gpu_pool_create();
    result = schedule_jobs(&schedule, jobs_out, count, outcome_out, err);
    lull_gpu_pool_destroy(schedule.pool);
    return result;
}
