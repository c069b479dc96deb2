/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/suite/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    COUNTERS = 2,
    MAX_FILL_BLOCKS = 1024, /* chosen: some for each SM of any GPU */
    FILL_THREADS = 256,
    LAUNCHABLE_SHARED = 48 * 1024, /* more shared memory must be allowed first */
};

/* ---- memory ---- */

static int suite_program_check_memory(const struct lull_cuda *cuda,
                                      const struct lull_suite_kernel *kernel,
                                      struct lull_error *err)
{
    size_t free_bytes, total_bytes;
    uint64_t wanted = 0;
    const int code = cuda->memory_info(&free_bytes, &total_bytes);

    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "query the free memory", err);
    for (uint32_t i = 0; i < kernel->buffer_count; i++)
        wanted += kernel->buffers[i].bytes;
    if (wanted <= free_bytes)
        return 0;
    return lull_error_set(err, LULL_E_UNSUPPORTED,
                          "it needs %.1f GB of the GPU's memory, and %.1f GB are free",
                          (double)wanted * 1e-9, (double)free_bytes * 1e-9);
}

static int find_function(const struct lull_cuda *cuda, void *module, const char *name,
                         const char *source, void **function_out, struct lull_error *err)
{
    if (cuda->module_function(function_out, module, name) == CUDA_OK)
        return 0;
    return lull_error_set(err, LULL_E_FORMAT, "%s has no extern \"C\" __global__ void %s(...)",
                          source, name);
}

/* Fills a buffer with FILL_TYPE(data, count, seed), whose seed is the buffer's number. */
static int suite_program_fill(const struct lull_suite_program *program, uint32_t number,
                              void *fills, struct lull_error *err)
{
    const struct lull_cuda *const cuda = program->cuda;
    const struct lull_suite_buffer *const buffer = &program->kernel->buffers[number];
    const uint64_t blocks = (buffer->count + FILL_THREADS - 1) / FILL_THREADS;
    const uint32_t grid = blocks < MAX_FILL_BLOCKS ? (uint32_t)blocks : MAX_FILL_BLOCKS;
    cuda_address data = program->buffers[number];
    uint64_t count = buffer->count;
    uint64_t seed = number;
    void *arguments[] = {&data, &count, &seed, NULL};
    char name[160];
    void *function;
    int result, code;

    if (buffer->fill == NULL) {
        code = cuda->memory_set(data, 0, buffer->bytes);
        return lull_cuda_result(cuda, code, "clear a buffer", err);
    }
    snprintf(name, sizeof(name), "%s_%s", buffer->fill, buffer->type);
    result = find_function(cuda, fills, name, "fill.cu", &function, err);
    if (result < 0)
        return result;
    code = cuda->launch(function, grid, 1, 1, FILL_THREADS, 1, 1, 0, NULL, arguments, NULL);
    return lull_cuda_result(cuda, code, "fill a buffer", err);
}

static int suite_program_allocate(struct lull_suite_program *program, void *fills,
                                  struct lull_error *err)
{
    const struct lull_cuda *const cuda = program->cuda;
    int code = cuda->memory_allocate(&program->counters, COUNTERS * sizeof(uint32_t));

    for (uint32_t i = 0; i < program->kernel->buffer_count && code == CUDA_OK; i++)
        code = cuda->memory_allocate(&program->buffers[i], program->kernel->buffers[i].bytes);
    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "allocate a buffer", err);
    for (uint32_t i = 0; i < program->kernel->buffer_count; i++) {
        const int result = suite_program_fill(program, i, fills, err);

        if (result < 0)
            return result;
    }
    return lull_cuda_result(cuda, cuda->context_wait(), "fill the buffers", err);
}

/* ---- functions ---- */

static int find_launch(const struct lull_suite_program *program,
                       const struct lull_suite_launch *launch, void **function_out,
                       struct lull_error *err)
{
    const struct lull_cuda *const cuda = program->cuda;
    const int result = find_function(cuda, program->module, launch->entry, program->kernel->source,
                                     function_out, err);
    int code;

    if (result < 0 || launch->shared <= LAUNCHABLE_SHARED)
        return result;
    code = cuda->function_set(*function_out, CUDA_DYNAMIC_SHARED, (int)launch->shared);
    if (code == CUDA_OK)
        return 0;
    return lull_error_set(err, LULL_E_UNSUPPORTED, "%s needs %u bytes of shared memory in a block",
                          launch->entry, launch->shared);
}

