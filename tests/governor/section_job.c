/*
 * A job of one process that names its sections through lull.h: computes on its emulated GPU, then
 * exchanges. For tests and benchmarks; does not use MPI.
 * Usage: section_job GPU STEPS COMPUTE_MS EXCHANGE_MS JITTER_MS [NAME]
 * NAME of the section that exchanges, "communication" by default.
 * SECTION_JOB_CUDA=GPU[,GPU...]: the process has loaded CUDA and has contexts on these GPUs as
 * well. GPUs are those of the node, whichever ones the environment shows. SPDX-License-Identifier:
 * Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "emulator/workload.h"
#include "lull/lull.h"
#include "../probe/emulated_cuda.h"

struct work {
    int64_t gpu;
    int64_t steps;
    double compute_ms;
    double exchange_ms;
    double jitter_ms;
};

static int parse(char **argv, struct work *work)
{
    return lull_text_parse_int(argv[1], 0, 63, &work->gpu) |
           lull_text_parse_int(argv[2], 1, 100000000, &work->steps) |
           lull_text_parse_number(argv[3], &work->compute_ms) |
           lull_text_parse_number(argv[4], &work->exchange_ms) |
           lull_text_parse_number(argv[5], &work->jitter_ms);
}

/* The exchange keeps the link busy at 1 GB/s; without an emulated node it only takes its time. */
static void exchange(struct lull_emulated_gpu *gpu, double exchange_ms, const char *name)
{
    const struct lull_workload_transfer transfer = {exchange_ms * 1e6, 1.0, 8};

    lull_section_begin(name);
    if (gpu == NULL)
        lull_sleep_until_ns(lull_now_ns() + lull_ns_from_ms(exchange_ms));
    lull_emulated_gpu_transfer_begin(gpu, &transfer);
    lull_emulated_gpu_transfer_wait(gpu, 1.0);
    lull_emulated_gpu_transfer_end(gpu);
    lull_section_end(name);
}

/* Opens contexts as a CUDA program does, which the probe then reports. Returns 0 or 1. */
static int open_contexts(const char *gpus)
{
    for (const char *gpu = gpus; *gpu != '\0'; gpu += strcspn(gpu, ","), gpu += *gpu == ',')
        if (!emulated_cuda_take(atoi(gpu)))
            return 1;
    return 0;
}

int main(int argc, char **argv)
{
    struct lull_emulated_gpu *gpu = NULL;
    struct lull_error err = {0};
    struct work work;
    uint32_t random = 1;

    if (argc < 6 || argc > 7 || parse(argv, &work) != 0) {
        fprintf(stderr, "usage: section_job GPU STEPS COMPUTE_MS EXCHANGE_MS JITTER_MS "
                        "[NAME]\n");
        return 2;
    }
    if (lull_emulated_gpu_open((uint32_t)work.gpu, &gpu, &err) < 0) {
        fprintf(stderr, "section_job: %s\n", err.text);
        return 1;
    }
    if (getenv("SECTION_JOB_CUDA") != NULL && open_contexts(getenv("SECTION_JOB_CUDA")) != 0) {
        fprintf(stderr, "section_job: cannot open contexts on GPUs %s\n",
                getenv("SECTION_JOB_CUDA"));
        return 1;
    }
    for (int64_t i = 0; i < work.steps; i++) {
        struct lull_kernel kernel = {.duration_ms = work.compute_ms, .profile = "training"};

        random = random * 1664525u + 1013904223u;
        kernel.duration_ms += work.jitter_ms * (double)(random >> 8) / (double)(1 << 24);
        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
        exchange(gpu, work.exchange_ms, argc == 7 ? argv[6] : "communication");
        lull_step();
    }
    lull_emulated_gpu_close(gpu);
    return 0;
}
