/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/batch/batch_pulse.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/thread.h"

struct lull_batch_pulse {
    struct lull_batch_jobs *jobs;
    const char *name;
    uint64_t run;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t over;
    struct lull_batch_progress progress;
    bool is_over;
};

static void *beat(void *argument)
{
    struct lull_batch_pulse *pulse = argument;
    int64_t next_ns = lull_now_ns();

    pthread_mutex_lock(&pulse->lock);
    while (!pulse->is_over) {
        struct timespec until;
        struct lull_batch_progress progress;

        next_ns += LULL_NS_PER_S;
        until = lull_timespec_from_ns(next_ns);
        while (!pulse->is_over &&
               pthread_cond_timedwait(&pulse->over, &pulse->lock, &until) != ETIMEDOUT)
            continue;
        if (pulse->is_over)
            break;
        progress = pulse->progress;
        pthread_mutex_unlock(&pulse->lock);
        /* A beat that fails is no error: the next one tells the same. */
        lull_batch_jobs_beat(pulse->jobs, pulse->name, pulse->run, &progress, NULL);
        pthread_mutex_lock(&pulse->lock);
    }
    pthread_mutex_unlock(&pulse->lock);
    return NULL;
}

struct lull_batch_pulse *lull_batch_pulse_begin(struct lull_batch_jobs *jobs, const char *name,
                                                uint64_t run)
{
    struct lull_batch_pulse *pulse = calloc(1, sizeof(*pulse));
    pthread_condattr_t monotonic;

    if (pulse == NULL)
        return NULL;
    pulse->jobs = jobs;
    pulse->name = name;
    pulse->run = run;
    pulse->progress = (struct lull_batch_progress){.energy_j = NAN, .metric = NAN};
    pthread_mutex_init(&pulse->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&pulse->over, &monotonic);
    pthread_condattr_destroy(&monotonic);
    if (lull_thread_start(&pulse->thread, beat, pulse) == 0)
        return pulse;
    pthread_cond_destroy(&pulse->over);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
    return NULL;
}

void lull_batch_pulse_set(struct lull_batch_pulse *pulse,
                          const struct lull_batch_progress *progress)
{
    if (pulse == NULL)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->progress = *progress;
    pthread_mutex_unlock(&pulse->lock);
}

void lull_batch_pulse_end(struct lull_batch_pulse *pulse)
{
    if (pulse == NULL)
        return;
    pthread_mutex_lock(&pulse->lock);
    pulse->is_over = true;
    pthread_cond_signal(&pulse->over);
    pthread_mutex_unlock(&pulse->lock);
    pthread_join(pulse->thread, NULL);
    pthread_cond_destroy(&pulse->over);
    pthread_mutex_destroy(&pulse->lock);
    free(pulse);
}
