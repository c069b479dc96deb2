/*
 * Waiting sleeps in the node until the estimated end. A change by any process, such as a clock
 * switch, wakes the sleeper, which then estimates again.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/workload.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "emulator/node.h"

struct lull_emulated_gpu {
    struct lull_node *node;
    uint32_t index;
    int context;
};

/* Estimates when the awaited event will happen at the present
 * rates. A time that is not later than now means that it has
 * happened. */
typedef int64_t (*estimate)(const struct lull_physics *physics, int context, double share);

int lull_emulated_gpu_open(uint32_t index, struct lull_emulated_gpu **gpu_out,
                           struct lull_error *err)
{
    const char *path = getenv(LULL_EMULATED_NODE_VARIABLE);
    struct lull_emulated_gpu *gpu;
    int result;

    if (path == NULL || *path == '\0') {
        *gpu_out = NULL;
        return 0;
    }
    gpu = calloc(1, sizeof(*gpu));
    if (gpu == NULL)
        return lull_error_set(err, -ENOMEM, "emulated GPU %u: no memory", index);
    result = lull_node_open(path, &gpu->node, err);
    if (result < 0)
        goto free_gpu;
    if (index >= lull_node_gpu_count(gpu->node)) {
        result = lull_error_set(err, -ENODEV, "emulated GPU %u: the node has %u GPUs", index,
                                lull_node_gpu_count(gpu->node));
        goto close_node;
    }
    gpu->index = index;
    gpu->context = lull_node_open_context(gpu->node, index);
    if (gpu->context < 0) {
        result = lull_error_set(err, -EBUSY, "emulated GPU %u: it has no context left", index);
        goto close_node;
    }
    /* The default timer slack would make every wait end 50 us late. */
    prctl(PR_SET_TIMERSLACK, 1000UL);
    *gpu_out = gpu;
    return 0;

close_node:
    lull_node_close(gpu->node);
free_gpu:
    free(gpu);
    return result;
}

void lull_emulated_gpu_close(struct lull_emulated_gpu *gpu)
{
    if (gpu == NULL)
        return;
    lull_physics_close(lull_node_begin(gpu->node, gpu->index), gpu->context);
    lull_node_end(gpu->node, gpu->index, true);
    lull_node_close(gpu->node);
    free(gpu);
}

void lull_emulated_gpu_allocate(struct lull_emulated_gpu *gpu, uint32_t memory_mib)
{
    if (gpu == NULL)
        return;
    lull_node_begin(gpu->node, gpu->index)->contexts[gpu->context].memory_mib = memory_mib;
    lull_node_end(gpu->node, gpu->index, false);
}

static void emulated_work_await(struct lull_emulated_gpu *gpu, estimate estimate_ns, double share)
{
    for (;;) {
        const struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
        const uint32_t generation = lull_node_generation(gpu->node, gpu->index);
        const int64_t ready_ns = estimate_ns(physics, gpu->context, share);
        const bool is_ready = ready_ns <= physics->now_ns;
        const int64_t change_ns = lull_physics_rate_change_ns(physics);

        lull_node_end(gpu->node, gpu->index, false);
        if (is_ready)
            return;
        lull_node_sleep(gpu->node, gpu->index, generation, lull_earlier_ns(ready_ns, change_ns));
    }
}

static int64_t room_ns(const struct lull_physics *physics, int context, double share)
{
    (void)share;
    return lull_physics_queue_room_ns(physics, context);
}

static int64_t queue_end_ns(const struct lull_physics *physics, int context, double share)
{
    (void)share;
    return lull_physics_queue_end_ns(physics, context);
}

void lull_emulated_gpu_launch(struct lull_emulated_gpu *gpu, const struct lull_kernel *kernel)
{
    bool is_launched = false;

    if (gpu == NULL)
        return;
    while (!is_launched) {
        struct lull_physics *physics = lull_node_begin(gpu->node, gpu->index);
        const struct lull_gpu_profile *profile =
            lull_gpu_model_profile(&physics->model, kernel->profile);

        is_launched =
            lull_physics_launch(physics, gpu->context, kernel->duration_ms * 1e-3, profile);
        lull_node_end(gpu->node, gpu->index, true);
        if (!is_launched)
            emulated_work_await(gpu, room_ns, 0);
    }
}

void lull_emulated_gpu_wait(struct lull_emulated_gpu *gpu)
{
    if (gpu != NULL)
        emulated_work_await(gpu, queue_end_ns, 0);
}

bool lull_emulated_gpu_wait_for(struct lull_emulated_gpu *gpu, uint64_t number, int64_t *end_ns_out)
{
    for (;;) {
        const struct lull_physics *const physics = lull_node_begin(gpu->node, gpu->index);
        const uint32_t generation = lull_node_generation(gpu->node, gpu->index);
        const struct lull_physics_kernel *const work =
            lull_physics_find_work(physics, gpu->context, number);
        const bool is_known = work != NULL;
        const bool has_ended = work == NULL || work->state == LULL_WORK_ENDED;
        const int64_t end_ns = work == NULL ? 0 : work->end_ns;
        const int64_t change_ns = lull_earlier_ns(lull_physics_work_change_ns(physics),
                                                  lull_physics_rate_change_ns(physics));

        lull_node_end(gpu->node, gpu->index, false);
        if (is_known && has_ended)
            *end_ns_out = end_ns;
        if (has_ended)
            return is_known;
        lull_node_sleep(gpu->node, gpu->index, generation, change_ns);
    }
}

void lull_emulated_gpu_transfer_begin(struct lull_emulated_gpu *gpu,
                                      const struct lull_workload_transfer *transfer)
{
    if (gpu == NULL)
        return;
    lull_physics_transfer_begin(lull_node_begin(gpu->node, gpu->index), gpu->context,
                                transfer->bytes, transfer->link_gbs, transfer->channels);
    lull_node_end(gpu->node, gpu->index, true);
}

void lull_emulated_gpu_transfer_wait(struct lull_emulated_gpu *gpu, double share)
{
    if (gpu != NULL)
        emulated_work_await(gpu, lull_physics_transfer_share_ns, share);
}

void lull_emulated_gpu_transfer_end(struct lull_emulated_gpu *gpu)
{
    if (gpu == NULL)
        return;
    lull_physics_transfer_end(lull_node_begin(gpu->node, gpu->index), gpu->context);
    lull_node_end(gpu->node, gpu->index, true);
}

struct lull_node *lull_emulated_gpu_node(const struct lull_emulated_gpu *gpu)
{
    return gpu->node;
}

int lull_emulated_gpu_context(const struct lull_emulated_gpu *gpu)
{
    return gpu->context;
}
