/*
 * The kernels of a suite on an NVIDIA GPU. A run keeps two batches of launches in the GPU's queue,
 * so that it never waits for the processor; what a launch takes is estimated again from each batch,
 * for the clocks change between runs. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lab/sweep/cuda_workload.h"
#include "lab/sweep/suite/program.h"

/* Length of a batch, and the limit of its launches. Chosen: far longer than it takes to wake up,
 * far shorter than a run; and the queue of a GPU has room for about a thousand. */
static const double batch_s = 5e-3;
enum { MAX_IN_BATCH = 400, BATCHES = 2 };

struct lull_cuda_suite {
    struct lull_suite_files *files;
    struct lull_suite *suite;
    struct lull_suite_compiler *compiler;
    struct lull_cuda cuda;
    void *fills;                     /* module of fill.cu */
    struct lull_suite_image *images; /* of the kernels; bytes NULL: not compiled yet */
    void *events[BATCHES];           /* the ends of batches */
    struct lull_suite_ranks *ranks;  /* of all GPUs; NULL: no collective was started yet */
    struct lull_suite_program program;
    bool is_started;
    double launch_s; /* of the started kernel, as it was last */
    atomic_bool is_cancelled;
};

/* ---- opening ---- */

static int cuda_load_compile(struct lull_cuda_suite *workload, const char *source,
                             const struct lull_suite_define *defines, uint32_t define_count,
                             struct lull_suite_image *image_out, struct lull_error *err)
{
    struct lull_suite_file file;
    uint32_t header_count;
    const struct lull_suite_file *headers;
    const int result = lull_suite_files_source(workload->files, source, &file, err);

    if (result < 0)
        return result;
    headers = lull_suite_files_headers(workload->files, &header_count);
    return lull_suite_compile(
        workload->compiler,
        &(struct lull_suite_unit){&file, headers, header_count, defines, define_count},
        workload->cuda.capability, image_out, err);
}

static int load_fills(struct lull_cuda_suite *workload, struct lull_error *err)
{
    struct lull_suite_image image;
    int result = cuda_load_compile(workload, "fill.cu", NULL, 0, &image, err);
    int code;

    if (result < 0)
        return result;
    code = workload->cuda.module_load(&workload->fills, image.bytes);
    if (code != CUDA_OK)
        workload->fills = NULL;
    free(image.bytes);
    return lull_cuda_result(&workload->cuda, code, "load a kernel; is NVRTC newer than the driver?",
                            err);
}

