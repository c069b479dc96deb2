/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/edl/edl.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ALL_ERRORS = LULL_EDL_ARRIVAL_UNCHECKED | LULL_EDL_READJUSTS_TO_NONE | LULL_EDL_STARTS_IN_PAST |
                 LULL_EDL_DEDICATED_START
};

static const struct {
    const char *name;
    unsigned errors;
} variants[] = {
    {"published", ALL_ERRORS},
    {"repaired", LULL_EDL_DEDICATED_START},
    {"repaired-shared", 0},
};

static const char *const error_names[] = {"arrival-unchecked", "readjusts-to-none",
                                          "starts-in-past", "dedicated-start"};

void lull_edl_config_default(struct lull_edl_config *config)
{
    *config = (struct lull_edl_config){
        .has_dvfs = true,
        .theta_ratio = 1.0,
        .turn_on_j = INFINITY,
        .gpus_per_node = 1,
        .range = lull_dvfs_assumed,
    };
}

int lull_edl_find_variant(const char *name, unsigned *errors_out)
{
    for (size_t i = 0; i < sizeof(variants) / sizeof(variants[0]); i++)
        if (strcmp(variants[i].name, name) == 0) {
            *errors_out = variants[i].errors;
            return 0;
        }
    return -EINVAL;
}

const char *lull_edl_error_name(unsigned index)
{
    return index < sizeof(error_names) / sizeof(error_names[0]) ? error_names[index] : NULL;
}

void lull_edl_add_up(const struct lull_edl_job *jobs, size_t count,
                     struct lull_edl_outcome *outcome)
{
    const double rounding_s = 1e-6;

    outcome->run_j = 0.0;
    outcome->misses = 0;
    for (size_t i = 0; i < count; i++) {
        outcome->run_j += lull_dvfs_energy_j(&jobs[i].point);
        outcome->misses += jobs[i].finish_s > jobs[i].task->deadline_s + rounding_s;
    }
}

/* ---- points ------------------------------------------------------------------------------- */

struct lull_dvfs_point lull_edl_choose_point(const struct lull_edl_config *config,
                                             const struct lull_dvfs_task *task, double now_s)
{
    const double limit_s = task->deadline_s - now_s;
    struct lull_dvfs_point point;

    if (!config->has_dvfs)
        return lull_dvfs_base(task);
    point = lull_dvfs_solve(task, &config->range);
    if (point.time_s <= limit_s || (config->errors & LULL_EDL_ARRIVAL_UNCHECKED))
        return point;
    lull_dvfs_solve_within(task, &config->range, limit_s, &point);
    return point;
}

static bool readjust_within(const struct lull_edl_config *config, struct lull_edl_job *job,
                            double slack_s)
{
    const double others = config->gpus_per_node - 1;
    const double max_j = config->turn_on_j + config->idle_w * others * job->point.time_s;
    struct lull_dvfs_point point;

    if (!lull_dvfs_solve_within(job->task, &config->range, slack_s, &point) ||
        lull_dvfs_energy_j(&point) - lull_dvfs_energy_j(&job->point) > max_j)
        return false;
    job->point = point;
    return true;
}

/* Makes the job fit into the slack, if its rules allow as much. */
static bool edl_readjust(const struct lull_edl_config *config, struct lull_edl_job *job,
                         double slack_s)
{
    const double min_s = fmax(config->theta_ratio * job->point.time_s,
                              lull_dvfs_fastest(job->task, &config->range).time_s);

    if (!config->has_dvfs || !(slack_s > min_s))
        return false;
    if (!(config->errors & LULL_EDL_READJUSTS_TO_NONE))
        return readjust_within(config, job, slack_s);
    lull_dvfs_solve_published(job->task, &config->range, slack_s, &job->point);
    return true;
}

/* ---- order -------------------------------------------------------------------------------- */

