/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/sweep/load.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

/* Runs that were not taken; older ones are dropped. A sweep takes them ten times a second, and a
 * run takes a slice or more. */
enum { KEPT = 256 };

/* Interval at which the owner does other work while it waits: a lease is renewed far less often. */
static const int64_t meanwhile_ns = 50 * LULL_NS_PER_MS;

enum request { NOTHING, START, QUIT };

struct lull_sweep_load {
    const struct lull_workload_kind *kind;
    struct lull_workload_place place;
    const struct lull_sweep_time *time;
    struct lull_sweep_meanwhile meanwhile;
    void *workload;
    pthread_t thread;

    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    enum request request;
    uint32_t index;
    int result; /* of the latest request, or of the open */
    struct lull_error error;
    bool is_open; /* the open has been tried */
    bool is_wanted;
    bool is_running;
    bool has_failed; /* a run has, as error says */
    uint32_t first;
    uint32_t count;
    struct lull_sweep_run runs[KEPT];
};

/* ---- the thread ---------------------------------------------------------------------------- */

static void sweep_load_store_run(struct lull_sweep_load *load, const struct lull_sweep_run *run)
{
    if (load->count == KEPT) {
        load->first = (load->first + 1) % KEPT;
        load->count--;
    }
    load->runs[(load->first + load->count++) % KEPT] = *run;
}

/* Runs once, without the mutex. */
static void sweep_load_run_once(struct lull_sweep_load *load)
{
    struct lull_sweep_run run = {.begin_s = lull_sweep_time_now(load->time)};
    struct lull_error error = {0};
    int result;

    load->is_running = true;
    pthread_mutex_unlock(&load->mutex);
    result = load->kind->run(load->workload, load->place.slice_s, &run.run, &error);
    run.end_s = lull_sweep_time_now(load->time);
    pthread_mutex_lock(&load->mutex);
    load->is_running = false;
    if (result == 0) {
        sweep_load_store_run(load, &run);
    } else {
        load->has_failed = true;
        load->is_wanted = false;
        load->error = error;
    }
    pthread_cond_broadcast(&load->changed);
}

/* Executes the owner's request, without the mutex. */
static void sweep_load_serve(struct lull_sweep_load *load)
{
    const enum request request = load->request;
    struct lull_error error = {0};
    int result = 0;

    pthread_mutex_unlock(&load->mutex);
    load->kind->stop(load->workload);
    if (request == START)
        result = load->kind->start(load->workload, load->index, &error);
    pthread_mutex_lock(&load->mutex);
    load->result = result;
    load->error = error;
    load->request = NOTHING;
    pthread_cond_broadcast(&load->changed);
}

static void *sweep_load_thread(void *context)
{
    struct lull_sweep_load *const load = context;
    struct lull_error error = {0};
    const int result = load->kind->open(&load->place, &load->workload, &error);

    pthread_mutex_lock(&load->mutex);
    load->is_open = true;
    load->result = result;
    load->error = error;
    pthread_cond_broadcast(&load->changed);
    while (result == 0 && load->request != QUIT) {
        if (load->request != NOTHING)
            sweep_load_serve(load);
        else if (load->is_wanted)
            sweep_load_run_once(load);
        else
            pthread_cond_wait(&load->changed, &load->mutex);
    }
    pthread_mutex_unlock(&load->mutex);
    if (result == 0)
        load->kind->close(load->workload);
    return NULL;
}

/* ---- the owner ----------------------------------------------------------------------------- */

/* Waits briefly for a change, and then runs the owner's periodic work. */
static void wait_a_moment(struct lull_sweep_load *load)
{
    const struct timespec until = lull_timespec_from_ns(lull_now_ns() + meanwhile_ns);

    if (pthread_cond_timedwait(&load->changed, &load->mutex, &until) != ETIMEDOUT)
        return;
    pthread_mutex_unlock(&load->mutex);
    load->meanwhile.call(load->meanwhile.context);
    pthread_mutex_lock(&load->mutex);
}

static void init_monitor(struct lull_sweep_load *load)
{
    pthread_mutex_init(&load->mutex, NULL);
    lull_thread_init_condition(&load->changed);
}

static void sweep_load_destroy(struct lull_sweep_load *load)
{
    pthread_cond_destroy(&load->changed);
    pthread_mutex_destroy(&load->mutex);
    free(load);
}

