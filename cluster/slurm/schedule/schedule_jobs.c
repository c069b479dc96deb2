/* Converts the queue's nodes and jobs for a policy. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/slurm/schedule/schedule_state.h"

#define SECOND_NS INT64_C(1000000000)

/* The assumed length of a job without any limit, and the
 * assumed remaining time of one that should have ended. */
static const int64_t endless_s = INT64_C(30) * 86400;
static const int64_t overdue_s = 60;

/* A job is delayed for cheaper power if that saves more than this share. A tenth of its
 * length and some minutes must remain before its deadline, so that GPUs can become free. */
static const double min_saving_ratio = 0.02;
static const double spare_ratio = 0.1;
static const int64_t spare_s = 300;

/* ---- the cluster --------------------------------------------------------------------------- */

static void add_type(struct lull_schedule *schedule, const struct lull_queue_node *node)
{
    const struct lull_table_gpu *const gpu =
        lull_point_table_gpu(schedule->rules.table, node->type);
    const uint32_t type = schedule->cluster.type_count++;

    schedule->types[type] = (struct lull_cluster_type){.name = node->type};
    if (gpu != NULL)
        schedule->types[type].idle_w = gpu->idle_w;
    schedule->min_gpus[type] = node->gpus;
}

static int make_cluster_room(struct lull_schedule *schedule)
{
    const size_t count = schedule->queue->node_count > 0 ? schedule->queue->node_count : 1;

    schedule->types = calloc(count, sizeof(*schedule->types));
    schedule->nodes = calloc(count, sizeof(*schedule->nodes));
    schedule->node_of = calloc(count, sizeof(*schedule->node_of));
    schedule->inner_of = calloc(count, sizeof(*schedule->inner_of));
    schedule->max_gpus = calloc(count, sizeof(*schedule->max_gpus));
    schedule->min_gpus = calloc(count, sizeof(*schedule->min_gpus));
    schedule->shares = calloc(count, sizeof(*schedule->shares));
    schedule->reported = calloc(count, sizeof(*schedule->reported));
    if (schedule->types == NULL || schedule->nodes == NULL || schedule->node_of == NULL ||
        schedule->inner_of == NULL || schedule->max_gpus == NULL || schedule->min_gpus == NULL ||
        schedule->shares == NULL || schedule->reported == NULL)
        return -ENOMEM;
    return 0;
}

int lull_schedule_make_cluster(struct lull_schedule *schedule, struct lull_error *err)
{
    const struct lull_queue *const queue = schedule->queue;
    uint32_t count = 0;

    if (make_cluster_room(schedule) < 0)
        return lull_error_set(err, -ENOMEM, "not enough memory for %u nodes", queue->node_count);
    for (uint32_t i = 0; i < queue->node_count; i++) {
        const struct lull_queue_node *const node = &queue->nodes[i];
        uint32_t type;

        assert(node->name != NULL && node->type != NULL);
        schedule->inner_of[i] = LULL_SCHEDULE_NONE;
        if (node->gpus == 0 || node->gpus > LULL_CLUSTER_MAX_NODE_GPUS)
            continue;
        type = lull_schedule_find_type(schedule, node->type);
        if (type == schedule->cluster.type_count)
            add_type(schedule, node);
        if (node->gpus > schedule->max_gpus[type])
            schedule->max_gpus[type] = node->gpus;
        if (node->gpus < schedule->min_gpus[type])
            schedule->min_gpus[type] = node->gpus;
        schedule->nodes[count] = (struct lull_cluster_node){.type = type, .gpus = node->gpus};
        schedule->inner_of[i] = count;
        schedule->node_of[count++] = i;
    }
    schedule->cluster.types = schedule->types;
    schedule->cluster.nodes = schedule->nodes;
    schedule->cluster.node_count = count;
    schedule->cluster.pool_count = 1;
    if (count == 0)
        return lull_error_set(err, -EINVAL, "no node of the partition has GPUs (Gres=gpu:...)");
    return lull_cluster_check(&schedule->cluster, err);
}

