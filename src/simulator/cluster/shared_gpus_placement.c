/*
 * Least workload first (arXiv 2002.10105, algorithm 1). SPDX-License-Identifier: Apache-2.0
 */
#include "simulator/cluster/shared_gpus_state.h"

static double node_load_ms(const struct shared *shared, uint32_t node)
{
    const uint32_t count = shared->setup->gpus_per_node;
    double sum_ms = 0.0;

    for (uint32_t i = 0; i < count; i++)
        sum_ms += shared->gpus[node * count + i].load_ms;
    return sum_ms / count;
}

/* Insertion sorts keep equals in their order, and the lists are short and nearly sorted. */
static void sort_nodes(struct shared *shared)
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

static void sort_gpus(const struct shared *shared, uint32_t *gpus, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const uint32_t moved = gpus[i];
        uint32_t at = i;

        for (; at > 0 && shared->gpus[gpus[at - 1]].load_ms > shared->gpus[moved].load_ms; at--)
            gpus[at] = gpus[at - 1];
        gpus[at] = moved;
    }
}

/* The GPUs of a node with room for the job, behind count others. */
static uint32_t add_fitting(const struct shared *shared, const struct lull_shared_job *job,
                            uint32_t node, uint32_t *gpus, uint32_t count)
{
    const uint32_t first = node * shared->setup->gpus_per_node;

    for (uint32_t gpu = first; gpu < first + shared->setup->gpus_per_node; gpu++)
        if (shared->gpus[gpu].free_mb >= job->memory_mb)
            gpus[count++] = gpu;
    return count;
}

/* Puts a random choice of so many ahead (Fisher and Yates). */
static void choose(struct shared *shared, uint32_t *gpus, uint32_t count, uint32_t wanted)
{
    for (uint32_t i = 0; i < wanted; i++) {
        const uint32_t from = i + (uint32_t)lull_random_below(&shared->random, count - i);
        const uint32_t chosen = gpus[from];

        gpus[from] = gpus[i];
        gpus[i] = chosen;
    }
}

bool lull_shared_place(struct shared *shared, const struct lull_shared_job *job, uint32_t *gpus_out)
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
        choose(shared, gpus, count, job->workers);
    for (uint32_t i = 0; i < job->workers; i++)
        gpus_out[i] = gpus[i];
    return true;
}
