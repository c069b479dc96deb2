/*
 * A stream like that of a player, for tests: a thread runs the enqueued work in order, each for
 * a given time, while it is not held.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_EMULATOR_STUB_STREAM_H
#define LULL_TESTS_EMULATOR_STUB_STREAM_H

#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "emulator/stream.h"

enum { STUB_WORKS = 4096 };

struct stub_stream {
    struct lull_stream stream; /* first: its address is the handle */
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    pthread_t thread;
    bool is_held;
    bool is_ending;
    int64_t work_ns; /* run time of a kernel */
    uint32_t enqueued;
    uint32_t ended;
    struct lull_stream_work works[STUB_WORKS];
    int64_t begin_ns[STUB_WORKS];
    int64_t end_ns[STUB_WORKS];
};

static inline int64_t stub_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static inline void stub_sleep_ns(int64_t ns)
{
    const struct timespec span = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

    nanosleep(&span, NULL);
}

static inline int stub_enqueue(struct lull_stream *stream, const struct lull_stream_work *work)
{
    struct stub_stream *stub = stream->owner;
    int result = -1;

    pthread_mutex_lock(&stub->mutex);
    if (stub->enqueued < STUB_WORKS) {
        stub->works[stub->enqueued++] = *work;
        result = 0;
    }
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->mutex);
    return result;
}

static inline void *stub_run(void *argument)
{
    struct stub_stream *stub = argument;

    pthread_mutex_lock(&stub->mutex);
    for (;;) {
        const uint32_t i = stub->ended;
        struct lull_stream_work work;

        while (!stub->is_ending && (stub->is_held || i == stub->enqueued))
            pthread_cond_wait(&stub->changed, &stub->mutex);
        if (i == stub->enqueued)
            break;
        work = stub->works[i];
        pthread_mutex_unlock(&stub->mutex);
        stub->begin_ns[i] = stub_now_ns();
        work.began(work.context, stub->begin_ns[i]);
        if (strcmp(work.function, "WriteValue") != 0)
            stub_sleep_ns(stub->work_ns);
        stub->end_ns[i] = stub_now_ns();
        work.ended(work.context, stub->end_ns[i]);
        pthread_mutex_lock(&stub->mutex);
        stub->ended++;
        pthread_cond_broadcast(&stub->changed);
    }
    pthread_mutex_unlock(&stub->mutex);
    return NULL;
}

static inline void stub_stream_init(struct stub_stream *stub, int64_t work_ns)
{
    memset(stub, 0, sizeof(*stub));
    stub->stream = (struct lull_stream){LULL_STREAM_MAGIC, stub_enqueue, stub};
    stub->work_ns = work_ns;
    pthread_mutex_init(&stub->mutex, NULL);
    pthread_cond_init(&stub->changed, NULL);
    pthread_create(&stub->thread, NULL, stub_run, stub);
}

/* While held, no work begins. */
static inline void stub_stream_hold(struct stub_stream *stub, bool is_held)
{
    pthread_mutex_lock(&stub->mutex);
    stub->is_held = is_held;
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->mutex);
}

static inline void stub_stream_wait(struct stub_stream *stub)
{
    pthread_mutex_lock(&stub->mutex);
    while (stub->ended < stub->enqueued)
        pthread_cond_wait(&stub->changed, &stub->mutex);
    pthread_mutex_unlock(&stub->mutex);
}

/* Runs what is left, then ends the thread. */
static inline void stub_stream_fini(struct stub_stream *stub)
{
    pthread_mutex_lock(&stub->mutex);
    stub->is_ending = true;
    stub->is_held = false;
    pthread_cond_broadcast(&stub->changed);
    pthread_mutex_unlock(&stub->mutex);
    pthread_join(stub->thread, NULL);
}

#endif