/* Orders by key, and equal jobs as they came. */
static int edl_compare(double a_key, double b_key, const struct lull_edl_job *a,
                       const struct lull_edl_job *b)
{
    if (a_key != b_key)
        return a_key < b_key ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int edl_by_deadline(const void *left, const void *right)
{
    const struct lull_edl_job *const a = *(struct lull_edl_job *const *)left;
    const struct lull_edl_job *const b = *(struct lull_edl_job *const *)right;

    return edl_compare(a->task->deadline_s, b->task->deadline_s, a, b);
}

static int by_falling_time(const void *left, const void *right)
{
    const struct lull_edl_job *const a = *(struct lull_edl_job *const *)left;
    const struct lull_edl_job *const b = *(struct lull_edl_job *const *)right;

    return edl_compare(-a->point.time_s, -b->point.time_s, a, b);
}

void lull_edl_sort(const struct lull_edl_config *config, struct lull_edl_job **jobs, size_t count)
{
    qsort(jobs, count, sizeof(*jobs),
          config->order == LULL_EDL_EDF ? edl_by_deadline : by_falling_time);
}

/* ---- GPUs --------------------------------------------------------------------------------- */

static double slack_on(const struct lull_gpu_pool *pool, uint32_t gpu,
                       const struct lull_dvfs_task *task, double now_s)
{
    return task->deadline_s - fmax(now_s, lull_gpu_pool_get(pool, gpu).end_s);
}

static int64_t choose_free_first(const struct lull_edl_config *config,
                                 const struct lull_gpu_pool *pool, struct lull_edl_job *job,
                                 double now_s)
{
    const int64_t gpu = lull_gpu_pool_free_first(pool);
    double slack_s;

    if (gpu == LULL_GPU_NONE)
        return LULL_GPU_NONE;
    slack_s = slack_on(pool, (uint32_t)gpu, job->task, now_s);
    if (slack_s >= job->point.time_s || edl_readjust(config, job, slack_s))
        return gpu;
    return LULL_GPU_NONE;
}

int64_t lull_edl_choose_gpu(const struct lull_edl_config *config, const struct lull_gpu_pool *pool,
                            struct lull_edl_job *job, double now_s)
{
    struct lull_gpu_need need = {
        .now_s = now_s,
        .time_s = job->point.time_s,
        .deadline_s = job->task->deadline_s,
    };
    enum lull_edl_place place = config->place;

    if (place == LULL_EDL_SPT)
        return choose_free_first(config, pool, job, now_s);
    if (place == LULL_EDL_BIN)
        place = now_s > 0.0 ? LULL_EDL_FF : LULL_EDL_WF;
    if (place == LULL_EDL_FF)
        return lull_gpu_pool_first_fit(pool, &need);
    if (place == LULL_EDL_PACK) {
        const int64_t gpu = lull_gpu_pool_first_fit(pool, &need);

        return gpu != LULL_GPU_NONE ? gpu : choose_free_first(config, pool, job, now_s);
    }
    need.is_now_ignored = (config->errors & LULL_EDL_STARTS_IN_PAST) != 0;
    return place == LULL_EDL_BF ? lull_gpu_pool_best_fit(pool, &need)
                                : lull_gpu_pool_worst_fit(pool, &need);
}

int64_t lull_edl_choose_crowded_gpu(const struct lull_edl_config *config,
                                    const struct lull_gpu_pool *pool, struct lull_edl_job *job,
                                    double now_s)
{
    const int64_t gpu = lull_gpu_pool_free_first(pool);
    double slack_s;

    if (gpu == LULL_GPU_NONE || !config->has_dvfs || (config->errors & LULL_EDL_READJUSTS_TO_NONE))
        return gpu;
    slack_s = slack_on(pool, (uint32_t)gpu, job->task, now_s);
    if (slack_s < job->point.time_s &&
        !lull_dvfs_solve_within(job->task, &config->range, slack_s, &job->point))
        job->point = lull_dvfs_fastest(job->task, &config->range);
    return gpu;
}

void lull_edl_give(struct lull_gpu_pool *pool, uint32_t gpu, double now_s, struct lull_edl_job *job)
{
    struct lull_gpu_state state = lull_gpu_pool_get(pool, gpu);

    job->start_s = fmax(now_s, state.end_s);
    job->finish_s = job->start_s + job->point.time_s;
    state.end_s = job->finish_s;
    state.work_s += ceil(job->point.time_s);
    state.load_ratio = fmax(state.load_ratio, state.work_s / job->task->deadline_s);
    lull_gpu_pool_set(pool, gpu, state);
}

/* ---- all tasks at once ----------------------------------------------------------------------- */

struct edl_schedule {
    const struct lull_edl_config *config;
    struct lull_gpu_pool *pool;
    uint32_t nodes;
};

static int edl_turn_on(struct edl_schedule *schedule, int64_t *gpu_out)
{
    const uint64_t first = (uint64_t)schedule->nodes * schedule->config->gpus_per_node;

    for (uint64_t i = 0; i < schedule->config->gpus_per_node; i++) {
        const int result = first + i < LULL_GPU_POOL_MAX
                               ? lull_gpu_pool_add(schedule->pool, (uint32_t)(first + i))
                               : -E2BIG;

        if (result < 0)
            return result;
    }
    schedule->nodes++;
    *gpu_out = (int64_t)first;
    return 0;
}

static int edl_place(struct edl_schedule *schedule, struct lull_edl_job *job)
{
    const struct lull_edl_config *config = schedule->config;
    int64_t gpu = lull_edl_choose_gpu(config, schedule->pool, job, 0.0);
    int result = 0;

    if (gpu == LULL_GPU_NONE && (config->node_limit == 0 || schedule->nodes < config->node_limit))
        result = edl_turn_on(schedule, &gpu);
    else if (gpu == LULL_GPU_NONE)
        gpu = lull_edl_choose_crowded_gpu(config, schedule->pool, job, 0.0);
    if (result < 0)
        return result;
    lull_edl_give(schedule->pool, (uint32_t)gpu, 0.0, job);
    job->node = (uint32_t)gpu / config->gpus_per_node;
    job->gpu = (uint32_t)gpu % config->gpus_per_node;
    return 0;
}

/* The node is on until the last of its GPUs is done. */
static double idle_of_node(const struct edl_schedule *schedule, uint32_t node)
{
    const uint32_t count = schedule->config->gpus_per_node;
    double max_s = 0.0;
    double idle_s = 0.0;

    for (uint32_t i = 0; i < count; i++)
        max_s = fmax(max_s, lull_gpu_pool_get(schedule->pool, node * count + i).work_s);
    for (uint32_t i = 0; i < count; i++)
        idle_s += max_s - lull_gpu_pool_get(schedule->pool, node * count + i).work_s;
    return idle_s;
}

static int place_all(struct edl_schedule *schedule, struct lull_edl_job *jobs,
                     struct lull_edl_job **order, size_t count, struct lull_error *err)
{
    for (size_t i = 0; i < count; i++)
        order[i] = &jobs[i];
    lull_edl_sort(schedule->config, order, count);
    for (size_t i = 0; i < count; i++) {
        const int result = edl_place(schedule, order[i]);

        if (result == -E2BIG)
            return lull_error_set(err, result,
                                  "the tasks need more than %d GPUs; limit them with --gpus",
                                  LULL_GPU_POOL_MAX);
        if (result < 0)
            return lull_error_set(err, result, "no memory for %u nodes", schedule->nodes + 1);
    }
    return 0;
}

static int schedule_jobs(struct edl_schedule *schedule, struct lull_edl_job *jobs, size_t count,
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
        .max_nodes = schedule->nodes,
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
    struct edl_schedule schedule = {.config = config};
    int result;

    for (size_t i = 0; i < count; i++) {
        if (tasks[i].arrival_s > 0.0)
            return lull_error_set(
                err, -EINVAL,
                "task %llu arrives at %g s, not at 0; schedule the tasks with --online",
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
