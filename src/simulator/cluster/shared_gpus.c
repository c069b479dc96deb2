/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/shared_gpus.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "simulator/cluster/shared_gpus_state.h"

const struct lull_shared_setup lull_shared_published = {
    .nodes = 16,
    .gpus_per_node = 4,
    .memory_mb = 32768.0,
    .beta_ms = 0.856,
    .eta_ms = 0.235,
    .placed_ms = 7.8125,
    .kappa = 1,
    .rule = LULL_SHARED_SRSF,
    .at_once = 1,
    .skips_after_removal = true,
};

void lull_shared_list_remove(struct job_list *list, uint32_t at)
{
    list->count--;
    memmove(list->jobs + at, list->jobs + at + 1, (list->count - at) * sizeof(*list->jobs));
}

static uint32_t part_ms(const struct job *job, enum part part)
{
    return part == FORWARD ? job->asked->forward_ms : job->asked->backward_ms;
}

/* What placement takes for an iteration's transfer. */
static double placed_transfer_ms(const struct shared *shared, const struct job *job)
{
    return job->node_count > 1 ? job->asked->model_mb * shared->setup->placed_ms : 0.0;
}

double lull_shared_left(const struct shared *shared, const struct job *job)
{
    const double moving_mb =
        job->node_count > 1 ? job->asked->model_mb * job->iterations_left - job->moved_mb : 0.0;

    if (shared->setup->rule != LULL_SHARED_SRTF)
        return job->service_ms;
    return job->service_ms / job->asked->workers + moving_mb * shared->setup->beta_ms;
}

void lull_shared_synchronise(struct shared *shared, uint32_t number, int64_t now_ms)
{
    struct job *const job = &shared->jobs[number];

    shared->has_changed = true;
    job->is_transferring = false;
    job->moved_mb = 0.0;
    job->waiting = 0;
    job->iterations_left--;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        shared->gpus[job->workers[i].gpu].load_ms -= placed_transfer_ms(shared, job);
        job->workers[i].next = FORWARD;
    }
    job->is_done = job->iterations_left == 0;
    if (!job->is_done)
        return;
    shared->completion_ms[number] = now_ms - job->asked->arrival_ms;
    shared->left--;
}

/* ---- what ends ---------------------------------------------------------------------------- */

static void end_part(struct shared *shared, struct gpu *gpu)
{
    struct job *const job = &shared->jobs[gpu->running.job];
    struct worker *const worker = &job->workers[gpu->running.worker];
    const double time_ms = part_ms(job, worker->next);

    job->waiting += worker->next == BACKWARD;
    worker->next = worker->next == FORWARD ? BACKWARD : TRANSFER;
    job->service_ms -= time_ms;
    gpu->load_ms -= time_ms;
    gpu->running.job = UINT32_MAX;
}

static void end_transfers(struct shared *shared, struct node *node, int64_t now_ms)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < node->transfers.count; i++) {
        const uint32_t number = node->transfers.jobs[i];
        struct job *const job = &shared->jobs[number];

        if ((double)now_ms < job->transfer_end_ms) {
            node->transfers.jobs[kept++] = number;
            continue;
        }
        if (job->is_transferring)
            lull_shared_synchronise(shared, number, now_ms);
    }
    node->transfers.count = kept;
}

static void end_all(struct shared *shared, int64_t now_ms)
{
    const uint32_t per_node = shared->setup->gpus_per_node;

    for (uint32_t i = 0; i < shared->setup->nodes; i++) {
        const uint32_t node = shared->node_order[i];

        for (uint32_t k = 0; k < per_node; k++) {
            struct gpu *const gpu = &shared->gpus[node * per_node + k];

            if (gpu->running.job != UINT32_MAX && gpu->end_ms == now_ms)
                end_part(shared, gpu);
        }
        end_transfers(shared, &shared->nodes[node], now_ms);
    }
}

/* ---- jobs that leave and come ------------------------------------------------------------- */

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
    }
}

