/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/edl.h"

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
    const double most_j = config->turn_on_j + config->idle_w * others * job->point.time_s;
    struct lull_dvfs_point point;

    if (!lull_dvfs_solve_within(job->task, &config->range, slack_s, &point) ||
        lull_dvfs_energy_j(&point) - lull_dvfs_energy_j(&job->point) > most_j)
        return false;
    job->point = point;
    return true;
}

/* Makes the job fit into the slack, if its rules allow as much. */
static bool readjust(const struct lull_edl_config *config, struct lull_edl_job *job, double slack_s)
{
    const double least_s = fmax(config->theta_ratio * job->point.time_s,
                                lull_dvfs_fastest(job->task, &config->range).time_s);

    if (!config->has_dvfs || !(slack_s > least_s))
        return false;
    if (!(config->errors & LULL_EDL_READJUSTS_TO_NONE))
        return readjust_within(config, job, slack_s);
    lull_dvfs_solve_published(job->task, &config->range, slack_s, &job->point);
    return true;
}

/* ---- order -------------------------------------------------------------------------------- */

/* By key, then as they came. */
static int compare(double a_key, double b_key, const struct lull_edl_job *a,
                   const struct lull_edl_job *b)
{
    if (a_key != b_key)
        return a_key < b_key ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int by_deadline(const void *left, const void *right)
{
    const struct lull_edl_job *const a = *(struct lull_edl_job *const *)left;
    const struct lull_edl_job *const b = *(struct lull_edl_job *const *)right;

    return compare(a->task->deadline_s, b->task->deadline_s, a, b);
}

static int by_falling_time(const void *left, const void *right)
{
    const struct lull_edl_job *const a = *(struct lull_edl_job *const *)left;
    const struct lull_edl_job *const b = *(struct lull_edl_job *const *)right;

    return compare(-a->point.time_s, -b->point.time_s, a, b);
}

void lull_edl_sort(const struct lull_edl_config *config, struct lull_edl_job **jobs, size_t count)
{
    qsort(jobs, count, sizeof(*jobs),
          config->order == LULL_EDL_EDF ? by_deadline : by_falling_time);
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
    if (slack_s >= job->point.time_s || readjust(config, job, slack_s))
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
