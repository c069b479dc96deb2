/*
 * The kernels of the emulated node: one for each profile of the emulated GPU's model. A few
 * launches are always enqueued ahead of the one that a run ends with, so that the GPU does not idle
 * between runs, and a run's time is that of the GPU: none of this machine's noise is in it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "lab/sweep/workload.h"
#include "emulator/node.h"
#include "emulator/workload.h"

/* Time of a launch at the highest clock, and number of launches queued ahead. Chosen: 20 launches
 * fit into a second, and the host of a node whose time runs 20 times as fast may be late by 35 ms.
 */
static const double launch_ms = 50.0;
enum { AHEAD = 14, MAX_AT_ONCE = 16 };
_Static_assert(AHEAD + MAX_AT_ONCE < LULL_PHYSICS_KERNELS, "the queue must have room");

struct emulated_workload {
    uint32_t index;
    struct lull_emulated_gpu *gpu; /* NULL: nothing is started */
    struct lull_gpu_model model;
    struct lull_kernel kernel; /* that is started */
    uint64_t launched;
    uint64_t awaited;   /* launches that runs have waited for */
    uint64_t known;     /* of these, up to the last one of which the end is known... */
    int64_t known_ns;   /* ...and when that was */
    double measured_ms; /* present time of a launch */
};

/* Copies the model of a GPU, if there is an emulated node. */
static int emulated_load_find_model(uint32_t index, struct lull_gpu_model *model_out,
                                    struct lull_error *err)
{
    struct lull_emulated_gpu *gpu;
    const int result = lull_emulated_gpu_open(index, &gpu, err);

    if (result < 0)
        return result;
    if (gpu == NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "not an emulated node; try lull emulate A100-SXM4-40GB -- ...");
    *model_out = lull_node_begin(lull_emulated_gpu_node(gpu), index)->model;
    lull_node_end(lull_emulated_gpu_node(gpu), index, false);
    lull_emulated_gpu_close(gpu);
    return 0;
}

static int open_emulated(const struct lull_workload_place *place, void **workload_out,
                         struct lull_error *err)
{
    struct emulated_workload *workload;
    int result;

    if (place->file != NULL)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "an emulated node has kernels of its own; leave out the file");
    workload = calloc(1, sizeof(*workload));
    if (workload == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the kernels");
    workload->index = place->gpu;
    result = emulated_load_find_model(place->gpu, &workload->model, err);
    if (result < 0) {
        free(workload);
        return result;
    }
    *workload_out = workload;
    return 0;
}

static uint32_t emulated_load_count_kernels(const void *state)
{
    const struct emulated_workload *const workload = state;

    return workload->model.profile_count;
}

static struct lull_workload_kernel emulated_load_name_kernel(const void *state, uint32_t index)
{
    const struct emulated_workload *const workload = state;

    return (struct lull_workload_kernel){workload->model.profiles[index].name, ""};
}

static void emulated_load_launch(struct emulated_workload *workload)
{
    lull_emulated_gpu_launch(workload->gpu, &workload->kernel);
    workload->launched++;
}

/* Waits for the next launch that nothing has waited for yet. When this process was late, its end
 * may not be known any more. */
static void emulated_load_await(struct emulated_workload *workload)
{
    int64_t end_ns;

    if (lull_emulated_gpu_wait_for(workload->gpu, workload->awaited++, &end_ns)) {
        workload->known = workload->awaited;
        workload->known_ns = end_ns;
    }
}

/* Keeps so many launches enqueued beyond those that have been waited for. */
static void emulated_load_fill(struct emulated_workload *workload, uint64_t wanted)
{
    while (workload->launched < workload->awaited + wanted)
        emulated_load_launch(workload);
}

/* Waits for at least so many launches, the end of the last of which is known. */
static struct lull_workload_run run_launches(struct emulated_workload *workload, uint64_t count)
{
    const uint64_t begin = workload->known;
    const int64_t begin_ns = workload->known_ns;
    struct lull_workload_run run;

    emulated_load_fill(workload, count + AHEAD);
    for (uint64_t i = 0; i < count || workload->known < begin + count; i++) {
        emulated_load_await(workload);
        emulated_load_fill(workload, AHEAD);
    }
    run.launches = workload->known - begin;
    run.seconds = (double)(workload->known_ns - begin_ns) * 1e-9;
    workload->measured_ms = 1e3 * run.seconds / (double)run.launches;
    return run;
}

/* Each kernel has a context of its own: the limiter of an emulated GPU forgets a kernel that drew
 * far too much only when its context ends. The first launch is not waited for by a run, so that the
 * time of the second begins where it ended. */
static int emulated_load_start_kernel(void *state, uint32_t index, struct lull_error *err)
{
    struct emulated_workload *const workload = state;
    const int result = lull_emulated_gpu_open(workload->index, &workload->gpu, err);

    if (result < 0)
        return result;
    workload->kernel = (struct lull_kernel){launch_ms, workload->model.profiles[index].name};
    workload->launched = 0;
    workload->awaited = 0;
    workload->known = 0;
    emulated_load_launch(workload);
    emulated_load_await(workload);
    run_launches(workload, 1);
    return 0;
}

static int emulated_load_run_kernel(void *state, double seconds, struct lull_workload_run *run_out,
                                    struct lull_error *err)
{
    struct emulated_workload *const workload = state;
    const double wanted = round(1e3 * seconds / workload->measured_ms);

    (void)err;
    *run_out = run_launches(workload, (uint64_t)fmin(fmax(wanted, 1.0), MAX_AT_ONCE));
    return 0;
}

static void emulated_load_stop_kernel(void *state)
{
    struct emulated_workload *const workload = state;

    lull_emulated_gpu_close(workload->gpu);
    workload->gpu = NULL;
}

static void close_emulated(void *state)
{
    struct emulated_workload *const workload = state;

    if (workload == NULL)
        return;
    emulated_load_stop_kernel(workload);
    free(workload);
}

const struct lull_workload_kind lull_emulated_workload = {
    .name = "emulated",
    .open = open_emulated,
    .count = emulated_load_count_kernels,
    .kernel = emulated_load_name_kernel,
    .start = emulated_load_start_kernel,
    .run = emulated_load_run_kernel,
    .stop = emulated_load_stop_kernel,
    .close = close_emulated,
};
