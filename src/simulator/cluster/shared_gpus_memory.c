/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "simulator/cluster/shared_gpus_state.h"

static int make_jobs(struct shared *shared, const struct lull_shared_job *jobs, uint32_t count)
{
    shared->jobs = calloc(count + 1U, sizeof(*shared->jobs));
    if (shared->jobs == NULL)
        return -ENOMEM;
    shared->job_count = count;
    for (uint32_t i = 0; i < count; i++) {
        struct job *const job = &shared->jobs[i];

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

static int make_list(struct job_list *list, uint32_t count)
{
    list->jobs = calloc(count + 1U, sizeof(*list->jobs));
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
        if ((shared->gpus[i].placed = calloc(count + 1U, sizeof(struct placed))) == NULL)
            return -ENOMEM;
    }
    return 0;
}

int lull_shared_create(struct shared *shared, const struct lull_shared_job *jobs, uint32_t count)
{
    const int rc = make_jobs(shared, jobs, count);

    lull_random_init(&shared->random, shared->setup->seed);
    return rc == 0 ? make_cluster(shared, count) : rc;
}

void lull_shared_fini(struct shared *shared)
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
