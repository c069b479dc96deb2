/*
 * A job for `make experiment`: keeps emulated GPUs busy and waits, so that it costs no processor.
 * Usage: experiment_job GPU[,GPU...] PROFILE SECONDS    so many seconds of kernels on each GPU at
 *                                                       the highest clock, longer at lower ones
 *        experiment_job GPU PROFILE -                   as many ms as each line of input says,
 *                                                       answered by an empty line
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "emulator/workload.h"

enum { MAX_GPUS = 64 };

/* The processor sleeps so long at a time. A kernel that runs follows a change of clock at once. */
static const double kernel_ms = 500.0;

struct work {
    struct lull_emulated_gpu *gpus[MAX_GPUS];
    uint32_t count;
    const char *profile;
};

static int fail(const char *text)
{
    fprintf(stderr, "experiment_job: %s\n", text);
    return 1;
}

static int open_gpus(char *list, struct work *work)
{
    struct lull_error err = {0};
    char *rest = NULL;

    for (const char *word = strtok_r(list, ",", &rest); word != NULL;
         word = strtok_r(NULL, ",", &rest)) {
        int64_t gpu;

        if (work->count == MAX_GPUS || lull_text_parse_int(word, 0, MAX_GPUS - 1, &gpu) < 0)
            return fail("no such list of GPUs");
        if (lull_emulated_gpu_open((uint32_t)gpu, &work->gpus[work->count], &err) < 0)
            return fail(err.text);
        if (work->gpus[work->count++] == NULL)
            return fail("there is no emulated node: use lull emulate");
    }
    return 0;
}

/* All GPUs wait for each other after every kernel, as those of a data-parallel job do. */
static void compute(const struct work *work, double ms)
{
    const struct lull_kernel kernel = {ms, work->profile};

    for (uint32_t i = 0; i < work->count; i++)
        lull_emulated_gpu_launch(work->gpus[i], &kernel);
    for (uint32_t i = 0; i < work->count; i++)
        lull_emulated_gpu_wait(work->gpus[i]);
}

static int serve_lines(const struct work *work)
{
    char line[64];

    while (fgets(line, sizeof(line), stdin) != NULL) {
        double ms;

        line[strcspn(line, "\n")] = '\0';
        if (lull_text_parse_number(line, &ms) < 0 || !(ms > 0.0))
            return fail("a line has to be a number of ms above 0");
        compute(work, ms);
        if (puts("") == EOF || fflush(stdout) == EOF)
            return fail("its answers are not read");
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct work work = {0};
    double seconds = 0.0;
    int status;

    if (argc != 4)
        return fail("usage: experiment_job GPU[,GPU...] PROFILE SECONDS|-");
    work.profile = argv[2];
    if (strcmp(argv[3], "-") != 0 &&
        (lull_text_parse_number(argv[3], &seconds) < 0 || !(seconds > 0.0)))
        return fail("SECONDS is a number above 0");
    status = open_gpus(argv[1], &work);
    if (status == 0 && seconds > 0.0)
        for (double left_ms = seconds * 1e3; left_ms > 1e-3; left_ms -= kernel_ms)
            compute(&work, fmin(left_ms, kernel_ms));
    else if (status == 0)
        status = serve_lines(&work);
    for (uint32_t i = 0; i < work.count; i++)
        lull_emulated_gpu_close(work.gpus[i]);
    return status;
}