/* ---- points -------------------------------------------------------------------------------- */

static int64_t limit_s(const struct lull_queue_job *job)
{
    return job->limit_s > 0 ? job->limit_s : endless_s;
}

/* Returns the time of a job at full clocks: from the table, but at most its limit; its limit if it
 * has no row. */
static double length_s(const struct lull_queue_job *job, const struct lull_table_row *row)
{
    const double limit = (double)limit_s(job);

    return row != NULL && row->time_s > 0.0 ? fmin(row->time_s, limit) : limit;
}

/* A gang of whole nodes, or one that fits into a node, is what policies place. */
static bool is_placeable(const struct lull_schedule *schedule, const struct lull_queue_job *job,
                         uint32_t type)
{
    if (job->nodes <= 1)
        return job->nodes == 0 || job->gpus <= schedule->max_gpus[type];
    return job->gpus == job->nodes * schedule->max_gpus[type] &&
           schedule->max_gpus[type] == schedule->min_gpus[type];
}

/* Returns the highest power of a GPU: of its type if that is known, else of the job; 0: unknown. */
static double most_w(const struct lull_schedule *schedule, const struct lull_queue_job *job,
                     uint32_t type)
{
    const struct lull_table_gpu *const gpu =
        lull_point_table_gpu(schedule->rules.table, schedule->types[type].name);
    double most = 0.0;

    if (gpu != NULL)
        return gpu->full_w;
    for (uint32_t i = 0; i < schedule->cluster.type_count; i++) {
        const struct lull_table_row *const row =
            lull_point_table_find(schedule->rules.table, job->name, schedule->types[i].name);

        if (row != NULL)
            most = fmax(most, row->points[0].gpu_w);
    }
    return most;
}

static struct lull_cluster_point make_point(const struct lull_queue_job *job, uint32_t type,
                                            uint32_t sm_mhz, double time_s, double gpu_w)
{
    return (struct lull_cluster_point){.type = type,
                                       .gpus = job->gpus,
                                       .sm_mhz = sm_mhz,
                                       .time_ns = (int64_t)(time_s * 1e9),
                                       .energy_j = gpu_w * job->gpus * time_s};
}

/* Adds what is possible on a type; candidates: room for LULL_POINT_TABLE_MAX more. */
static size_t scheduled_job_add_points(const struct lull_schedule *schedule,
                                       const struct lull_queue_job *job, uint32_t type,
                                       struct lull_cluster_point *candidates)
{
    const struct lull_table_row *const row =
        lull_point_table_find(schedule->rules.table, job->name, schedule->types[type].name);
    const double time_s = length_s(job, row);
    size_t count = 0;

    if (row == NULL) {
        candidates[0] = make_point(job, type, 0, time_s, most_w(schedule, job, type));
        return 1;
    }
    for (uint32_t i = 0; i < row->count; i++)
        if (row->points[i].sm_mhz == 0 || job->takes_clocks)
            candidates[count++] =
                make_point(job, type, row->points[i].sm_mhz, time_s * row->points[i].time_ratio,
                           row->points[i].gpu_w);
    return count;
}

static void note_knowledge(const struct lull_schedule *schedule, uint32_t at)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    struct lull_schedule_job *const own = &schedule->own[at];

    own->has_energy = true;
    own->has_time = true;
    for (uint32_t type = 0; type < schedule->cluster.type_count; type++) {
        const struct lull_table_row *const row =
            lull_point_table_find(schedule->rules.table, job->name, schedule->types[type].name);

        own->has_energy = own->has_energy && (row != NULL || most_w(schedule, job, type) > 0.0);
        own->has_time = own->has_time && row != NULL && row->time_s > 0.0;
    }
}

