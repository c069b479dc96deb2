/*
 * A loaded server without requests, for tests: holds contexts on emulated GPUs and obeys lines of
 * standard input:
 *   run MS      runs a kernel of this duration at the highest clock on all GPUs, and answers with
 *               the time until the last one has ended, ms
 *   clocks      answers with the clock to which the latest request leads of each GPU, MHz
 *   fault TEXT  injects faults into the driver (src/emulator/spec.h)
 * Usage: load GPUS, the number of GPUs. SPDX-License-Identifier: Apache-2.0
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "emulator/node.h"
#include "emulator/workload.h"

enum { MOST_GPUS = 8 };

static struct lull_emulated_gpu *gpus[MOST_GPUS];
static uint32_t gpu_count;

static int open_gpus(void)
{
    struct lull_error err = {0};

    for (uint32_t i = 0; i < gpu_count; i++)
        if (lull_emulated_gpu_open(i, &gpus[i], &err) < 0 || gpus[i] == NULL) {
            fprintf(stderr, "load: GPU %u: %s\n", i, err.text);
            return 1;
        }
    return 0;
}

static void run(double duration_ms)
{
    const struct lull_kernel kernel = {.duration_ms = duration_ms, .profile = "training"};
    const int64_t begin_ns = lull_now_ns();

    for (uint32_t i = 0; i < gpu_count; i++)
        lull_emulated_gpu_launch(gpus[i], &kernel);
    for (uint32_t i = 0; i < gpu_count; i++)
        lull_emulated_gpu_wait(gpus[i]);
    printf("%.3f\n", lull_ms_from_ns(lull_now_ns() - begin_ns));
}

static void print_clocks(void)
{
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct lull_node_truth truth;

        lull_node_read_truth(lull_emulated_gpu_node(gpus[i]), i, &truth);
        printf("%s%.0f", i == 0 ? "" : " ", truth.asked_mhz);
    }
    printf("\n");
}

static void inject(const char *text)
{
    struct lull_error err = {0};

    if (lull_node_set_faults(lull_emulated_gpu_node(gpus[0]), text, &err) < 0)
        printf("%s\n", err.text);
    else
        printf("done\n");
}

int main(int argc, char **argv)
{
    char line[64];
    int64_t count;
    double duration_ms;

    if (argc != 2 || lull_text_parse_int(argv[1], 1, MOST_GPUS, &count) < 0) {
        fprintf(stderr, "usage: load GPUS\n");
        return 2;
    }
    gpu_count = (uint32_t)count;
    if (open_gpus() != 0)
        return 1;
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        if (strcmp(line, "clocks") == 0)
            print_clocks();
        else if (strncmp(line, "fault ", 6) == 0)
            inject(line + 6);
        else if (strncmp(line, "run ", 4) == 0 &&
                 lull_text_parse_number(line + 4, &duration_ms) == 0)
            run(duration_ms);
        else
            printf("?\n");
        fflush(stdout);
    }
    for (uint32_t i = 0; i < gpu_count; i++)
        lull_emulated_gpu_close(gpus[i]);
    return 0;
}
