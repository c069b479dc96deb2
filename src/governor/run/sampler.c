/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/run/sampler.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/thread.h"

/* A reading takes some milliseconds. One that takes this long counts as hanging (as in the device
 * writer). */
static const int64_t stuck_ns = LULL_NS_PER_S;

struct lull_sampler {
    struct lull_devices *devices;
    uint32_t gpu_count;
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows; never held across a reading */
    pthread_cond_t changed;
    bool is_stopping;
    bool is_asked; /* a round is under way, or about to begin */
    struct lull_sampler_round round;
    uint32_t reading;  /* the GPU that is being read */
    int64_t since_ns;  /* since when; 0: none is */
    uint64_t is_fresh; /* bits: samples that were not taken */
    struct lull_sample samples[LULL_DEVICE_MAX_GPUS];
    uint64_t has_list; /* bits: lists that were not taken */
    struct lull_device_processes lists[LULL_DEVICE_MAX_GPUS];
};

static void read_one(struct lull_sampler *sampler, uint32_t gpu)
{
    const uint32_t wanted = sampler->round.wanted[gpu];
    struct lull_sample sample = {0};

    sampler->reading = gpu;
    sampler->since_ns = lull_now_ns();
    pthread_mutex_unlock(&sampler->lock);
    lull_device_read(sampler->devices, sampler->gpus[gpu], wanted, &sample.reading);
    sample.time_ns = lull_now_ns();
    pthread_mutex_lock(&sampler->lock);
    sampler->since_ns = 0;
    sampler->samples[gpu] = sample;
    sampler->is_fresh |= UINT64_C(1) << gpu;
}

static void list_one(struct lull_sampler *sampler, uint32_t gpu)
{
    struct lull_device_processes list = {0};

    sampler->reading = gpu;
    sampler->since_ns = lull_now_ns();
    pthread_mutex_unlock(&sampler->lock);
    lull_device_list_processes(sampler->devices, sampler->gpus[gpu], &list);
    pthread_mutex_lock(&sampler->lock);
    sampler->since_ns = 0;
    sampler->lists[gpu] = list;
    sampler->has_list |= UINT64_C(1) << gpu;
}

static void *sampler_thread(void *argument)
{
    struct lull_sampler *sampler = argument;

    pthread_mutex_lock(&sampler->lock);
    while (!sampler->is_stopping) {
        if (!sampler->is_asked) {
            pthread_cond_wait(&sampler->changed, &sampler->lock);
            continue;
        }
        for (uint32_t i = 0; i < sampler->gpu_count && !sampler->is_stopping; i++)
            if (sampler->round.wanted[i] != 0)
                read_one(sampler, i);
        for (uint32_t i = 0; i < sampler->gpu_count && !sampler->is_stopping; i++)
            if (sampler->round.lists)
                list_one(sampler, i);
        sampler->is_asked = false;
        pthread_cond_broadcast(&sampler->changed);
    }
    sampler->is_asked = false;
    pthread_cond_broadcast(&sampler->changed);
    pthread_mutex_unlock(&sampler->lock);
    return NULL;
}

static void sampler_finish(struct lull_sampler *sampler)
{
    pthread_cond_destroy(&sampler->changed);
    pthread_mutex_destroy(&sampler->lock);
    free(sampler);
}

int lull_sampler_start(struct lull_devices *devices, const uint32_t *gpus, uint32_t gpu_count,
                       struct lull_sampler **sampler_out, struct lull_error *err)
{
    struct lull_sampler *sampler = calloc(1, sizeof(*sampler));
    int result;