/* Appends the points of a waiting job. Returns how many, or -ENOMEM. */
static int choose_points(struct lull_schedule *schedule, uint32_t at,
                         struct lull_cluster_point *candidates)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    size_t count = 0;

    for (uint32_t type = 0; type < schedule->cluster.type_count; type++)
        if ((job->type[0] == '\0' || strcmp(job->type, schedule->types[type].name) == 0) &&
            is_placeable(schedule, job, type))
            count += scheduled_job_add_points(schedule, job, type, &candidates[count]);
    if (count == 0)
        return 0;
    assert(schedule->point_count + LULL_CLUSTER_MAX_POINTS <= schedule->point_room);
    return (int)lull_operating_points_choose(candidates, count, LULL_CLUSTER_MAX_POINTS,
                                             &schedule->points[schedule->point_count]);
}

/* ---- jobs ---------------------------------------------------------------------------------- */

/* Returns the expected remaining time of a job that has started, s. */
static double left_s(const struct lull_schedule *schedule, const struct lull_queue_job *job,
                     uint32_t type)
{
    const struct lull_table_row *const row =
        lull_point_table_find(schedule->rules.table, job->name, schedule->types[type].name);
    const double gone_s = (double)(schedule->queue->now_s - job->begin_s);
    double time_s = length_s(job, row);

    for (uint32_t i = 0; row != NULL && i < row->count; i++)
        if (row->points[i].sm_mhz == job->sm_mhz)
            time_s *= row->points[i].time_ratio;
    if (time_s > gone_s)
        return time_s - fmax(gone_s, 0.0);
    if ((double)limit_s(job) > gone_s)
        return (double)limit_s(job) - gone_s;
    return (double)overdue_s;
}

static double running_w(const struct lull_schedule *schedule, const struct lull_queue_job *job,
                        uint32_t type)
{
    const struct lull_table_row *const row =
        lull_point_table_find(schedule->rules.table, job->name, schedule->types[type].name);

    for (uint32_t i = 0; row != NULL && i < row->count; i++)
        if (row->points[i].sm_mhz == job->sm_mhz)
            return row->points[i].gpu_w;
    return most_w(schedule, job, type);
}

/* Copies the shares that lie in the cluster; 0: none, or out of memory. */
static uint32_t take_shares(struct lull_schedule *schedule, uint32_t at)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    struct lull_schedule_job *const own = &schedule->own[at];

    own->shares = calloc(job->share_count, sizeof(*own->shares));
    for (uint32_t i = 0; own->shares != NULL && i < job->share_count; i++) {
        const uint32_t node = schedule->inner_of[job->shares[i].node];

        if (node != LULL_SCHEDULE_NONE && job->shares[i].gpus > 0)
            own->shares[own->share_count++] =
                (struct lull_cluster_share){node, job->shares[i].gpus};
    }
    return own->share_count;
}

/* A job that has started has the point that it runs in. */
static int running_point(struct lull_schedule *schedule, uint32_t at)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    const struct lull_schedule_job *const own = &schedule->own[at];
    struct lull_cluster_point *const point = &schedule->points[schedule->point_count];
    struct lull_queue_job counted = *job;
    uint32_t type;

    if (job->share_count == 0 || take_shares(schedule, at) == 0)
        return 0;
    counted.gpus = 0;
    for (uint32_t i = 0; i < own->share_count; i++)
        counted.gpus += own->shares[i].gpus;
    type = schedule->nodes[own->shares[0].node].type;
    *point = make_point(&counted, type, job->sm_mhz, left_s(schedule, job, type),
                        running_w(schedule, job, type));
    return 1;
}

static void scheduled_job_add(struct lull_schedule *schedule, uint32_t at, uint32_t point_count)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    const uint32_t number = (uint32_t)schedule->all.count++;

    schedule->jobs[number] = (struct lull_cluster_job){
        .arrival_ns = (job->submit_s - schedule->base_s) * SECOND_NS,
        .deadline_ns = LULL_CLUSTER_NEVER,
        .weight = 1.0,
        .point_count = point_count,
        .points = &schedule->points[schedule->point_count],
    };
    if (job->deadline_s > 0)
        schedule->jobs[number].deadline_ns = job->deadline_s > schedule->base_s
                                                 ? (job->deadline_s - schedule->base_s) * SECOND_NS
                                                 : 0;
    schedule->point_count += point_count;
    schedule->own[at].number = number;
    schedule->job_of[number] = at;
}

