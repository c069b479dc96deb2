/*
 * Transfers over a shared network: which may start (SRSF(n), AdaDUAL), and how fast they are
 * (arXiv 2002.10105, sections III and IV). SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stddef.h>

#include "lab/reproduce/ada_srsf/state.h"

double lull_shared_left(const struct lull_shared_cluster *shared,
                        const struct lull_shared_job_state *job)
{
    const double moving_mb =
        job->node_count > 1 ? job->asked->model_mb * job->iterations_left - job->moved_mb : 0.0;

    if (shared->setup->rule != LULL_SHARED_SRTF)
        return job->service_ms;
    return job->service_ms / job->asked->workers + moving_mb * shared->setup->beta_ms;
}

void lull_shared_synchronise(struct lull_shared_cluster *shared, uint32_t number, int64_t now_ms)
{
    struct lull_shared_job_state *const job = &shared->jobs[number];

    shared->has_changed = true;
    job->is_transferring = false;
    job->moved_mb = 0.0;
    job->waiting = 0;
    job->iterations_left--;
    for (uint32_t i = 0; i < job->asked->workers; i++) {
        shared->gpus[job->workers[i].gpu].load_ms -= lull_shared_placed_transfer_ms(shared, job);
        job->workers[i].next = LULL_SHARED_FORWARD;
    }
    job->is_done = job->iterations_left == 0;
    if (!job->is_done)
        return;
    shared->completion_ms[number] = now_ms - job->asked->arrival_ms;
    shared->left--;
}

/* The most transfers on any of a job's nodes. */
static uint32_t transfer_busiest(const struct lull_shared_cluster *shared,
                                 const struct lull_shared_job_state *job)
{
    uint32_t most = 0;

    for (uint32_t i = 0; i < job->node_count; i++)
        if (shared->nodes[job->nodes[i]].transfers.count > most)
            most = shared->nodes[job->nodes[i]].transfers.count;
    return most;
}

static void transfer_move(struct lull_shared_job_state *job, int64_t now_ms)
{
    job->moved_mb += (double)(now_ms - job->moved_at_ms) * job->speed_mb;
}

/* The remaining data of a running transfer. The released code counts requested data as moved. */
static double rest_mb(const struct lull_shared_cluster *shared, struct lull_shared_job_state *job,
                      int64_t now_ms)
{
    const double ahead_mb = (double)(now_ms - job->moved_at_ms) * job->speed_mb;

    if (!shared->setup->asking_moves_transfers)
        return job->asked->model_mb - job->moved_mb - ahead_mb;
    job->moved_mb += ahead_mb;
    return job->asked->model_mb - job->moved_mb;
}

static struct lull_shared_job_state *first_transfer(const struct lull_shared_cluster *shared,
                                                    const struct lull_shared_job_state *job)
{
    for (uint32_t i = 0; i < job->node_count; i++)
        if (shared->nodes[job->nodes[i]].transfers.count > 0)
            return &shared->jobs[shared->nodes[job->nodes[i]].transfers.jobs[0]];
    return NULL;
}

/* AdaDUAL: a second transfer pays beside one that still has to move 2 (beta + eta) / beta times as
 * much (theorem 2). */
static bool may_start(const struct lull_shared_cluster *shared,
                      const struct lull_shared_job_state *job, int64_t now_ms)
{
    const struct lull_shared_setup *setup = shared->setup;
    const uint32_t count = transfer_busiest(shared, job);

    if (setup->rule != LULL_SHARED_ADADUAL)
        return count < setup->at_once;
    if (count != 1)
        return count == 0;
    return rest_mb(shared, first_transfer(shared, job), now_ms) / job->asked->model_mb >=
           2.0 * (setup->beta_ms + setup->eta_ms) / setup->beta_ms;
}

static void transfer_start(struct lull_shared_cluster *shared, uint32_t number, int64_t now_ms)
{
    struct lull_shared_job_state *const job = &shared->jobs[number];

    shared->has_changed = true;
    job->is_transferring = true;
    job->speed_mb = 0.0;
    job->moved_at_ms = now_ms;
    for (uint32_t i = 0; i < job->node_count; i++) {
        struct lull_shared_list *const transfers = &shared->nodes[job->nodes[i]].transfers;

        transfers->jobs[transfers->count++] = number;
    }
}

