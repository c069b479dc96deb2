/*
 * Builds, runs and checks every kernel of the suite on the first GPU that CUDA shows, at its
 * present clocks: nothing is set. Prints a JSON array with one object per kernel. Usage:
 * lull-check-kernels [SECONDS [FILE]], SECONDS a kernel (0.2). Exit status: 0 all passed or were
 * skipped; 1 one failed; 77 nothing could be run. SPDX-License-Identifier: Apache-2.0
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "lab/sweep/suite/description.h"
#include "lab/sweep/suite/files.h"
#include "lab/sweep/cuda_workload.h"

/* The description once more: the workload does not report how much a launch moves and computes. */
static struct lull_suite *read_suite(const char *path, struct lull_error *err)
{
    struct lull_suite_files *files;
    struct lull_suite_file description;
    struct lull_suite *suite = NULL;

    if (lull_suite_files_open(path, &files, err) < 0)
        return NULL;
    description = lull_suite_files_description(files);
    (void)lull_suite_read(description.name, description.text, description.size, &suite, err);
    lull_suite_files_close(files);
    return suite;
}

static void print_text(const char *text)
{
    putchar('"');
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\')
            putchar('\\');
        putchar(*text >= ' ' ? *text : ' ');
    }
    putchar('"');
}

/* Returns whether the kernel did not fail. */
static bool run_one(void *workload, uint32_t index, const struct lull_suite_kernel *kernel,
                    double seconds)
{
    const int64_t begin_ns = lull_now_ns();
    struct lull_workload_run run = {0};
    struct lull_error err = {0};
    int result = lull_cuda_workload.start(workload, index, &err);
    const double start_s = lull_ms_from_ns(lull_now_ns() - begin_ns) * 1e-3;

    if (result == 0) {
        result = lull_cuda_workload.run(workload, seconds, &run, &err);
        lull_cuda_workload.stop(workload);
    }
    printf("%s\n {\"kernel\": \"%s\", \"arg\": \"%s\", \"start_s\": %.3f, ", index > 0 ? "," : "",
           kernel->name, kernel->arg, start_s);
    if (result < 0) {
        printf("\"result\": \"%s\", \"reason\": ",
               result == LULL_E_UNSUPPORTED ? "skipped" : "failed");
        print_text(err.text);
    } else {
        const double launch_s = run.seconds / (double)run.launches;

        printf("\"result\": \"passed\", \"launches\": %llu, \"launch_ms\": %.4f, \"gbs\": %.1f, "
               "\"tflops\": %.3f",
               (unsigned long long)run.launches, launch_s * 1e3,
               (double)kernel->bytes / launch_s * 1e-9, (double)kernel->flops / launch_s * 1e-12);
    }
    printf("}");
    fflush(stdout);
    return result == 0 || result == LULL_E_UNSUPPORTED;
}

int main(int argc, char **argv)
{
    const double seconds = argc > 1 ? atof(argv[1]) : 0.2;
    const struct lull_workload_place place = {.file = argc > 2 ? argv[2] : NULL};
    void *workload;
    struct lull_error err = {0};
    struct lull_suite *suite;
    bool is_well = true;
    int result = lull_cuda_workload.open(&place, &workload, &err);

    if (result < 0) {
        fprintf(stderr, "%s\n", err.text);
        return result == LULL_E_UNSUPPORTED ? 77 : 1;
    }
    suite = read_suite(place.file, &err);
    if (suite == NULL) {
        fprintf(stderr, "%s\n", err.text);
        lull_cuda_workload.close(workload);
        return 1;
    }
    printf("[");
    for (uint32_t i = 0; i < lull_suite_count(suite); i++)
        is_well &= run_one(workload, i, lull_suite_kernel_at(suite, i), seconds);
    printf("\n]\n");
    lull_suite_destroy(suite);
    lull_cuda_workload.close(workload);
    return is_well ? 0 : 1;
}
