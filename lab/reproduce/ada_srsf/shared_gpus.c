/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/ada_srsf/shared_gpus.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lab/reproduce/ada_srsf/state.h"

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

/* ---- memory ---------------------------------------------------------------------------------- */

static int shared_gpu_make_jobs(struct lull_shared_cluster *shared,
                                const struct lull_shared_job *jobs, uint32_t count)
{
    shared->jobs = calloc(count + 1U, sizeof(*shared->jobs));
    if (shared->jobs == NULL)
        return -ENOMEM;
    shared->job_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct lull_shared_job_state *const job = &shared->jobs[i];

        job->asked = &jobs[i];
        job->iterations_left = jobs[i].iterations;
        job->service_ms = (double)(jobs[i].forward_ms + jobs[i].backward_ms) * jobs[i].iterations *
                          jobs[i].workers;
        job->placed_at_ms = -1;
        if (!lull_shared_is_possible(shared->setup, &jobs[i]))
            continue;
        job->workers = calloc(jobs[i].workers, sizeof(*job->workers));
        job->nodes = calloc(shared->setup->nodes, sizeof(*job->nodes));
        if (job->workers == NULL || job->nodes == NULL)
            return -ENOMEM;
    }
    return 0;
}

static int make_list(struct lull_shared_list *list, uint32_t count)
{
    list->jobs = calloc(count + 1U, sizeof(*list->jobs));
    return list->jobs == NULL ? -ENOMEM : 0;
}

static int shared_gpu_make_cluster(struct lull_shared_cluster *shared, uint32_t count)
{
    const struct lull_shared_setup *setup = shared->setup;

    shared->gpu_count = setup->nodes * setup->gpus_per_node;
    shared->gpus = calloc(shared->gpu_count, sizeof(*shared->gpus));
    shared->nodes = calloc(setup->nodes, sizeof(*shared->nodes));
    shared->node_order = calloc(setup->nodes, sizeof(*shared->node_order));
    shared->scratch = calloc(shared->gpu_count, sizeof(*shared->scratch));
    shared->candidates = calloc(count + 1U, sizeof(*shared->candidates));
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
        if ((shared->gpus[i].placed = calloc(count + 1U, sizeof(struct lull_shared_placed))) ==
            NULL)
            return -ENOMEM;
    }
    return 0;
}

static int shared_gpu_create(struct lull_shared_cluster *shared, const struct lull_shared_job *jobs,
                             uint32_t count)
{
    const int rc = shared_gpu_make_jobs(shared, jobs, count);

    lull_random_init(&shared->random, shared->setup->seed);
    if (rc < 0)
        return rc;
    return shared_gpu_make_cluster(shared, count);
}

static void shared_gpu_fini(struct lull_shared_cluster *shared)
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

/* ---- remaining work -------------------------------------------------------------------------- */

static uint32_t part_ms(const struct lull_shared_job_state *job, enum lull_shared_part part)
{
    return part == LULL_SHARED_FORWARD ? job->asked->forward_ms : job->asked->backward_ms;
}

/* ---- what ends ---------------------------------------------------------------------------- */

static void end_part(struct lull_shared_cluster *shared, struct lull_shared_gpu *gpu)
{
    struct lull_shared_job_state *const job = &shared->jobs[gpu->running.job];
    struct lull_shared_worker *const worker = &job->workers[gpu->running.worker];
    const double time_ms = part_ms(job, worker->next);

    job->waiting += worker->next == LULL_SHARED_BACKWARD;
    worker->next =
        worker->next == LULL_SHARED_FORWARD ? LULL_SHARED_BACKWARD : LULL_SHARED_TRANSFER;
    job->service_ms -= time_ms;
    gpu->load_ms -= time_ms;
    gpu->running.job = UINT32_MAX;
}

static void end_transfers(struct lull_shared_cluster *shared, struct lull_shared_node *node,
                          int64_t now_ms)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < node->transfers.count; i++) {
        const uint32_t number = node->transfers.jobs[i];
        struct lull_shared_job_state *const job = &shared->jobs[number];

        if ((double)now_ms < job->transfer_end_ms) {
            node->transfers.jobs[kept++] = number;
            continue;
        }
        if (job->is_transferring)
            lull_shared_synchronise(shared, number, now_ms);
    }
    node->transfers.count = kept;
}

static void end_all(struct lull_shared_cluster *shared, int64_t now_ms)
{
    const uint32_t per_node = shared->setup->gpus_per_node;

    for (uint32_t i = 0; i < shared->setup->nodes; i++) {
        const uint32_t node = shared->node_order[i];

        for (uint32_t k = 0; k < per_node; k++) {
            struct lull_shared_gpu *const gpu = &shared->gpus[node * per_node + k];

            if (gpu->running.job != UINT32_MAX && gpu->end_ms == now_ms)
                end_part(shared, gpu);
        }
        end_transfers(shared, &shared->nodes[node], now_ms);
    }
}

/* ---- what starts -------------------------------------------------------------------------- */