int lull_sweep_load_open(const struct lull_workload_kind *kind,
                         const struct lull_workload_place *place,
                         const struct lull_sweep_time *time,
                         const struct lull_sweep_meanwhile *meanwhile,
                         struct lull_sweep_load **load_out, struct lull_error *err)
{
    struct lull_sweep_load *const load = calloc(1, sizeof(*load));
    int result;

    if (load == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the kernels");
    load->kind = kind;
    load->place = *place;
    load->time = time;
    load->meanwhile = *meanwhile;
    init_monitor(load);
    result = pthread_create(&load->thread, NULL, sweep_load_thread, load);
    if (result != 0) {
        sweep_load_destroy(load);
        return lull_error_set(err, -result, "no thread for the kernels: %s", strerror(result));
    }
    pthread_mutex_lock(&load->mutex);
    while (!load->is_open)
        wait_a_moment(load);
    result = load->result;
    pthread_mutex_unlock(&load->mutex);
    if (result == 0) {
        *load_out = load;
        return 0;
    }
    pthread_join(load->thread, NULL);
    lull_error_set(err, result, "%s", load->error.text);
    sweep_load_destroy(load);
    return result;
}

void lull_sweep_load_close(struct lull_sweep_load *load)
{
    if (load == NULL)
        return;
    pthread_mutex_lock(&load->mutex);
    load->is_wanted = false;
    load->request = QUIT;
    pthread_cond_broadcast(&load->changed);
    pthread_mutex_unlock(&load->mutex);
    pthread_join(load->thread, NULL);
    sweep_load_destroy(load);
}

const struct lull_workload_kind *lull_sweep_load_kind(const struct lull_sweep_load *load)
{
    return load->kind;
}

uint32_t lull_sweep_load_count(const struct lull_sweep_load *load)
{
    return load->kind->count(load->workload);
}

struct lull_workload_kernel lull_sweep_load_kernel(const struct lull_sweep_load *load,
                                                   uint32_t index)
{
    return load->kind->kernel(load->workload, index);
}

/* Has the thread start the kernel between two runs, and waits until it has. */
int lull_sweep_load_start(struct lull_sweep_load *load, uint32_t index, struct lull_error *err)
{
    int result;

    pthread_mutex_lock(&load->mutex);
    load->is_wanted = false;
    load->has_failed = false;
    load->index = index;
    load->request = START;
    pthread_cond_broadcast(&load->changed);
    while (load->request != NOTHING)
        wait_a_moment(load);
    load->count = 0;
    result = load->result;
    if (result < 0)
        lull_error_set(err, result, "%s", load->error.text);
    pthread_mutex_unlock(&load->mutex);
    return result;
}

static void set_wanted(struct lull_sweep_load *load, bool is_wanted)
{
    pthread_mutex_lock(&load->mutex);
    load->is_wanted = is_wanted && !load->has_failed;
    pthread_cond_broadcast(&load->changed);
    pthread_mutex_unlock(&load->mutex);
}

void lull_sweep_load_begin(struct lull_sweep_load *load)
{
    set_wanted(load, true);
}

void lull_sweep_load_end(struct lull_sweep_load *load)
{
    set_wanted(load, false);
}

bool lull_sweep_load_is_idle(struct lull_sweep_load *load)
{
    bool is_idle;

    pthread_mutex_lock(&load->mutex);
    is_idle = !load->is_wanted && !load->is_running;
    pthread_mutex_unlock(&load->mutex);
    return is_idle;
}

void lull_sweep_load_cancel(struct lull_sweep_load *load)
{
    lull_sweep_load_end(load);
    if (load->kind->cancel != NULL)
        load->kind->cancel(load->workload);
}

int lull_sweep_load_take(struct lull_sweep_load *load, struct lull_sweep_run *run_out,
                         struct lull_error *err)
{
    int result = 0;

    pthread_mutex_lock(&load->mutex);
    if (load->count > 0) {
        *run_out = load->runs[load->first];
        load->first = (load->first + 1) % KEPT;
        load->count--;
        result = 1;
    } else if (load->has_failed) {
        result = lull_error_set(err, load->error.code != 0 ? load->error.code : -EIO, "%s",
                                load->error.text);
    }
    pthread_mutex_unlock(&load->mutex);
    return result;
}