/* Returns whether a waiting job is delayed for cheaper power; its points are the
 * last `count`. A job that was placed before without beginning is not delayed. */
static bool is_shifted(struct lull_schedule *schedule, uint32_t at, uint32_t count)
{
    const struct lull_queue_job *const job = &schedule->queue->jobs[at];
    const struct lull_cluster_point *const points = &schedule->points[schedule->point_count];
    struct lull_schedule_job *const own = &schedule->own[at];
    const int64_t now_ns = schedule->queue->now_s * SECOND_NS;
    int64_t length_ns = points[0].time_ns;

    if (schedule->rules.tariff == NULL || job->deadline_s == 0 || job->tries > 0)
        return false;
    for (uint32_t i = 1; i < count; i++)
        if (points[i].time_ns < length_ns)
            length_ns = points[i].time_ns;
    own->shift = lull_power_shift_find(schedule->rules.tariff, length_ns, now_ns,
                                       (job->deadline_s - spare_s) * SECOND_NS -
                                           (int64_t)((1.0 + spare_ratio) * (double)length_ns),
                                       min_saving_ratio);
    own->is_shifted = own->shift.begin_ns > now_ns;
    return own->is_shifted;
}

static const char *scheduled_job_obstacle_of(const struct lull_queue_job *job)
{
    if (job->nodes > 1)
        return "it requests a part of each of several nodes, which Lull's policies do not support";
    return "no node of the partition has that many GPUs of the requested type";
}

int lull_schedule_make_jobs(struct lull_schedule *schedule, struct lull_error *err)
{
    const struct lull_queue *const queue = schedule->queue;
    const size_t count = (size_t)queue->job_count + (schedule->past_end - schedule->past_next) + 1;
    struct lull_cluster_point *const candidates =
        calloc((size_t)schedule->cluster.type_count * LULL_POINT_TABLE_MAX, sizeof(*candidates));

    schedule->own = calloc(count, sizeof(*schedule->own));
    schedule->jobs = calloc(count, sizeof(*schedule->jobs));
    schedule->job_of = calloc(count, sizeof(*schedule->job_of));
    schedule->recalled = calloc(count, sizeof(*schedule->recalled));
    schedule->point_room = count * LULL_CLUSTER_MAX_POINTS;
    schedule->points = malloc(schedule->point_room * sizeof(*schedule->points));
    if (candidates == NULL || schedule->own == NULL || schedule->jobs == NULL ||
        schedule->job_of == NULL || schedule->recalled == NULL || schedule->points == NULL) {
        free(candidates);
        return lull_error_set(err, -ENOMEM, "not enough memory for %u jobs", queue->job_count);
    }
    for (uint32_t i = 0; i < queue->job_count; i++) {
        const struct lull_queue_job *const job = &queue->jobs[i];
        const bool waits = job->stage == LULL_QUEUE_WAITS;
        int points;

        lull_schedule_add_past(schedule, job);
        schedule->own[i].number = LULL_SCHEDULE_NONE;
        if (waits)
            schedule->own[i].obstacle = job->obstacle != NULL ? job->obstacle : job->delay;
        if (schedule->own[i].obstacle != NULL)
            continue;
        note_knowledge(schedule, i);
        points = waits ? choose_points(schedule, i, candidates) : running_point(schedule, i);
        if (points > 0 && waits && is_shifted(schedule, i, (uint32_t)points))
            continue;
        if (points > 0)
            scheduled_job_add(schedule, i, (uint32_t)points);
        else if (waits)
            schedule->own[i].obstacle = scheduled_job_obstacle_of(job);
    }
    lull_schedule_add_past(schedule, NULL);
    schedule->all.all = schedule->jobs;
    free(candidates);
    return 0;
}