static bool shared_gpu_is_ready(const struct lull_shared_cluster *shared,
                                const struct lull_shared_placed *placed)
{
    const struct lull_shared_job_state *job = &shared->jobs[placed->job];

    return !job->is_done && job->workers[placed->worker].next != LULL_SHARED_TRANSFER;
}

static void start_part(struct lull_shared_cluster *shared, struct lull_shared_gpu *gpu,
                       int64_t now_ms)
{
    const struct lull_shared_job_state *best = NULL;

    for (uint32_t i = 0; i < gpu->placed_count; i++) {
        const struct lull_shared_job_state *job = &shared->jobs[gpu->placed[i].job];

        if (!shared_gpu_is_ready(shared, &gpu->placed[i]) ||
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

static void start_parts(struct lull_shared_cluster *shared, int64_t now_ms)
{
    const uint32_t per_node = shared->setup->gpus_per_node;

    for (uint32_t i = 0; i < shared->setup->nodes; i++)
        for (uint32_t k = 0; k < per_node; k++) {
            const uint32_t gpu = shared->node_order[i] * per_node + k;

            if (shared->gpus[gpu].running.job == UINT32_MAX)
                start_part(shared, &shared->gpus[gpu], now_ms);
        }
}

/* ---- slot by slot ------------------------------------------------------------------------- */

static int64_t next_event_ms(const struct lull_shared_cluster *shared, int64_t now_ms)
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

static void run_slot(struct lull_shared_cluster *shared, int64_t now_ms, uint32_t *gpus)
{
    shared->has_changed = false;
    end_all(shared, now_ms);
    lull_shared_remove_done(shared);
    lull_shared_queue_arrivals(shared, now_ms);
    lull_shared_place_queued(shared, gpus, now_ms);
    lull_shared_start_transfers(shared, now_ms);
    lull_shared_move_transfers(shared, now_ms);
    start_parts(shared, now_ms);
    shared->next_ms = next_event_ms(shared, now_ms);
}

/* In the slots up to the next event nothing happens, unless transfers move. */
static int64_t pass_idle_slots(const struct lull_shared_cluster *shared, int64_t now_ms)
{
    const bool is_idle = !shared->has_changed && isinf(shared->transfer_end_ms) != 0;

    return is_idle && shared->next_ms > now_ms ? shared->next_ms : now_ms;
}

static int shared_gpu_run_all(struct lull_shared_cluster *shared, uint32_t *gpus,
                              int64_t *makespan_ms_out)
{
    int64_t now_ms = 0;
    int64_t looked_at = 0;

    shared->has_changed = true;
    shared->transfer_end_ms = INFINITY;
    for (; shared->left > 0; now_ms++) {
        now_ms = pass_idle_slots(shared, now_ms);
        if (now_ms == INT64_MAX || ++looked_at > LULL_SHARED_MAX_SLOTS)
            return -EOVERFLOW;
        if (shared->has_changed || now_ms >= shared->next_ms ||
            (double)now_ms >= shared->transfer_end_ms)
            run_slot(shared, now_ms, gpus);
        else
            lull_shared_keep_moving(shared, now_ms);
    }
    *makespan_ms_out = now_ms;
    return 0;
}

/* Reports the start of each job and its GPUs. */
static void shared_gpu_report_places(const struct lull_shared_cluster *shared,
                                     const struct lull_shared_result *result)
{
    size_t worker = 0;

    for (uint32_t i = 0; i < shared->job_count; i++) {
        const struct lull_shared_job_state *job = &shared->jobs[i];

        if (result->placed_ms != NULL)
            result->placed_ms[i] = job->placed_at_ms;
        for (uint32_t k = 0; result->gpus != NULL && k < job->asked->workers; k++)
            result->gpus[worker++] =
                job->placed_at_ms >= 0 ? job->workers[k].gpu : LULL_SHARED_NOWHERE;
    }
}

int lull_shared_simulate(const struct lull_shared_setup *setup, const struct lull_shared_job *jobs,
                         size_t count, struct lull_shared_result *result)
{
    struct lull_shared_cluster shared = {.setup = setup, .completion_ms = result->completion_ms};
    uint32_t *gpus = calloc((size_t)setup->nodes * setup->gpus_per_node, sizeof(*gpus));
    int rc = gpus == NULL ? -ENOMEM : shared_gpu_create(&shared, jobs, (uint32_t)count);

    for (size_t i = 0; rc == 0 && i < count; i++) {
        result->completion_ms[i] = -1;
        if (!lull_shared_is_possible(setup, &jobs[i]))
            continue;
        shared.left++;
        if (jobs[i].iterations > LULL_SHARED_MAX_SLOTS / 2) /* two parts each */
            rc = -EOVERFLOW;
    }
    if (rc == 0)
        rc = shared_gpu_run_all(&shared, gpus, &result->makespan_ms);
    if (rc == 0) {
        const double slots = (double)result->makespan_ms * (double)shared.gpu_count;

        result->busy_ratio = slots > 0.0 ? (double)shared.busy_ms / slots : 0.0;
        shared_gpu_report_places(&shared, result);
    }
    free(gpus);
    shared_gpu_fini(&shared);
    return rc;
}
