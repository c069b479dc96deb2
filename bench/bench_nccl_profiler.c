/*
 * Measures the cost of each callback of the NCCL profiler plugin, in nanoseconds and in units of
 * one clock_gettime call measured in the same rounds: medians over rounds. There is a reader in
 * another process, as in a job.
 *
 * Usage: bench_nccl_profiler PLUGIN. The exit status is 1 if a callback costs more than 150 ns.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/probe/nccl_driver.h"
#include "base/clock.h"
#include "wire/event.h"

/* A round pushes less than half a ring, so that it measures pushes and not drops. */
enum { ROUNDS = 301, CALLS = 500, PAUSE_US = 2000 };

#define LIMIT_NS 150.0

static struct nccl_driver driver;
static void *context;
static void *tasks[CALLS];
static void *kernels[CALLS];

/* ---- one callback of each kind; i counts the calls of a round ---- */

static char call_descriptor[NCCL_DESCRIPTOR_BYTES];
static char task_descriptor[NCCL_DESCRIPTOR_BYTES];
static char kernel_descriptor[NCCL_DESCRIPTOR_BYTES];

static void read_clock(int i)
{
    struct timespec now;

    (void)i;
    clock_gettime(CLOCK_MONOTONIC, &now);
}

static void start_call(int i)
{
    driver.table->start(context, &tasks[i], call_descriptor);
}

static void stop_call(int i)
{
    driver.table->stop(tasks[i]);
}

static void start_task(int i)
{
    driver.table->start(context, &tasks[i], task_descriptor);
}

static void start_kernel(int i)
{
    memcpy(kernel_descriptor + 8, &tasks[i], sizeof(tasks[i]));
    driver.table->start(context, &kernels[i], kernel_descriptor);
}

static void record_kernel(int i)
{
    uint64_t arguments = 1000000 + (uint64_t)i;

    driver.table->record(kernels[i], NCCL_KERNEL_CH_STOP, &arguments);
}

static void stop_kernel(int i)
{
    driver.table->stop(kernels[i]);
}

static const struct callback {
    const char *name;
    void (*call)(int i);
    int is_measured_against; /* this call is the unit of the others */
} callbacks[] = {
    {"clock_gettime", read_clock, 1},
    {"CollApi start (enqueue)", start_call, 0},
    {"CollApi stop", stop_call, 0},
    {"Coll start", start_task, 0},
    {"Coll stop", stop_call, 0},
    {"KernelCh start (begin)", start_kernel, 0},
    {"KernelCh state (end)", record_kernel, 0},
    {"KernelCh stop", stop_kernel, 0},
};

enum { CALLBACKS = sizeof(callbacks) / sizeof(*callbacks) };

static double rounds[CALLBACKS][ROUNDS];

/* ---- measuring ---- */

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left > right) - (left < right);
}

static double time_ns(void (*call)(int i))
{
    const int64_t begin_ns = lull_now_ns();

    for (int i = 0; i < CALLS; i++)
        call(i);
    return (double)(lull_now_ns() - begin_ns) / CALLS;
}

static int measure(void)
{
    double worst_ns = 0.0;
    double unit_ns = 0.0;

    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < CALLBACKS; i++)
            rounds[i][round] = time_ns(callbacks[i].call);
        usleep(PAUSE_US); /* gives the reader time to empty the ring */
    }
    for (int i = 0; i < CALLBACKS; i++) {
        double median_ns;

        qsort(rounds[i], ROUNDS, sizeof(double), by_value);
        median_ns = rounds[i][ROUNDS / 2];
        if (callbacks[i].is_measured_against)
            unit_ns = median_ns;
        else if (median_ns > worst_ns)
            worst_ns = median_ns;
        printf("%-28s p50 %6.1f ns, p99 of rounds %6.1f ns, ratio %.2f\n", callbacks[i].name,
               median_ns, rounds[i][ROUNDS * 99 / 100], median_ns / unit_ns);
    }
    return worst_ns > LIMIT_NS;
}

/* ---- the job ---- */

static void prepare_descriptors(void)
{
    const uint64_t gpu_ns = 1000000;
    const size_t count = 1000;
    const uint8_t channel = 3;
    const uint8_t channels = 1;
    const uint8_t is_captured = 0;

    nccl_describe(&driver, call_descriptor, NCCL_COLL_API, NULL);
    nccl_put(call_descriptor, 24, &nccl_all_reduce.text, sizeof(char *));
    nccl_put(call_descriptor, 32, &count, sizeof(count));
    nccl_put(call_descriptor, 40, &nccl_float32.text, sizeof(char *));
    nccl_put(call_descriptor, 64, &is_captured, 1);
    nccl_describe(&driver, task_descriptor, NCCL_COLL, NULL);
    nccl_put(task_descriptor, 32, &nccl_all_reduce.text, sizeof(char *));
    nccl_put(task_descriptor, 56, &count, sizeof(count));
    nccl_put(task_descriptor, 72, &nccl_float32.text, sizeof(char *));
    nccl_put(task_descriptor, 80, &channels, 1);
    nccl_describe(&driver, kernel_descriptor, NCCL_KERNEL_CH, NULL);
    nccl_put(kernel_descriptor, 24, &channel, 1);
    nccl_put(kernel_descriptor, 32, &gpu_ns, sizeof(gpu_ns));
}

static int run_rank(const char *plugin)
{
    int mask;

    if (nccl_open(&driver, plugin, 6) < 0 ||
        nccl_init_as(&driver, &context, &mask, "DATA_PARALLEL_GROUP", 1, 8, 0) != 0 || mask == 0) {
        fprintf(stderr, "%s: cannot be used as a plugin\n", plugin);
        return 1;
    }
    prepare_descriptors();
    return measure();
}

static void drain(struct lull_event_segment *job)
{
    struct lull_event events[256];

    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++)
        while (lull_event_segment_read(job, slot, events, 256) > 0)
            continue;
}

int main(int argc, char *argv[])
{
    struct lull_event_segment *job;
    char path[64];
    int status = 0;
    pid_t pid;

    snprintf(path, sizeof(path), "/dev/shm/lull-bench-%ld", (long)getpid());
    if (argc < 2 || lull_event_segment_create(path, &job, NULL) < 0)
        return 1;
    setenv(LULL_JOB_ENV, path, 1);
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        status = run_rank(argv[1]);
        fflush(stdout);
        _exit(status);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        drain(job);
        lull_event_segment_wait(job, lull_now_ns() + 20 * LULL_NS_PER_MS);
    }
    printf("lost %llu events\n", (unsigned long long)lull_event_segment_lost(job, 0));
    lull_event_segment_destroy(job);
    return status != 0;
}
