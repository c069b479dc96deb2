/*
 * Every kernel of the suite compiles by the real NVRTC, for the architectures that are named and
 * that its least capability allows; "least" represents that capability. No GPU is needed. Usage:
 * test_compile ARCHITECTURE... SPDX-License-Identifier: Apache-2.0
 */
#include <glob.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lab/sweep/suite/compiler.h"

/* Finds NVRTC where tools/install-deps puts it. */
static void look_in_cache(void)
{
    const char *const home = getenv("HOME");
    char pattern[512];
    glob_t found;

    if (getenv("LULL_NVRTC") != NULL || home == NULL)
        return;
    snprintf(pattern, sizeof(pattern),
             "%s/.cache/lull/nvrtc/lib/python3*/site-packages/nvidia/cuda_nvrtc/lib/libnvrtc.so.12",
             home);
    if (glob(pattern, 0, NULL, &found) != 0)
        return;
    setenv("LULL_NVRTC", found.gl_pathv[0], 1);
    globfree(&found);
}

/* Counters shared by all workers. */
struct counts {
    atomic_uint compiled;
    atomic_uint failed;
    atomic_uint
        unknown; /* architectures that this NVRTC does not compile for, once for each kernel */
};

struct task {
    struct counts *counts;
    struct lull_suite_files *files;
    struct lull_suite *suite;
    struct lull_suite_compiler *compiler;
};

static void compile(const struct task *task, const char *source,
                    const struct lull_suite_define *defines, uint32_t define_count,
                    uint32_t capability, const char *name)
{
    struct lull_suite_image image;
    struct lull_suite_file file;
    struct lull_error err = {0};
    uint32_t header_count;
    const struct lull_suite_file *headers = lull_suite_files_headers(task->files, &header_count);
    int result = lull_suite_files_source(task->files, source, &file, &err);

    if (result == 0)
        result = lull_suite_compile(
            task->compiler,
            &(struct lull_suite_unit){&file, headers, header_count, defines, define_count},
            capability, &image, &err);
    if (result == LULL_E_UNSUPPORTED) {
        if (atomic_fetch_add(&task->counts->unknown, 1) == 0)
            fprintf(stderr, "%s\n", err.text);
        return;
    }
    if (result == 0 && (image.size < 4 || memcmp(image.bytes, "\177ELF", 4) != 0))
        result = lull_error_set(&err, -1, "%s: what came is no machine code", source);
    atomic_fetch_add(result == 0 ? &task->counts->compiled : &task->counts->failed, 1);
    if (result == 0)
        free(image.bytes);
    else
        fprintf(stderr, "%s, sm_%u: %s\n", name, capability, err.text);
}

static void compile_kernel(const struct task *task, const struct lull_suite_kernel *kernel,
                           uint32_t capability)
{
    struct lull_suite_define defines[LULL_SUITE_MAX_SIZES + LULL_SUITE_MAX_DEFINES + 1];
    uint32_t count = kernel->define_count;

    memcpy(defines, kernel->defines, sizeof(kernel->defines));
    if (kernel->collective != LULL_SUITE_NO_COLLECTIVE)
        defines[count++] = (struct lull_suite_define){"GPUS", "8"};
    compile(task, kernel->source, defines, count, capability, kernel->name);
}

/* Compiles the share of one worker. */
static void work(const struct task *task, char **words, uint32_t part, uint32_t parts)
{
    uint32_t number = 0;

    for (; *words != NULL; words++) {
        const uint32_t named = (uint32_t)strtoul(*words, NULL, 10); /* "least": 0 */

        if (number++ % parts == part)
            compile(task, "fill.cu", NULL, 0, named != 0 ? named : 75, "fill");
        for (uint32_t i = 0; i < lull_suite_count(task->suite); i++) {
            const struct lull_suite_kernel *const kernel = lull_suite_kernel_at(task->suite, i);
            const uint32_t capability = named != 0 ? named : kernel->capability;

            if (capability >= kernel->capability && number++ % parts == part)
                compile_kernel(task, kernel, capability);
        }
    }
}

static void work_together(const struct task *task, char **words)
{
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    const uint32_t parts = cores > 1 ? (uint32_t)cores : 1;

    for (uint32_t part = 0; part < parts; part++)
        if (fork() == 0) {
            work(task, words, part, parts);
            _exit(0);
        }
    for (uint32_t part = 0; part < parts; part++) {
        int status = 0;

        if (wait(&status) < 0 || !WIFEXITED(status))
            atomic_fetch_add(&task->counts->failed, 1);
    }
}

int main(int argc, char **argv)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_suite_file description;
    struct lull_error err = {0};
    struct task task;

    look_in_cache();
    if (lull_suite_compiler_open(&task.compiler, &err) < 0) {
        printf("skipped: %s\n", err.text);
        return 77;
    }
    if (argc < 2 || lull_suite_files_open(NULL, &task.files, &err) < 0)
        return 1;
    description = lull_suite_files_description(task.files);
    if (lull_suite_read(description.name, description.text, description.size, &task.suite, &err) <
        0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    task.counts =
        mmap(NULL, sizeof(*task.counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (task.counts == MAP_FAILED)
        return 1;
    work_together(&task, argv + 1);
    printf("%u kernels: %u compilations in %.1f s, %u failed, %u architectures unknown\n",
           lull_suite_count(task.suite), task.counts->compiled,
           lull_ms_from_ns(lull_now_ns() - begin_ns) * 1e-3, task.counts->failed,
           task.counts->unknown);
    lull_suite_destroy(task.suite);
    lull_suite_files_close(task.files);
    lull_suite_compiler_close(task.compiler);
    return task.counts->failed > 0 || task.counts->compiled == 0;
}
