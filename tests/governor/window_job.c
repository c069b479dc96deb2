/*
 * A job that opens energy windows through lull.h on its emulated GPU, and prints the true energy of
 * each on every GPU of the node, one line per window: NAME SECONDS JOULES-OF-GPU-0 JOULES-OF-GPU-1
 * ... Behind them, for windows measured by liblull itself: "own" NAME SECONDS JOULES UNCERTAINTY.
 * Usage: window_job GPU ROUNDS BUSY_MS IDLE_MS
 * SPDX-License-Identifier: Apache-2.0
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/text.h"
#include "emulator/node.h"
#include "emulator/workload.h"
#include "lull/lull.h"

enum { MAX_GPUS = 8 };

struct open_window {
    int number;
    const char *name;
    int64_t begin_ns;
    double begin_j[MAX_GPUS];
};

static struct lull_node *node;

static double drawn_j(uint32_t gpu)
{
    struct lull_node_truth truth;

    lull_node_read_truth(node, gpu, &truth);
    return truth.energy_j;
}

static void begin(struct open_window *window, const char *name)
{
    window->name = name;
    window->number = lull_window_begin(name);
    window->begin_ns = lull_now_ns();
    for (uint32_t i = 0; i < lull_node_gpu_count(node); i++)
        window->begin_j[i] = drawn_j(i);
}

static void end(struct open_window *window)
{
    struct lull_window own;
    double end_j[MAX_GPUS];
    int64_t end_ns;

    for (uint32_t i = 0; i < lull_node_gpu_count(node); i++)
        end_j[i] = drawn_j(i);
    end_ns = lull_now_ns();
    if (lull_window_end(window->number, &own) < 0)
        exit(3);
    flockfile(stdout);
    printf("%s %.6f", window->name, (double)(end_ns - window->begin_ns) * 1e-9);
    for (uint32_t i = 0; i < lull_node_gpu_count(node); i++)
        printf(" %.6f", end_j[i] - window->begin_j[i]);
    if (own.flags & LULL_WINDOW_JOULES_VALID)
        printf("\nown %s %.6f %.6f %.6f", window->name, own.seconds, own.joules, own.uncertainty_j);
    printf("\n");
    funlockfile(stdout);
}

static void *end_elsewhere(void *window)
{
    end(window);
    return NULL;
}

int main(int argc, char **argv)
{
    struct lull_emulated_gpu *gpu = NULL;
    struct open_window whole, busy, before = {.number = -1}, after;
    int64_t index, rounds;
    double busy_ms, idle_ms;
    pthread_t thread;

    if (argc != 5 || lull_text_parse_int(argv[1], 0, MAX_GPUS - 1, &index) < 0 ||
        lull_text_parse_int(argv[2], 1, 100000, &rounds) < 0 ||
        lull_text_parse_number(argv[3], &busy_ms) < 0 ||
        lull_text_parse_number(argv[4], &idle_ms) < 0)
        return 2;
    if (lull_node_open(getenv(LULL_EMULATED_NODE_VARIABLE), &node, NULL) < 0 ||
        lull_node_gpu_count(node) > MAX_GPUS ||
        lull_emulated_gpu_open((uint32_t)index, &gpu, NULL) < 0)
        return 1;
    begin(&whole, "whole");
    for (int64_t i = 0; i < rounds; i++) {
        const struct lull_kernel kernel = {.duration_ms = busy_ms, .profile = "training"};

        begin(&busy, "busy");    /* nested in whole */
        begin(&after, "across"); /* overlaps the next round's busy */
        lull_emulated_gpu_launch(gpu, &kernel);
        lull_emulated_gpu_wait(gpu);
        if (before.number >= 0)
            end(&before);
        before = after;
        end(&busy);
        lull_sleep_until_ns(lull_now_ns() + lull_ns_from_ms(idle_ms));
    }
    end(&before);
    pthread_create(&thread, NULL, end_elsewhere, &whole);
    pthread_join(thread, NULL);
    lull_emulated_gpu_close(gpu);
    lull_node_close(node);
    return 0;
}
