/*
 * Jobs that come, get their GPUs by least workload first (arXiv 2002.10105, algorithm 1), and
 * leave. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "lab/reproduce/ada_srsf/state.h"

static void list_remove(struct lull_shared_list *list, uint32_t at)
{
    list->count--;
    memmove(list->jobs + at, list->jobs + at + 1, (list->count - at) * sizeof(*list->jobs));
}

double lull_shared_placed_transfer_ms(const struct lull_shared_cluster *shared,
                                      const struct lull_shared_job_state *job)
{
    return job->node_count > 1 ? job->asked->model_mb * shared->setup->placed_ms : 0.0;
}

static void srsf_job_leave(struct lull_shared_cluster *shared, uint32_t number)
{
    const struct lull_shared_job_state *job = &shared->jobs[number];

    shared->has_changed = true;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        struct lull_shared_gpu *const gpu = &shared->gpus[job->workers[i].gpu];
        uint32_t at = 0;

        while (gpu->placed[at].job != number)
            at++;
        gpu->placed_count--;
        memmove(gpu->placed + at, gpu->placed + at + 1,
                (gpu->placed_count - at) * sizeof(*gpu->placed));
        gpu->free_mb += job->asked->memory_mb;
        if (gpu->placed_count == 0) /* so that no rounding error is left */
            gpu->free_mb = shared->setup->memory_mb;
    }
}

/* As released, the memory of a job that is done is freed in the next slot, and another slot later
 * where the entry before it in the list was taken out. */
void lull_shared_remove_done(struct lull_shared_cluster *shared)
{
    for (uint32_t i = 0; i < shared->running.count; i++) {
        const uint32_t number = shared->running.jobs[i];

        if (!shared->jobs[number].is_done)
            continue;
        srsf_job_leave(shared, number);
        list_remove(&shared->running, i);
        if (!shared->setup->skips_after_removal)
            i--;
    }
}

/* Notes the nodes of a job, each once, in the order of its workers. */
static void note_nodes(const struct lull_shared_cluster *shared, struct lull_shared_job_state *job)
{
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        const uint32_t node = job->workers[i].gpu / shared->setup->gpus_per_node;
        uint32_t at = 0;

        while (at < job->node_count && job->nodes[at] != node)
            at++;
        if (at == job->node_count)
            job->nodes[job->node_count++] = node;
    }
}

/* ---- placement ------------------------------------------------------------------------------- */

static double node_load_ms(const struct lull_shared_cluster *shared, uint32_t node)
{
    const uint32_t count = shared->setup->gpus_per_node;
    double sum_ms = 0.0;

    for (uint32_t i = 0; i < count; i++)
        sum_ms += shared->gpus[node * count + i].load_ms;
    return sum_ms / count;
}

/* Insertion sorts keep equals in their order, and the lists are short and nearly sorted. */
static void sort_nodes(struct lull_shared_cluster *shared)
{
    uint32_t *const order = shared->node_order;

    for (uint32_t i = 1; i < shared->setup->nodes; i++) {
        const uint32_t moved = order[i];
        const double load_ms = node_load_ms(shared, moved);
        uint32_t at = i;

        for (; at > 0 && node_load_ms(shared, order[at - 1]) > load_ms; at--)
            order[at] = order[at - 1];
        order[at] = moved;
    }
}

static void sort_gpus(const struct lull_shared_cluster *shared, uint32_t *gpus, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t moved = gpus[i];
        uint32_t at = i;

        for (; at > 0 && shared->gpus[gpus[at - 1]].load_ms > shared->gpus[moved].load_ms; at--)
            gpus[at] = gpus[at - 1];
        gpus[at] = moved;
    }
}

/* Appends the GPUs of a node that have room for the job. Returns how many GPUs there are then. */
static uint32_t add_fitting(const struct lull_shared_cluster *shared,
                            const struct lull_shared_job *job, uint32_t node, uint32_t *gpus,
                            uint32_t count)
{
    const uint32_t first = node * shared->setup->gpus_per_node;

    for (uint32_t gpu = first; gpu < first + shared->setup->gpus_per_node; gpu++)
        if (shared->gpus[gpu].free_mb >= job->memory_mb)
            gpus[count++] = gpu;
    return count;
}

