/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/edl/online.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/heap.h"

struct edl_gpu {
    bool is_busy;
    int64_t since; /* while busy the slot in which it falls idle, else the slot in which it did */
};

struct edl_node {
    bool is_on;
    uint32_t busy_count;
    int64_t idle_since; /* the slot in which its last GPU fell idle; holds while none is busy */
};

struct edl_cluster {
    const struct lull_edl_config *config;
    struct lull_gpu_pool *pool;
    struct edl_gpu *gpus; /* gpus_per_node for each node */
    struct edl_node *nodes;
    uint32_t node_count; /* that were ever on */
    uint32_t node_room;
    uint64_t on_count;
    struct lull_heap idle;  /* GPUs, by the slot in which they may fall idle */
    struct lull_heap leave; /* nodes, by the slot in which they may be turned off */
    struct lull_heap off;   /* nodes that were on, by number */
    int64_t last_slot;      /* in which a GPU falls idle */
    struct lull_edl_outcome outcome;
};

static void edl_online_fini(struct edl_cluster *cluster)
{
    lull_gpu_pool_destroy(cluster->pool);
    free(cluster->gpus);
    free(cluster->nodes);
    lull_heap_fini(&cluster->idle);
    lull_heap_fini(&cluster->leave);
    lull_heap_fini(&cluster->off);
}

/* ---- time continues ------------------------------------------------------------------------- */

static int fall_idle(struct edl_cluster *cluster, uint32_t gpu, int64_t slot)
{
    const uint32_t number = gpu / cluster->config->gpus_per_node;
    struct edl_node *node = &cluster->nodes[number];

    if (!cluster->gpus[gpu].is_busy || cluster->gpus[gpu].since != slot)
        return 0; /* it was given another task in the meantime */
    cluster->gpus[gpu].is_busy = false;
    if (--node->busy_count > 0)
        return 0;
    node->idle_since = slot;
    return lull_heap_add(&cluster->leave, slot + LULL_EDL_IDLE_SLOTS, number);
}

static void count_idle(struct edl_cluster *cluster, uint32_t number, int64_t slot)
{
    const uint32_t per_node = cluster->config->gpus_per_node;

    for (uint32_t i = 0; i < per_node; i++)
        cluster->outcome.idle_s += (double)(slot - cluster->gpus[number * per_node + i].since);
}

static int edl_online_turn_off(struct edl_cluster *cluster, uint32_t number, int64_t slot)
{
    const uint32_t per_node = cluster->config->gpus_per_node;
    struct edl_node *node = &cluster->nodes[number];

    if (!node->is_on || node->busy_count > 0 || node->idle_since + LULL_EDL_IDLE_SLOTS != slot)
        return 0; /* one of its GPUs was given a task in the meantime */
    count_idle(cluster, number, slot);
    for (uint32_t i = 0; i < per_node; i++)
        lull_gpu_pool_remove(cluster->pool, number * per_node + i);
    node->is_on = false;
    cluster->on_count--;
    return lull_heap_add(&cluster->off, number, number);
}

/* Executes the events up to this slot, before tasks arrive in it. */
static int edl_online_proceed(struct edl_cluster *cluster, int64_t slot)
{
    struct lull_heap_entry entry;
    int result = 0;

    while (result == 0 && lull_heap_take(&cluster->idle, slot, &entry))
        result = fall_idle(cluster, (uint32_t)entry.number, entry.key);
    while (result == 0 && lull_heap_take(&cluster->leave, slot, &entry))
        result = edl_online_turn_off(cluster, (uint32_t)entry.number, entry.key);
    return result;
}

/* ---- nodes are turned on ------------------------------------------------------------------ */

static int edl_online_reserve(struct edl_cluster *cluster)
{
    const uint32_t per_node = cluster->config->gpus_per_node;
    const uint32_t room = cluster->node_room > 0 ? 2 * cluster->node_room : 16;
    struct edl_node *nodes;
    struct edl_gpu *gpus;

    if (cluster->node_count < cluster->node_room)
        return 0;
    if ((uint64_t)(cluster->node_count + 1) * per_node > LULL_GPU_POOL_MAX)
        return -E2BIG;
    nodes = realloc(cluster->nodes, room * sizeof(*nodes));
    if (nodes == NULL)
        return -ENOMEM;
    cluster->nodes = nodes;
    gpus = realloc(cluster->gpus, (size_t)room * per_node * sizeof(*gpus));
    if (gpus == NULL)
        return -ENOMEM;
    cluster->gpus = gpus;
    cluster->node_room = room;
    return 0;
}

