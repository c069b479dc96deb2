/*
 * Measures the cost of a section's begin and end, in nanoseconds and in units of two clock_gettime
 * calls: medians over rounds that measure both, one right after the other. It measures with no
 * reader (the ring is full most of the time), with a reader in another process, by name and by
 * number, and without a job.
 *
 * Usage: bench_probe. The exit status is 1 if a pair costs more than 3 units, with a reader or
 * without.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "lull/lull.h"
#include "wire/event.h"

/* A round is shorter than half a ring, so that it measures pushes and not drops. */
enum { ROUNDS = 301, PAIRS = 1000 };

#define LIMIT_RATIO 3.0

static uint32_t section;

static int by_value(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left > right) - (left < right);
}

static double median(double *values)
{
    qsort(values, ROUNDS, sizeof(*values), by_value);
    return values[ROUNDS / 2];
}

static void clock_pair(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    clock_gettime(CLOCK_MONOTONIC, &now);
}

static void named_pair(void)
{
    lull_section_begin("communication");
    lull_section_end("communication");
}

static void numbered_pair(void)
{
    lull_section_enter(section);
    lull_section_leave(section);
}

static double time_ns(void (*pair)(void))
{
    const int64_t begin_ns = lull_now_ns();

    for (int i = 0; i < PAIRS; i++)
        pair();
    return (double)(lull_now_ns() - begin_ns) / PAIRS;
}

static double measure(const char *what, void (*pair)(void), int pause_us)
{
    static double pairs_ns[ROUNDS];
    static double clocks_ns[ROUNDS];
    static double ratios[ROUNDS];
    double ratio;

    for (int i = 0; i < ROUNDS; i++) {
        clocks_ns[i] = time_ns(clock_pair);
        pairs_ns[i] = time_ns(pair);
        ratios[i] = pairs_ns[i] / clocks_ns[i];
        if (pause_us > 0) /* gives the reader time to empty the ring */
            usleep((useconds_t)pause_us);
    }
    ratio = median(ratios);
    printf("%-36s %7.1f ns per pair, two clock_gettime %6.1f ns, ratio %.2f\n", what,
           median(pairs_ns), median(clocks_ns), ratio);
    return ratio;
}

/* The program of the job, which is this one, run again with LULL_JOB set. */
static int measure_in_job(const char *what, int pause_us)
{
    char text[64];
    double worst = 0.0;
    double ratio;

    section = lull_section_register("communication");
    snprintf(text, sizeof(text), "%s, by name", what);
    worst = measure(text, named_pair, pause_us);
    snprintf(text, sizeof(text), "%s, by number", what);
    ratio = measure(text, numbered_pair, pause_us);
    return ratio <= LIMIT_RATIO && worst <= LIMIT_RATIO ? 0 : 1;
}

static void drain(struct lull_event_segment *job)
{
    struct lull_event events[256];

    for (uint32_t slot = 0; slot < lull_event_segment_process_count(job); slot++)
        while (lull_event_segment_read(job, slot, events, 256) > 0)
            continue;
}

static int run_job(char *program, const char *point, int reads)
{
    char *const argv[] = {program, (char *)(uintptr_t)point, NULL};
    struct lull_event_segment *job;
    char path[64];
    int status = 0;
    pid_t pid;

    snprintf(path, sizeof(path), "/dev/shm/lull-bench-%ld", (long)getpid());
    if (lull_event_segment_create(path, &job, NULL) < 0)
        return 1;
    setenv(LULL_JOB_ENV, path, 1);
    pid = fork();
    if (pid == 0) {
        execv("/proc/self/exe", argv);
        _exit(1);
    }
    while (waitpid(pid, &status, WNOHANG) == 0) {
        if (reads) {
            drain(job);
            lull_event_segment_wait(job, lull_now_ns() + 20 * LULL_NS_PER_MS);
        } else {
            lull_sleep_until_ns(lull_now_ns() + 20 * LULL_NS_PER_MS);
        }
    }
    if (reads)
        printf("  lost %llu events\n", (unsigned long long)lull_event_segment_lost(job, 0));
    lull_event_segment_destroy(job);
    return status != 0;
}

int main(int argc, char *argv[])
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "read") == 0)
        return measure_in_job("with a reader", 2000);
    if (argc > 1)
        return measure_in_job("without a reader", 0);
    unsetenv(LULL_JOB_ENV);
    measure("without a job", named_pair, 0);
    return run_job(argv[0], "read", 1) + run_job(argv[0], "alone", 0) > 0;
}