/* Memory of a job that is done is freed in the slot behind, and one later behind another's. */
static void remove_done(struct shared *shared)
{
    for (uint32_t i = 0; i < shared->running.count; i++) {
        const uint32_t number = shared->running.jobs[i];

        if (!shared->jobs[number].is_done)
            continue;
        leave(shared, number);
        lull_shared_list_remove(&shared->running, i);
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

static bool place(struct shared *shared, uint32_t number, uint32_t *gpus)
{
    struct job *const job = &shared->jobs[number];
    double load_ms;

    if (!lull_shared_place(shared, job->asked, gpus))
        return false;
    shared->has_changed = true;
    for (uint32_t i = 0; i < job->asked->workers; i++)
        job->workers[i] = (struct worker){gpus[i], FORWARD};
    note_nodes(shared, job);
    load_ms = ((double)(job->asked->forward_ms + job->asked->backward_ms) +
               placed_transfer_ms(shared, job)) *
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

/* Whether the empty cluster could hold it. */
static bool is_possible(const struct lull_shared_setup *setup, const struct lull_shared_job *job)
{
    return job->workers <= setup->nodes * setup->gpus_per_node &&
           job->memory_mb <= setup->memory_mb;
}

static void queue_arrivals(struct shared *shared, int64_t now_ms)
{
    for (uint32_t number = 0; number < shared->job_count; number++) {
        uint32_t at = shared->queue.count;

        if (shared->jobs[number].asked->arrival_ms != now_ms ||
            !is_possible(shared->setup, shared->jobs[number].asked))
            continue;
        for (; at > 0 && shared->jobs[shared->queue.jobs[at - 1]].service_ms >
                             shared->jobs[number].service_ms;
             at--)
            shared->queue.jobs[at] = shared->queue.jobs[at - 1];
        shared->queue.jobs[at] = number;
        shared->queue.count++;
    }
}

static void place_queued(struct shared *shared, uint32_t *gpus)
{
    for (uint32_t i = 0; i < shared->queue.count; i++) {
        if (!place(shared, shared->queue.jobs[i], gpus))
            continue;
        lull_shared_list_remove(&shared->queue, i);
        if (!shared->setup->skips_after_removal)
            i--;
    }
}

/* ---- what starts -------------------------------------------------------------------------- */

static bool is_ready(const struct shared *shared, const struct placed *placed)
{
    const struct job *job = &shared->jobs[placed->job];

    return !job->is_done && job->workers[placed->worker].next != TRANSFER;
}

static void start_part(struct shared *shared, struct gpu *gpu, int64_t now_ms)
{
    const struct job *best = NULL;

    for (uint32_t i = 0; i < gpu->placed_count; i++) {
        const struct job *job = &shared->jobs[gpu->placed[i].job];

        if (!is_ready(shared, &gpu->placed[i]) ||
            (best != NULL && lull_shared_left(shared, job) >= lull_shared_left(shared, best)))
            continue;
        best = job;
        gpu->running = gpu->placed[i];
    }
    if (best == NULL)
        return;
    gpu->end_ms = now_ms + part_ms(best, best->workers[gpu->running.worker].next);
    shared->busy_ms += gpu->end_ms - now_ms;
}

static void start_parts(struct shared *shared, int64_t now_ms)
{
    const uint32_t per_node = shared->setup->gpus_per_node;

    for (uint32_t i = 0; i < shared->setup->nodes; i++)
        for (uint32_t k = 0; k < per_node; k++) {
            const uint32_t gpu = shared->node_order[i] * per_node + k;

            if (shared->gpus[gpu].running.job == UINT32_MAX)
                start_part(shared, &shared->gpus[gpu], now_ms);
        }
}

/* ---- beginning and end -------------------------------------------------------------------- */

static int make_jobs(struct shared *shared, const struct lull_shared_job *jobs, uint32_t count)
{
    shared->jobs = calloc(count, sizeof(*shared->jobs));
    if (shared->jobs == NULL)
        return -ENOMEM;
    shared->job_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct job *const job = &shared->jobs[i];

        job->asked = &jobs[i];
        job->iterations_left = jobs[i].iterations;
        job->service_ms = (double)(jobs[i].forward_ms + jobs[i].backward_ms) * jobs[i].iterations *
                          jobs[i].workers;
        job->workers = calloc(jobs[i].workers, sizeof(*job->workers));
        job->nodes = calloc(shared->setup->nodes, sizeof(*job->nodes));
        if (job->workers == NULL || job->nodes == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int make_list(struct job_list *list, uint32_t count)
{
    list->jobs = calloc(count, sizeof(*list->jobs));
    return list->jobs == NULL ? -ENOMEM : 0;
}

static int make_cluster(struct shared *shared, uint32_t count)
{
    const struct lull_shared_setup *setup = shared->setup;

    shared->gpu_count = setup->nodes * setup->gpus_per_node;
    shared->gpus = calloc(shared->gpu_count, sizeof(*shared->gpus));
    shared->nodes = calloc(setup->nodes, sizeof(*shared->nodes));
    shared->node_order = calloc(setup->nodes, sizeof(*shared->node_order));
    shared->scratch = calloc(shared->gpu_count, sizeof(*shared->scratch));
    shared->candidates = calloc(count, sizeof(*shared->candidates));
    if (shared->gpus == NULL || shared->nodes == NULL || shared->node_order == NULL ||
        shared->scratch == NULL || shared->candidates == NULL ||
        make_list(&shared->queue, count) < 0 || make_list(&shared->running, count) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < setup->nodes; i++) {
        shared->node_order[i] = i;
        if (make_list(&shared->nodes[i].transfers, count) < 0)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < shared->gpu_count; i++) {
        shared->gpus[i].free_mb = setup->memory_mb;
        shared->gpus[i].running.job = UINT32_MAX;
        if ((shared->gpus[i].placed = calloc(count, sizeof(struct placed))) == NULL)
            return -ENOMEM;
    }
    return 0;
}

static void fini(struct shared *shared)
{
    for (uint32_t i = 0; i < shared->job_count; i++) {
        free(shared->jobs[i].workers);
        free(shared->jobs[i].nodes);
    }
    for (uint32_t i = 0; shared->gpus != NULL && i < shared->gpu_count; i++)
        free(shared->gpus[i].placed);
    for (uint32_t i = 0; shared->nodes != NULL && i < shared->setup->nodes; i++)
        free(shared->nodes[i].transfers.jobs);
    free(shared->jobs);
    free(shared->gpus);
    free(shared->nodes);
    free(shared->node_order);
    free(shared->scratch);
    free(shared->candidates);
    free(shared->queue.jobs);
    free(shared->running.jobs);
}

static int64_t next_event_ms(const struct shared *shared, int64_t now_ms)
{
    int64_t next_ms = INT64_MAX;

    for (uint32_t i = 0; i < shared->gpu_count; i++)
        if (shared->gpus[i].running.job != UINT32_MAX && shared->gpus[i].end_ms < next_ms)
            next_ms = shared->gpus[i].end_ms;
    for (uint32_t i = 0; i < shared->job_count; i++)
        if (shared->jobs[i].asked->arrival_ms > now_ms &&
            shared->jobs[i].asked->arrival_ms < next_ms)
            next_ms = shared->jobs[i].asked->arrival_ms;
    return next_ms;
}

static void run_slot(struct shared *shared, int64_t now_ms, uint32_t *gpus)
{
    shared->has_changed = false;
    end_all(shared, now_ms);
    remove_done(shared);
    queue_arrivals(shared, now_ms);
    place_queued(shared, gpus);
    lull_shared_start_transfers(shared, now_ms);
    lull_shared_move_transfers(shared, now_ms);
    start_parts(shared, now_ms);
    shared->next_ms = next_event_ms(shared, now_ms);
}

static int64_t run_all(struct shared *shared, uint32_t *gpus)
{
    int64_t now_ms = 0;

    shared->has_changed = true;
    for (; shared->left > 0; now_ms++) {
        if (shared->has_changed || now_ms >= shared->next_ms ||
            (double)now_ms >= shared->transfer_end_ms)
            run_slot(shared, now_ms, gpus);
        else
            lull_shared_keep_moving(shared, now_ms);
    }
    return now_ms;
}

int lull_shared_simulate(const struct lull_shared_setup *setup, const struct lull_shared_job *jobs,
                         size_t count, struct lull_shared_result *result)
{
    struct shared shared = {.setup = setup, .completion_ms = result->completion_ms};
    uint32_t *gpus = NULL;
    int rc = make_jobs(&shared, jobs, (uint32_t)count);

    if (rc == 0)
        rc = make_cluster(&shared, (uint32_t)count);
    if (rc == 0)
        gpus = calloc(shared.gpu_count, sizeof(*gpus));
    if (gpus == NULL) {
        fini(&shared);
        return -ENOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        result->completion_ms[i] = -1;
        shared.left += is_possible(setup, &jobs[i]);
    }
    result->makespan_ms = run_all(&shared, gpus);
    result->busy_ratio =
        (double)shared.busy_ms / ((double)result->makespan_ms * (double)shared.gpu_count);
    free(gpus);
    fini(&shared);
    return 0;
}