/* Finds the node with the lowest number that is off. */
static int find_off(struct edl_cluster *cluster, uint32_t *number_out)
{
    struct lull_heap_entry entry;
    int result;

    if (lull_heap_take(&cluster->off, INT64_MAX, &entry)) {
        *number_out = (uint32_t)entry.number;
        return 0;
    }
    result = edl_online_reserve(cluster);
    if (result < 0)
        return result;
    *number_out = cluster->node_count++;
    return 0;
}

/* Turns on a node, whose GPUs are idle from this slot on. */
static int edl_online_turn_on(struct edl_cluster *cluster, int64_t slot, uint32_t *first_gpu_out)
{
    const uint32_t per_node = cluster->config->gpus_per_node;
    uint32_t number = 0;
    int result = find_off(cluster, &number);

    for (uint32_t i = 0; i < per_node && result == 0; i++) {
        cluster->gpus[number * per_node + i] = (struct edl_gpu){.since = slot};
        result = lull_gpu_pool_add(cluster->pool, number * per_node + i);
    }
    if (result < 0)
        return result;
    cluster->nodes[number] = (struct edl_node){.is_on = true, .idle_since = slot};
    cluster->on_count++;
    cluster->outcome.turn_ons++;
    if (cluster->on_count > cluster->outcome.max_nodes)
        cluster->outcome.max_nodes = cluster->on_count;
    *first_gpu_out = number * per_node;
    return 0;
}

static bool edl_online_is_full(const struct edl_cluster *cluster)
{
    return cluster->config->node_limit > 0 && cluster->on_count >= cluster->config->node_limit;
}

/* ---- tasks arrive ------------------------------------------------------------------------- */

/* As published, a GPU looks once per slot whether its task has ended, for the first time in the
 * slot after the task began. */
static int edl_online_give(struct edl_cluster *cluster, uint32_t number, struct lull_edl_job *job,
                           int64_t slot)
{
    struct edl_gpu *gpu = &cluster->gpus[number];
    int64_t begun = slot;

    job->node = number / cluster->config->gpus_per_node;
    job->gpu = number % cluster->config->gpus_per_node;
    lull_edl_give(cluster->pool, number, (double)slot, job);
    if (gpu->is_busy) {
        begun = gpu->since;
    } else {
        cluster->outcome.idle_s += (double)(slot - gpu->since);
        cluster->nodes[job->node].busy_count++;
    }
    gpu->is_busy = true;
    gpu->since = (int64_t)ceil(job->finish_s);
    if (gpu->since <= begun)
        gpu->since = begun + 1;
    if (gpu->since > cluster->last_slot)
        cluster->last_slot = gpu->since;
    return lull_heap_add(&cluster->idle, gpu->since, number);
}

static int edl_online_place(struct edl_cluster *cluster, struct lull_edl_job *job, int64_t slot)
{
    int64_t gpu = lull_edl_choose_gpu(cluster->config, cluster->pool, job, (double)slot);

    if (gpu == LULL_GPU_NONE && edl_online_is_full(cluster))
        gpu = lull_edl_choose_crowded_gpu(cluster->config, cluster->pool, job, (double)slot);
    if (gpu == LULL_GPU_NONE) {
        uint32_t first;
        const int result = edl_online_turn_on(cluster, slot, &first);

        if (result < 0)
            return result;
        gpu = first;
    }
    return edl_online_give(cluster, (uint32_t)gpu, job, slot);
}

/*
 * As published, each task that can be in time gets a GPU of its own, node by node, as long as there
 * are nodes. The others stay in the list.
 */