static int suite_program_find_functions(struct lull_suite_program *program, struct lull_error *err)
{
    for (uint32_t i = 0; i < program->kernel->launch_count; i++) {
        const int result =
            find_launch(program, &program->kernel->launches[i], &program->functions[i], err);

        if (result < 0)
            return result;
    }
    return find_launch(program, &program->kernel->check, &program->check, err);
}

static int launch_one(const struct lull_suite_program *program,
                      const struct lull_suite_launch *launch, void *function, bool has_counters)
{
    cuda_address values[LULL_SUITE_MAX_BUFFERS + 1];
    void *arguments[LULL_SUITE_MAX_BUFFERS + 2] = {NULL};

    for (uint32_t i = 0; i < launch->buffer_count; i++)
        values[i] = program->buffers[launch->buffers[i]];
    if (has_counters)
        values[launch->buffer_count] = program->counters;
    for (uint32_t i = 0; i < launch->buffer_count + has_counters; i++)
        arguments[i] = &values[i];
    return program->cuda->launch(function, launch->grid[0], launch->grid[1], launch->grid[2],
                                 launch->block[0], launch->block[1], launch->block[2],
                                 launch->shared, NULL, arguments, NULL);
}

/* ---- whole programs ---- */

int lull_suite_program_begin(struct lull_suite_program *program, const struct lull_cuda *cuda,
                             const struct lull_suite_kernel *kernel, struct lull_suite_ranks *ranks,
                             const void *image, void *fills, struct lull_error *err)
{
    int result = suite_program_check_memory(cuda, kernel, err);
    int code;

    *program = (struct lull_suite_program){.cuda = cuda, .kernel = kernel, .ranks = ranks};
    if (result < 0)
        return result;
    code = cuda->module_load(&program->module, image);
    if (code != CUDA_OK) {
        program->module = NULL;
        return lull_cuda_result(cuda, code, "load a kernel; is NVRTC newer than the driver?", err);
    }
    result = suite_program_find_functions(program, err);
    if (result == 0)
        result = suite_program_allocate(program, fills, err);
    if (result == 0 && ranks != NULL)
        result = lull_suite_ranks_begin(ranks, kernel, program->buffers, err);
    if (result < 0)
        lull_suite_program_end(program);
    return result;
}

void lull_suite_program_end(struct lull_suite_program *program)
{
    const struct lull_cuda *const cuda = program->cuda;

    if (program->ranks != NULL)
        lull_suite_ranks_end(program->ranks);
    if (program->counters != 0)
        cuda->memory_free(program->counters);
    for (uint32_t i = 0; i < program->kernel->buffer_count; i++)
        if (program->buffers[i] != 0)
            cuda->memory_free(program->buffers[i]);
    if (program->module != NULL)
        cuda->module_unload(program->module);
    *program = (struct lull_suite_program){.cuda = cuda, .kernel = program->kernel};
}

int lull_suite_program_launch(const struct lull_suite_program *program, struct lull_error *err)
{
    if (program->ranks != NULL)
        return lull_suite_ranks_launch(program->ranks, program->kernel, err);
    for (uint32_t i = 0; i < program->kernel->launch_count; i++) {
        const int code =
            launch_one(program, &program->kernel->launches[i], program->functions[i], false);

        if (code != CUDA_OK)
            return lull_cuda_result(program->cuda, code, "launch a kernel", err);
    }
    return 0;
}

int lull_suite_program_check(const struct lull_suite_program *program, struct lull_error *err)
{
    const struct lull_cuda *const cuda = program->cuda;
    const struct lull_suite_kernel *const kernel = program->kernel;
    uint32_t counters[COUNTERS] = {0};
    int code = cuda->memory_set(program->counters, 0, sizeof(counters));

    if (code == CUDA_OK)
        code = launch_one(program, &kernel->check, program->check, true);
    if (code == CUDA_OK)
        code = cuda->context_wait();
    if (code == CUDA_OK)
        code = cuda->memory_read(counters, program->counters, sizeof(counters));
    if (code != CUDA_OK)
        return lull_cuda_result(cuda, code, "check a kernel", err);
    if (counters[0] == 0 && counters[1] > 0)
        return 0;
    return lull_error_set(
        err, -EIO,
        "%s %s computes wrongly on this GPU: of %u results that were looked at, %u "
        "are not as they should be; the GPU or its driver may be faulty",
        kernel->name, kernel->arg, counters[1], counters[0]);
}