/* Puts a random choice of `wanted` GPUs ahead of the others (Fisher and Yates). */
static void put_random_ahead(struct lull_shared_cluster *shared, uint32_t *gpus, uint32_t count,
                             uint32_t wanted)
{
    for (uint32_t i = 0; i < wanted; i++) {
        const uint32_t from = i + (uint32_t)lull_random_below(&shared->random, count - i);
        const uint32_t chosen = gpus[from];

        gpus[from] = gpus[i];
        gpus[i] = chosen;
    }
}

/* Chooses GPUs for a gang into gpus_out, one per worker. False: there is no room for it. */
static bool srsf_job_choose_gpus(struct lull_shared_cluster *shared,
                                 const struct lull_shared_job *job, uint32_t *gpus_out)
{
    const struct lull_shared_setup *setup = shared->setup;
    const bool is_random = setup->kappa == LULL_SHARED_RANDOM;
    const bool is_first_fit = setup->kappa == LULL_SHARED_FIRST_FIT || is_random;
    const bool spreads = !is_first_fit && job->workers <= setup->kappa;
    uint32_t *const gpus = shared->scratch;
    uint32_t count = 0;

    if (!is_first_fit && !spreads)
        sort_nodes(shared);
    for (uint32_t i = 0; i < setup->nodes; i++) {
        const uint32_t node = is_first_fit || spreads ? i : shared->node_order[i];
        const uint32_t before = count;

        count = add_fitting(shared, job, node, gpus, count);
        if (!is_first_fit && !spreads)
            sort_gpus(shared, gpus + before, count - before);
    }
    if (spreads)
        sort_gpus(shared, gpus, count);
    if (count < job->workers)
        return false;
    if (is_random)
        put_random_ahead(shared, gpus, count, job->workers);
    for (uint32_t i = 0; i < job->workers; i++)
        gpus_out[i] = gpus[i];
    return true;
}

static bool srsf_job_place(struct lull_shared_cluster *shared, uint32_t number, uint32_t *gpus,
                           int64_t now_ms)
{
    struct lull_shared_job_state *const job = &shared->jobs[number];
    double load_ms;

    if (!srsf_job_choose_gpus(shared, job->asked, gpus))
        return false;
    shared->has_changed = true;
    for (uint32_t i = 0; i < job->asked->workers; i++)
        job->workers[i] = (struct lull_shared_worker){gpus[i], LULL_SHARED_FORWARD};
    note_nodes(shared, job);
    job->placed_at_ms = now_ms;
    load_ms = ((double)(job->asked->forward_ms + job->asked->backward_ms) +
               lull_shared_placed_transfer_ms(shared, job)) *
              (double)job->asked->iterations;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        struct lull_shared_gpu *const gpu = &shared->gpus[gpus[i]];

        gpu->free_mb -= job->asked->memory_mb;
        gpu->load_ms += load_ms;
        gpu->placed[gpu->placed_count++] = (struct lull_shared_placed){number, i};
    }
    shared->running.jobs[shared->running.count++] = number;
    return true;
}

bool lull_shared_is_possible(const struct lull_shared_setup *setup,
                             const struct lull_shared_job *job)
{
    return job->workers <= setup->nodes * setup->gpus_per_node &&
           job->memory_mb <= setup->memory_mb;
}

void lull_shared_queue_arrivals(struct lull_shared_cluster *shared, int64_t now_ms)
{
    for (uint32_t number = 0; number < shared->job_count; number++) {
        uint32_t at = shared->queue.count;

        if (shared->jobs[number].asked->arrival_ms != now_ms ||
            !lull_shared_is_possible(shared->setup, shared->jobs[number].asked))
            continue;
        for (; at > 0 && shared->jobs[shared->queue.jobs[at - 1]].service_ms >
                             shared->jobs[number].service_ms;
             at--)
            shared->queue.jobs[at] = shared->queue.jobs[at - 1];
        shared->queue.jobs[at] = number;
        shared->queue.count++;
    }
}

void lull_shared_place_queued(struct lull_shared_cluster *shared, uint32_t *gpus, int64_t now_ms)
{
    for (uint32_t i = 0; i < shared->queue.count; i++) {
        if (!srsf_job_place(shared, shared->queue.jobs[i], gpus, now_ms))
            continue;
        list_remove(&shared->queue, i);
        if (!shared->setup->skips_after_removal)
            i--;
    }
}