    assert(gpu_count <= LULL_DEVICE_MAX_GPUS);
    if (sampler == NULL)
        return lull_error_set(err, -ENOMEM, "no memory to sample GPUs");
    sampler->devices = devices;
    sampler->gpu_count = gpu_count;
    memcpy(sampler->gpus, gpus, gpu_count * sizeof(gpus[0]));
    pthread_mutex_init(&sampler->lock, NULL);
    lull_thread_init_condition(&sampler->changed);
    result = pthread_create(&sampler->thread, NULL, sampler_thread, sampler);
    if (result != 0) {
        sampler_finish(sampler);
        return lull_error_set(err, -result, "cannot start the thread that samples GPUs: %s",
                              strerror(result));
    }
    *sampler_out = sampler;
    return 0;
}

bool lull_sampler_ask(struct lull_sampler *sampler, const struct lull_sampler_round *round)
{
    bool is_free;

    pthread_mutex_lock(&sampler->lock);
    is_free = !sampler->is_asked;
    if (is_free) {
        sampler->round = *round;
        sampler->is_fresh = 0;
        sampler->has_list = 0;
        sampler->is_asked = true;
        pthread_cond_broadcast(&sampler->changed);
    }
    pthread_mutex_unlock(&sampler->lock);
    return is_free;
}

bool lull_sampler_take(struct lull_sampler *sampler, uint32_t *gpu_out, uint32_t *wanted_out,
                       struct lull_sample *sample_out)
{
    bool has_any;

    pthread_mutex_lock(&sampler->lock);
    has_any = sampler->is_fresh != 0;
    if (has_any) {
        const uint32_t gpu = (uint32_t)__builtin_ctzll(sampler->is_fresh);

        sampler->is_fresh &= sampler->is_fresh - 1;
        *gpu_out = gpu;
        *wanted_out = sampler->round.wanted[gpu];
        *sample_out = sampler->samples[gpu];
    }
    pthread_mutex_unlock(&sampler->lock);
    return has_any;
}

bool lull_sampler_take_list(struct lull_sampler *sampler, uint32_t *gpu_out,
                            struct lull_device_processes *list_out)
{
    bool has_any;

    pthread_mutex_lock(&sampler->lock);
    has_any = sampler->has_list != 0;
    if (has_any) {
        *gpu_out = (uint32_t)__builtin_ctzll(sampler->has_list);
        sampler->has_list &= sampler->has_list - 1;
        *list_out = sampler->lists[*gpu_out];
    }
    pthread_mutex_unlock(&sampler->lock);
    return has_any;
}

/* Waits until no round is under way; locked. */
static bool wait_locked(struct lull_sampler *sampler, int64_t until_ns)
{
    const struct timespec until = lull_timespec_from_ns(until_ns);

    while (sampler->is_asked)
        if (pthread_cond_timedwait(&sampler->changed, &sampler->lock, &until) == ETIMEDOUT)
            break;
    return !sampler->is_asked;
}

bool lull_sampler_wait(struct lull_sampler *sampler, int64_t until_ns)
{
    bool is_over;

    pthread_mutex_lock(&sampler->lock);
    is_over = wait_locked(sampler, until_ns);
    pthread_mutex_unlock(&sampler->lock);
    return is_over;
}

bool lull_sampler_is_stuck(struct lull_sampler *sampler, int64_t now_ns, uint32_t *gpu_out)
{
    bool is_stuck;

    pthread_mutex_lock(&sampler->lock);
    is_stuck = sampler->since_ns != 0 && now_ns - sampler->since_ns > stuck_ns;
    *gpu_out = sampler->reading;
    pthread_mutex_unlock(&sampler->lock);
    return is_stuck;
}

int lull_sampler_stop(struct lull_sampler *sampler, int64_t until_ns)
{
    bool is_back;

    if (sampler == NULL)
        return 0;
    pthread_mutex_lock(&sampler->lock);
    sampler->is_stopping = true;
    pthread_cond_broadcast(&sampler->changed);
    is_back = wait_locked(sampler, until_ns);
    pthread_mutex_unlock(&sampler->lock);
    if (!is_back) {
        pthread_detach(sampler->thread);
        return -EINPROGRESS;
    }
    pthread_join(sampler->thread, NULL);
    sampler_finish(sampler);
    return 0;
}