static int edl_online_dedicate(struct edl_cluster *cluster, struct lull_edl_job **jobs,
                               size_t *count)
{
    const uint32_t per_node = cluster->config->gpus_per_node;
    const size_t all = *count;
    uint32_t next = 0; /* the GPU to give, while left > 0 */
    uint32_t left = 0;

    *count = 0;
    for (size_t i = 0; i < all; i++) {
        struct lull_edl_job *job = jobs[i];
        int result = 0;

        if (job->task->deadline_s < job->point.time_s ||
            (left == 0 && edl_online_is_full(cluster))) {
            jobs[(*count)++] = job;
            continue;
        }
        if (left == 0) {
            result = edl_online_turn_on(cluster, 0, &next);
            left = per_node;
        }
        if (result == 0)
            result = edl_online_give(cluster, next++, job, 0);
        left--;
        if (result < 0)
            return result;
    }
    return 0;
}

static int edl_online_arrive(struct edl_cluster *cluster, struct lull_edl_job **jobs, size_t count,
                             int64_t slot)
{
    const struct lull_edl_config *config = cluster->config;
    int result = 0;

    for (size_t i = 0; i < count; i++)
        jobs[i]->point = lull_edl_choose_point(config, jobs[i]->task, (double)slot);
    if (slot == 0 && config->has_dvfs && (config->errors & LULL_EDL_DEDICATED_START))
        result = edl_online_dedicate(cluster, jobs, &count);
    lull_edl_sort(config, jobs, count);
    for (size_t i = 0; i < count && result == 0; i++)
        result = edl_online_place(cluster, jobs[i], slot);
    lull_gpu_pool_settle(cluster->pool);
    return result;
}

/* ---- all of it ---------------------------------------------------------------------------- */

static int64_t slot_of(const struct lull_edl_job *job)
{
    return (int64_t)ceil(job->task->arrival_s);
}

/* Orders by slot, and equal jobs as they are in the file. */
static int by_slot(const void *left, const void *right)
{
    const struct lull_edl_job *const a = *(struct lull_edl_job *const *)left;
    const struct lull_edl_job *const b = *(struct lull_edl_job *const *)right;

    if (slot_of(a) != slot_of(b))
        return slot_of(a) < slot_of(b) ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int edl_online_run(struct edl_cluster *cluster, struct lull_edl_job **order, size_t count)
{
    int result = 0;

    qsort(order, count, sizeof(struct lull_edl_job *), by_slot);
    for (size_t i = 0, end; i < count && result == 0; i = end) {
        const int64_t slot = slot_of(order[i]);

        for (end = i; end < count && slot_of(order[end]) == slot;)
            end++;
        result = edl_online_proceed(cluster, slot);
        if (result == 0)
            result = edl_online_arrive(cluster, order + i, end - i, slot);
    }
    if (result == 0)
        result = edl_online_proceed(cluster, cluster->last_slot);
    for (uint32_t i = 0; i < cluster->node_count && result == 0; i++)
        if (cluster->nodes[i].is_on)
            count_idle(cluster, i, cluster->last_slot);
    return result;
}

int lull_edl_simulate(const struct lull_edl_config *config, const struct lull_dvfs_task *tasks,
                      size_t count, struct lull_edl_job *jobs_out,
                      struct lull_edl_outcome *outcome_out, struct lull_error *err)
{
    struct edl_cluster cluster = {.config = config, .pool = lull_gpu_pool_create()};
    struct lull_edl_job **order = malloc((count + 1) * sizeof(struct lull_edl_job *));
    int result = cluster.pool == NULL || order == NULL ? -ENOMEM : 0;

    for (size_t i = 0; i < count && result == 0; i++) {
        jobs_out[i] = (struct lull_edl_job){.task = &tasks[i]};
        order[i] = &jobs_out[i];
    }
    if (result == 0)
        result = edl_online_run(&cluster, order, count);
    if (result == 0) {
        lull_edl_add_up(jobs_out, count, &cluster.outcome);
        *outcome_out = cluster.outcome;
    }
    free(order);
    edl_online_fini(&cluster);
    if (result == -E2BIG)
        return lull_error_set(err, result,
                              "the tasks need more than %d GPUs; limit them with --gpus",
                              LULL_GPU_POOL_MAX);
    return result < 0 ? lull_error_set(err, result, "not enough memory for %zu tasks", count) : 0;
}
