/*
 * Jobs that come, get their GPUs, and leave.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "simulator/cluster/shared_gpus_state.h"

static void list_remove(struct job_list *list, uint32_t at)
{
    list->count--;
    memmove(list->jobs + at, list->jobs + at + 1, (list->count - at) * sizeof(*list->jobs));
}

double lull_shared_placed_transfer_ms(const struct shared *shared, const struct job *job)
{
    return job->node_count > 1 ? job->asked->model_mb * shared->setup->placed_ms : 0.0;
}

static void leave(struct shared *shared, uint32_t number)
{
    const struct job *job = &shared->jobs[number];

    shared->has_changed = true;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        struct gpu *const gpu = &shared->gpus[job->workers[i].gpu];
        uint32_t at = 0;

        while (gpu->placed[at].job != number)
            at++;
        gpu->placed_count--;
        memmove(gpu->placed + at, gpu->placed + at + 1,
                (gpu->placed_count - at) * sizeof(*gpu->placed));
        gpu->free_mb += job->asked->memory_mb;
        if (gpu->placed_count == 0) /* without what rounding has left */
            gpu->free_mb = shared->setup->memory_mb;
    }
}

/* Memory of a job that is done is freed in the slot behind, and one later behind another's. */
void lull_shared_remove_done(struct shared *shared)
{
    for (uint32_t i = 0; i < shared->running.count; i++) {
        const uint32_t number = shared->running.jobs[i];

        if (!shared->jobs[number].is_done)
            continue;
        leave(shared, number);
        list_remove(&shared->running, i);
        if (!shared->setup->skips_after_removal)
            i--;
    }
}

/* The nodes of a job, each once, in the order of its workers. */
static void note_nodes(const struct shared *shared, struct job *job)
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

static bool place(struct shared *shared, uint32_t number, uint32_t *gpus, int64_t now_ms)
{
    struct job *const job = &shared->jobs[number];
    double load_ms;

    if (!lull_shared_place(shared, job->asked, gpus))
        return false;
    shared->has_changed = true;
    for (uint32_t i = 0; i < job->asked->workers; i++)
        job->workers[i] = (struct worker){gpus[i], FORWARD};
    note_nodes(shared, job);
    job->placed_at_ms = now_ms;
    load_ms = ((double)(job->asked->forward_ms + job->asked->backward_ms) +
               lull_shared_placed_transfer_ms(shared, job)) *
              (double)job->asked->iterations;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        struct gpu *const gpu = &shared->gpus[gpus[i]];

        gpu->free_mb -= job->asked->memory_mb;
        gpu->load_ms += load_ms;
        gpu->placed[gpu->placed_count++] = (struct placed){number, i};
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

void lull_shared_queue_arrivals(struct shared *shared, int64_t now_ms)
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

void lull_shared_place_queued(struct shared *shared, uint32_t *gpus, int64_t now_ms)
{
    for (uint32_t i = 0; i < shared->queue.count; i++) {
        if (!place(shared, shared->queue.jobs[i], gpus, now_ms))
            continue;
        list_remove(&shared->queue, i);
        if (!shared->setup->skips_after_removal)
            i--;
    }
}