static bool may_transfer(const struct lull_shared_job_state *job)
{
    return !job->is_done && job->node_count > 1 && job->waiting == job->asked->workers;
}

/* Lists the jobs that need a transfer by their remaining work, equal ones in their running order.
 */
static uint32_t transfer_list_candidates(struct lull_shared_cluster *shared, uint32_t *candidates,
                                         int64_t now_ms)
{
    const bool gives_way = shared->setup->rule == LULL_SHARED_SRTF;
    uint32_t count = 0;

    for (uint32_t i = 0; i < shared->running.count; i++) {
        const uint32_t number = shared->running.jobs[i];
        const struct lull_shared_job_state *job = &shared->jobs[number];
        uint32_t at = count;
        double left;

        if (!job->is_done && job->node_count == 1 && job->waiting == job->asked->workers)
            lull_shared_synchronise(shared, number, now_ms);
        if (!may_transfer(job) || (job->is_transferring && !gives_way))
            continue;
        left = lull_shared_left(shared, job);
        for (; at > 0 && lull_shared_left(shared, &shared->jobs[candidates[at - 1]]) > left; at--)
            candidates[at] = candidates[at - 1];
        candidates[at] = number;
        count++;
    }
    return count;
}

/* Stops all transfers; what they have moved is kept. */
static void pause_all(struct lull_shared_cluster *shared, int64_t now_ms)
{
    for (uint32_t i = 0; i < shared->running.count; i++) {
        struct lull_shared_job_state *const job = &shared->jobs[shared->running.jobs[i]];

        if (!job->is_transferring)
            continue;
        transfer_move(job, now_ms);
        job->is_transferring = false;
    }
    for (uint32_t i = 0; i < shared->setup->nodes; i++)
        shared->nodes[i].transfers.count = 0;
}

void lull_shared_start_transfers(struct lull_shared_cluster *shared, int64_t now_ms)
{
    uint32_t *const candidates = shared->candidates;
    const uint32_t count = transfer_list_candidates(shared, candidates, now_ms);

    if (shared->setup->rule == LULL_SHARED_SRTF)
        pause_all(shared, now_ms);
    for (uint32_t i = 0; i < count; i++)
        if (may_start(shared, &shared->jobs[candidates[i]], now_ms))
            transfer_start(shared, candidates[i], now_ms);
}

static void move_on(struct lull_shared_cluster *shared, struct lull_shared_job_state *job,
                    int64_t now_ms)
{
    job->transfer_end_ms = (double)now_ms + (job->asked->model_mb - job->moved_mb) / job->speed_mb;
    job->moved_at_ms = now_ms;
    if (job->transfer_end_ms < shared->transfer_end_ms)
        shared->transfer_end_ms = job->transfer_end_ms;
}

void lull_shared_move_transfers(struct lull_shared_cluster *shared, int64_t now_ms)
{
    const struct lull_shared_setup *setup = shared->setup;

    shared->transfer_end_ms = INFINITY;
    for (uint32_t i = 0; i < shared->running.count; i++) {
        struct lull_shared_job_state *const job = &shared->jobs[shared->running.jobs[i]];
        double beside;

        if (!job->is_transferring)
            continue;
        transfer_move(job, now_ms);
        beside = (double)transfer_busiest(shared, job);
        job->speed_mb = 1.0 / (beside * setup->beta_ms + (beside - 1.0) * setup->eta_ms);
        move_on(shared, job, now_ms);
    }
}

void lull_shared_keep_moving(struct lull_shared_cluster *shared, int64_t now_ms)
{
    /* Nothing can start, because what the running transfers have left only falls. The released
     * simulator checks anyway, which changes them by its bug. */
    if (shared->setup->rule == LULL_SHARED_ADADUAL && shared->setup->asking_moves_transfers)
        lull_shared_start_transfers(shared, now_ms);
    shared->transfer_end_ms = INFINITY;
    for (uint32_t i = 0; i < shared->running.count; i++) {
        struct lull_shared_job_state *const job = &shared->jobs[shared->running.jobs[i]];

        if (!job->is_transferring)
            continue;
        transfer_move(job, now_ms);
        move_on(shared, job, now_ms);
    }
}
