/*
 * An NCCL profiler plugin (version 5) that hands every callback to the one named by
 * LULL_TIMED_PLUGIN and takes the time of it. When a communicator ends, a line is
 * appended to the file named by LULL_TIMES for each thread that has called since:
 *   process thread-name callbacks nanoseconds
 * The cost of reading the clock is subtracted. SPDX-License-Identifier: Apache-2.0
 */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "probe/nccl_abi.h"

enum { THREADS = 64, CALIBRATIONS = 1001, NAME_BYTES = 16 };

static struct times {
    char name[NAME_BYTES];
    _Atomic uint64_t callbacks;
    _Atomic int64_t ns;
} times[THREADS];

static _Atomic uint32_t thread_count;
static _Thread_local struct times *own;
static const struct lull_nccl_profiler *timed;
static int64_t clock_ns;

static int64_t now_ns(void)
{
    struct timespec time;

    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * INT64_C(1000000000) + time.tv_nsec;
}

static struct times *own_times(void)
{
    if (own == NULL) {
        const uint32_t index = atomic_fetch_add(&thread_count, 1);

        own = &times[index < THREADS ? index : THREADS - 1];
        prctl(PR_GET_NAME, own->name);
    }
    return own;
}

static void add(int64_t begin_ns)
{
    const int64_t took_ns = now_ns() - begin_ns - clock_ns;
    struct times *of = own_times();

    atomic_fetch_add(&of->callbacks, 1);
    atomic_fetch_add(&of->ns, took_ns);
}

static int compare_ns(const void *left, const void *right)
{
    const int64_t difference = *(const int64_t *)left - *(const int64_t *)right;

    return (difference > 0) - (difference < 0);
}

/* Measures the median time between two readings of the clock. */
static void calibrate(void)
{
    int64_t ns[CALIBRATIONS];

    for (int i = 0; i < CALIBRATIONS; i++) {
        const int64_t begin_ns = now_ns();

        ns[i] = now_ns() - begin_ns;
    }
    qsort(ns, CALIBRATIONS, sizeof ns[0], compare_ns);
    clock_ns = ns[CALIBRATIONS / 2];
}

static void write_times(void)
{
    const char *path = getenv("LULL_TIMES");
    FILE *file = path == NULL ? NULL : fopen(path, "a");

    for (uint32_t i = 0; file != NULL && i < THREADS; i++) {
        const uint64_t callbacks = atomic_exchange(&times[i].callbacks, 0);
        const int64_t ns = atomic_exchange(&times[i].ns, 0);

        if (callbacks > 0)
            fprintf(file, "%ld %s %llu %lld\n", (long)getpid(), times[i].name,
                    (unsigned long long)callbacks, (long long)ns);
    }
    if (file != NULL)
        fclose(file);
}

static int init(void **context, uint64_t id, int *mask, const char *name, int nodes, int ranks,
                int rank, lull_nccl_logger logger)
{
    const char *path = getenv("LULL_TIMED_PLUGIN");
    void *library = timed != NULL || path == NULL ? NULL : dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (library != NULL) {
        calibrate();
        timed = dlsym(library, "ncclProfiler_v5");
    }
    if (timed == NULL) {
        fprintf(stderr, "timing_plugin: no ncclProfiler_v5 in LULL_TIMED_PLUGIN\n");
        *mask = 0;
        *context = &timed;
        return 0;
    }
    return ((lull_nccl_init_v5)timed->init)(context, id, mask, name, nodes, ranks, rank, logger);
}

static int start(void *context, void **handle, void *descriptor)
{
    const int64_t begin_ns = now_ns();
    const int result = timed->start(context, handle, descriptor);

    add(begin_ns);
    return result;
}

static int stop(void *handle)
{
    const int64_t begin_ns = now_ns();
    const int result = timed->stop(handle);

    add(begin_ns);
    return result;
}

static int record(void *handle, int state, void *arguments)
{
    const int64_t begin_ns = now_ns();
    const int result = timed->record(handle, state, arguments);

    add(begin_ns);
    return result;
}

static int finalize(void *context)
{
    write_times();
    return timed == NULL ? 0 : timed->finalize(context);
}

extern const struct lull_nccl_profiler ncclProfiler_v5;

const struct lull_nccl_profiler ncclProfiler_v5 = {
    .name = "timing",
    .init = (void (*)(void))init,
    .start = start,
    .stop = stop,
    .record = record,
    .finalize = finalize,
};
