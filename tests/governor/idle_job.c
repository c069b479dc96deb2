/*
 * A job of one process that works and waits in turn, without any communication: it reports one step
 * at its begin, so that Lull knows it, and nothing else.
 * Usage: idle_job GPU WORK_MS WAIT_MS [WORK_MS WAIT_MS...]
 * Prints how long each work took, ms. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "emulator/workload.h"
#include "lull/lull.h"

int main(int argc, char **argv)
{
    struct lull_emulated_gpu *gpu = NULL;
    struct lull_error err = {0};
    int64_t index;

    if (argc < 4 || argc % 2 != 0 || lull_text_parse_int(argv[1], 0, 63, &index) < 0) {
        fprintf(stderr, "usage: idle_job GPU WORK_MS WAIT_MS [WORK_MS WAIT_MS...]\n");
        return 2;
    }
    if (lull_emulated_gpu_open((uint32_t)index, &gpu, &err) < 0) {
        fprintf(stderr, "idle_job: %s\n", err.text);
        return 1;
    }
    lull_step();
    for (int i = 2; i < argc; i += 2) {
        const struct lull_kernel kernel = {.duration_ms = atof(argv[i]), .profile = "training"};
        const int64_t begin_ns = lull_now_ns();

        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
        printf("%.1f\n", lull_ms_from_ns(lull_now_ns() - begin_ns));
        fflush(stdout);
        lull_sleep_until_ns(lull_now_ns() + lull_ns_from_ms(atof(argv[i + 1])));
    }
    lull_emulated_gpu_close(gpu);
    return 0;
}