static int read_suite(struct lull_cuda_suite *workload, const char *path, struct lull_error *err)
{
    struct lull_suite_file description;
    int result = lull_suite_files_open(path, &workload->files, err);

    if (result < 0)
        return result;
    description = lull_suite_files_description(workload->files);
    result = lull_suite_read(description.name, description.text, description.size, &workload->suite,
                             err);
    if (result < 0)
        return result;
    workload->images = calloc(lull_suite_count(workload->suite), sizeof(*workload->images));
    if (workload->images == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the suite");
    return 0;
}

static int create_events(struct lull_cuda_suite *workload, struct lull_error *err)
{
    for (uint32_t i = 0; i < BATCHES; i++) {
        const int code = workload->cuda.event_create(&workload->events[i],
                                                     CUDA_EVENT_BLOCKING | CUDA_EVENT_UNTIMED);

        if (code != CUDA_OK) {
            workload->events[i] = NULL;
            return lull_cuda_result(&workload->cuda, code, "create an event", err);
        }
    }
    return 0;
}

static void close_cuda(void *state);

static int open_cuda(const struct lull_workload_place *place, void **workload_out,
                     struct lull_error *err)
{
    struct lull_cuda_suite *const workload = calloc(1, sizeof(*workload));
    int result;

    if (workload == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the suite");
    result = lull_cuda_open(&workload->cuda, place->uuid, err);
    if (result == 0)
        result = lull_suite_compiler_open(&workload->compiler, err);
    if (result == 0)
        result = read_suite(workload, place->file, err);
    if (result == 0)
        result = load_fills(workload, err);
    if (result == 0)
        result = create_events(workload, err);
    if (result < 0) {
        close_cuda(workload);
        return result;
    }
    *workload_out = workload;
    return 0;
}

static uint32_t cuda_load_count_kernels(const void *state)
{
    const struct lull_cuda_suite *const workload = state;

    return lull_suite_count(workload->suite);
}

static struct lull_workload_kernel cuda_load_name_kernel(const void *state, uint32_t index)
{
    const struct lull_cuda_suite *const workload = state;
    const struct lull_suite_kernel *const kernel = lull_suite_kernel_at(workload->suite, index);

    return (struct lull_workload_kernel){kernel->name, kernel->arg};
}

/* ---- starting ---- */

/* A collective's check also knows how many GPUs there are. */
static int compile_kernel(struct lull_cuda_suite *workload, const struct lull_suite_kernel *kernel,
                          struct lull_suite_image *image, struct lull_error *err)
{
    struct lull_suite_define defines[LULL_SUITE_MAX_SIZES + LULL_SUITE_MAX_DEFINES + 1];
    uint32_t count = kernel->define_count;
    char gpus[16];

    memcpy(defines, kernel->defines, sizeof(kernel->defines));
    if (kernel->collective != LULL_SUITE_NO_COLLECTIVE) {
        snprintf(gpus, sizeof(gpus), "%u", lull_suite_ranks_count(workload->ranks));
        defines[count++] = (struct lull_suite_define){"GPUS", gpus};
    }
    return cuda_load_compile(workload, kernel->source, defines, count, image, err);
}

static int cuda_load_prepare(struct lull_cuda_suite *workload, uint32_t index,
                             struct lull_error *err)
{
    const struct lull_suite_kernel *const kernel = lull_suite_kernel_at(workload->suite, index);
    const bool is_collective = kernel->collective != LULL_SUITE_NO_COLLECTIVE;
    struct lull_suite_image *const image = &workload->images[index];
    int result = 0;

    if (workload->cuda.capability < kernel->capability)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "it needs compute capability %u.%u; this GPU has %u.%u",
                              kernel->capability / 10, kernel->capability % 10,
                              workload->cuda.capability / 10, workload->cuda.capability % 10);
    if (is_collective && workload->ranks == NULL)
        result = lull_suite_ranks_open(&workload->cuda, &workload->ranks, err);
    if (result == 0 && image->bytes == NULL)
        result = compile_kernel(workload, kernel, image, err);
    if (result < 0)
        return result;
    return lull_suite_program_begin(&workload->program, &workload->cuda, kernel,
                                    is_collective ? workload->ranks : NULL, image->bytes,
                                    workload->fills, err);
}

/* Launches twice: the first launch is checked and triggers lazy loading; the second is timed.
 */
static int try_out(struct lull_cuda_suite *workload, struct lull_error *err)
{
    struct lull_cuda *const cuda = &workload->cuda;
    int result = lull_suite_program_launch(&workload->program, err);
    int64_t begin_ns;

    if (result == 0)
        result = lull_suite_program_check(&workload->program, err);
    if (result < 0)
        return result;
    begin_ns = lull_now_ns();
    result = lull_suite_program_launch(&workload->program, err);
    if (result < 0)
        return result;
    result = lull_cuda_result(cuda, cuda->context_wait(), "run a kernel", err);
    workload->launch_s = (double)(lull_now_ns() - begin_ns) * 1e-9;
    return result;
}

static int cuda_load_start_kernel(void *state, uint32_t index, struct lull_error *err)
{
    struct lull_cuda_suite *const workload = state;
    int result = cuda_load_prepare(workload, index, err);

    if (result < 0)
        return result;
    result = try_out(workload, err);
    if (result < 0)
        lull_suite_program_end(&workload->program);
    workload->is_started = result == 0;
    return result;
}

static void cuda_load_stop_kernel(void *state)
{
    struct lull_cuda_suite *const workload = state;

    if (workload->is_started)
        lull_suite_program_end(&workload->program);
    workload->is_started = false;
}

/* ---- running ---- */

/* Launches that are in the GPU's queue or have left it. */
struct queue {
    uint64_t launched;
    uint64_t ended;
    uint64_t in_batch[BATCHES]; /* of the batches in the queue, from the oldest at `oldest` */
    uint32_t oldest;
    uint32_t batches;
};

/* Launches a batch and marks its end. */
static int launch_batch(struct lull_cuda_suite *workload, struct queue *queue, uint64_t launches,
                        struct lull_error *err)
{
    const uint32_t at = (queue->oldest + queue->batches) % BATCHES;

    for (uint64_t i = 0; i < launches; i++) {
        const int result = lull_suite_program_launch(&workload->program, err);

        if (result < 0)
            return result;
    }
    queue->in_batch[at] = launches;
    queue->launched += launches;
    queue->batches++;
    return lull_cuda_result(&workload->cuda,
                            workload->cuda.event_record(workload->events[at], NULL),
                            "mark a launch", err);
}

/* Waits for the end of the oldest batch. */
static int await_batch(struct lull_cuda_suite *workload, struct queue *queue,
                       struct lull_error *err)
{
    const uint32_t at = queue->oldest;

    queue->oldest = (at + 1) % BATCHES;
    queue->batches--;
    queue->ended += queue->in_batch[at];
    return lull_cuda_result(&workload->cuda, workload->cuda.event_wait(workload->events[at]),
                            "run a kernel", err);
}

/* Returns how many launches the next batch has, where so many seconds are not taken yet. */
static uint64_t choose_batch(const struct lull_cuda_suite *workload, double left_s)
{
    const double wanted = round(fmin(batch_s, left_s) / workload->launch_s);

    return (uint64_t)fmin(fmax(wanted, 1.0), MAX_IN_BATCH);
}

static int cuda_load_run_kernel(void *state, double seconds, struct lull_workload_run *run_out,
                                struct lull_error *err)
{
    struct lull_cuda_suite *const workload = state;
    const int64_t begin_ns = lull_now_ns();
    struct queue queue = {0};
    double past_s = 0; /* until the end of the last finished batch */

    for (;;) {
        const double queued_s = (double)(queue.launched - queue.ended) * workload->launch_s;
        const double left_s = seconds - past_s - queued_s;
        const bool wants_more = queue.launched == 0 || left_s >= 0.5 * workload->launch_s;
        int result;

        if (atomic_load(&workload->is_cancelled))
            return lull_error_set(err, -EINTR, "the sweep was stopped");
        if (!wants_more && queue.batches == 0)
            break;
        if (wants_more && queue.batches < BATCHES) {
            result = launch_batch(workload, &queue, choose_batch(workload, left_s), err);
        } else {
            result = await_batch(workload, &queue, err);
            past_s = (double)(lull_now_ns() - begin_ns) * 1e-9;
            workload->launch_s = past_s / (double)queue.ended;
        }
        if (result < 0)
            return result;
    }
    *run_out = (struct lull_workload_run){queue.ended, past_s};
    return 0;
}

/* A run checks this after each batch, and stopping waits for the batches in the queue. */
static void cuda_load_cancel(void *state)
{
    struct lull_cuda_suite *const workload = state;

    atomic_store(&workload->is_cancelled, true);
}

/* ---- closing ---- */

static void close_cuda(void *state)
{
    struct lull_cuda_suite *const workload = state;

    if (workload == NULL)
        return;
    cuda_load_stop_kernel(workload);
    lull_suite_ranks_close(workload->ranks);
    for (uint32_t i = 0; i < BATCHES; i++)
        if (workload->events[i] != NULL)
            workload->cuda.event_destroy(workload->events[i]);
    if (workload->fills != NULL)
        workload->cuda.module_unload(workload->fills);
    if (workload->cuda.context != NULL)
        lull_cuda_close(&workload->cuda);
    if (workload->images != NULL)
        for (uint32_t i = 0; i < lull_suite_count(workload->suite); i++)
            free(workload->images[i].bytes);
    free(workload->images);
    lull_suite_compiler_close(workload->compiler);
    lull_suite_destroy(workload->suite);
    lull_suite_files_close(workload->files);
    free(workload);
}

const struct lull_workload_kind lull_cuda_workload = {
    .name = "cuda",
    .open = open_cuda,
    .count = cuda_load_count_kernels,
    .kernel = cuda_load_name_kernel,
    .start = cuda_load_start_kernel,
    .run = cuda_load_run_kernel,
    .cancel = cuda_load_cancel,
    .stop = cuda_load_stop_kernel,
    .close = close_cuda,
};
