/*
 * The progress thread of a communicator ("NCCL Progress") detects that kernels have started and
 * ended and reports it to the plugin, channel by channel. NCCL up to 2.30 polls; this thread sleeps
 * until the GPU thread wakes it, because emulated ranks share few cores, and so is late by a
 * wake-up.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/nccl/nccl_library.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* An address that means nothing in this process, as another process's pointer would. */
#define FOREIGN_POINTER ((void *)UINT64_C(0x7000dead0000))

enum { LONGEST_WAIT_S = 5, LOST_START_EVERY = 8, LOST_STOP_EVERY = 16, EARLY_STOP_EVERY = 4 };

/* ---- lifetimes of communicators and works ---- */

void nccl_comm_release(struct lull_nccl_comm *comm)
{
    if (atomic_fetch_sub(&comm->references, 1) != 1)
        return;
    pthread_mutex_destroy(&comm->mutex);
    pthread_cond_destroy(&comm->changed);
    free(comm);
}

void nccl_work_release(struct lull_nccl_work *work)
{
    if (atomic_fetch_sub(&work->references, 1) != 1)
        return;
    nccl_comm_release(work->comm);
    free(work);
}

/* ---- one kernel ---- */

/* Returns whether a fault affects this work. The number of the
 * work decides, so that runs are reproducible. */
static bool is_every(const struct lull_nccl_work *work, enum nccl_fault fault, uint64_t every)
{
    return (nccl_faults() & fault) && work->number % every == 0;
}

static void nccl_progress_report_foreign(const struct lull_nccl_work *work)
{
    const struct lull_nccl_report event = {.type = NCCL_EVENT_PROXY_OP,
                                           .comm = work->comm,
                                           .task = &work->tasks[0],
                                           .pid = getpid() + 1};

    nccl_plugin_stop(nccl_plugin_start_foreign(FOREIGN_POINTER, FOREIGN_POINTER, &event));
}

/* Reports a network operation. Only communicators that span nodes have one. */
static void nccl_progress_report_proxy(const struct lull_nccl_work *work,
                                       const struct lull_nccl_task *task)
{
    const struct lull_nccl_report event = {.type = NCCL_EVENT_PROXY_OP,
                                           .parent = task->handle,
                                           .comm = work->comm,
                                           .task = task,
                                           .pid = getpid()};

    if ((task->mask & NCCL_EVENT_PROXY_OP) && work->comm->nodes > 1)
        nccl_plugin_stop(nccl_plugin_start(&event));
}

static void stop_channel(void *handle, int64_t timer_ns)
{
    const union nccl_state_arguments arguments = {.kernel_ch.timer = (uint64_t)timer_ns};

    if (nccl_plugin_is(4)) /* version 3 does not know the state */
        nccl_plugin_state(handle, NCCL_STATE_KERNEL_CH_STOP, &arguments);
    nccl_plugin_stop(handle);
}

static void start_channels(struct lull_nccl_work *work, struct lull_nccl_task *task)
{
    struct lull_nccl_report event = {.type = NCCL_EVENT_KERNEL_CH,
                                     .parent = task->handle,
                                     .comm = work->comm,
                                     .task = task,
                                     .timer_ns = atomic_load(&work->begin_ns)};
    uint8_t count = task->channels;

    if (task->handle == NULL || !(task->mask & NCCL_EVENT_KERNEL_CH))
        return;
    if (is_every(work, NCCL_FAULT_LOST_RECORDS, LOST_START_EVERY))
        count--;
    if (is_every(work, NCCL_FAULT_STOP_BEFORE_START, EARLY_STOP_EVERY)) {
        stop_channel(task->handle, event.timer_ns - 1000);
        event.timer_ns += 1000000;
    }
    for (uint8_t i = 0; i < count; i++) {
        event.channel = i;
        task->channel_handles[i] = nccl_plugin_start(&event);
    }
}

static void stop_channels(const struct lull_nccl_work *work, struct lull_nccl_task *task)
{
    uint8_t first = is_every(work, NCCL_FAULT_LOST_RECORDS, LOST_STOP_EVERY) ? 1 : 0;
    int64_t timer_ns = atomic_load(&work->end_ns);

    if (is_every(work, NCCL_FAULT_STOP_BEFORE_START, EARLY_STOP_EVERY))
        timer_ns = atomic_load(&work->begin_ns);
    for (uint8_t i = first; i < task->channels; i++)
        if (task->channel_handles[i] != NULL)
            stop_channel(task->channel_handles[i], timer_ns);
}

static void nccl_progress_report_start(struct lull_nccl_work *work)
{
    if (nccl_faults() & NCCL_FAULT_FOREIGN_PID)
        nccl_progress_report_foreign(work);
    for (uint32_t i = 0; i < work->task_count; i++) {
        nccl_progress_report_proxy(work, &work->tasks[i]);
        start_channels(work, &work->tasks[i]);
    }
}

static void nccl_progress_report_end(struct lull_nccl_work *work)
{
    for (uint32_t i = 0; i < work->task_count; i++)
        stop_channels(work, &work->tasks[i]);
}

/* ---- the thread ---- */

/* The first work whose start or end has not been reported; NULL: there is none. The mutex is
 * held. */
static struct lull_nccl_work **find_update(struct lull_nccl_comm *comm)
{
    for (struct lull_nccl_work **link = &comm->posted; *link != NULL; link = &(*link)->next_posted)
        if (atomic_load(&(*link)->end_ns) != 0 ||
            (!(*link)->has_started && atomic_load(&(*link)->begin_ns) != 0))
            return link;
    return NULL;
}

static void take_out(struct lull_nccl_comm *comm, struct lull_nccl_work **link)
{
    struct lull_nccl_work *work = *link;

    *link = work->next_posted;
    if (comm->posted_end == &work->next_posted)
        comm->posted_end = link;
}

/* Sleeps until a kernel begins or ends. Like NCCL, this reports to the plugin when its proxy sleeps
 * and wakes up. The mutex is held, but not while the plugin is called. */
static void sleep_until_changed(struct lull_nccl_comm *comm)
{
    const bool is_reported = nccl_plugin_mask() & NCCL_EVENT_PROXY_CTRL && comm->posted == NULL;
    const struct lull_nccl_report event = {.type = NCCL_EVENT_PROXY_CTRL, .comm = comm};
    void *handle = NULL;

    if (is_reported) {
        pthread_mutex_unlock(&comm->mutex);
        handle = nccl_plugin_start(&event);
        nccl_plugin_state(handle, NCCL_STATE_PROXY_SLEEP, &(union nccl_state_arguments){0});
        pthread_mutex_lock(&comm->mutex);
    }
    if (find_update(comm) == NULL && !comm->is_stopping)
        pthread_cond_wait(&comm->changed, &comm->mutex);
    if (is_reported) {
        pthread_mutex_unlock(&comm->mutex);
        nccl_plugin_state(handle, NCCL_STATE_PROXY_WAKEUP, &(union nccl_state_arguments){0});
        nccl_plugin_stop(handle);
        pthread_mutex_lock(&comm->mutex);
    }
}

static void *nccl_progress_thread(void *argument)
{
    struct lull_nccl_comm *comm = argument;

    pthread_mutex_lock(&comm->mutex);
    for (;;) {
        struct lull_nccl_work **link = find_update(comm);
        struct lull_nccl_work *work;
        bool has_ended;

        if (link == NULL && comm->is_stopping)
            break;
        if (link == NULL) {
            sleep_until_changed(comm);
            continue;
        }
        work = *link;
        has_ended = atomic_load(&work->end_ns) != 0;
        pthread_mutex_unlock(&comm->mutex);
        if (!work->has_started)
            nccl_progress_report_start(work);
        work->has_started = true;
        if (has_ended)
            nccl_progress_report_end(work);
        pthread_mutex_lock(&comm->mutex);
        if (has_ended) {
            take_out(comm, link); /* link still holds, since other threads only append */
            nccl_work_release(work);
        }
    }
    pthread_mutex_unlock(&comm->mutex);
    return NULL;
}

void nccl_progress_start(struct lull_nccl_comm *comm)
{
    char name[16];

    if (comm->context == NULL ||
        pthread_create(&comm->thread, NULL, nccl_progress_thread, comm) != 0)
        return;
    comm->has_thread = true;
    snprintf(name, sizeof(name), "NCCL Progress%2u", (unsigned)comm->device % 100);
    pthread_setname_np(comm->thread, name);
}

void nccl_progress_stop(struct lull_nccl_comm *comm, bool is_abort)
{
    struct timespec until;
    struct lull_nccl_work *work;
    int result = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += LONGEST_WAIT_S;
    pthread_mutex_lock(&comm->mutex);
    while (!is_abort && comm->running > 0 && result == 0)
        result = pthread_cond_timedwait(&comm->changed, &comm->mutex, &until);
    comm->is_stopping = true;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
    if (comm->has_thread)
        pthread_join(comm->thread, NULL);
    while ((work = comm->posted) != NULL) { /* these kernels never ended */
        comm->posted = work->next_posted;
        nccl_work_release(work);
    }
}

void nccl_progress_post(struct lull_nccl_work *work)
{
    struct lull_nccl_comm *comm = work->comm;

    if (!comm->has_thread)
        return;
    atomic_fetch_add(&work->references, 1);
    pthread_mutex_lock(&comm->mutex);
    *comm->posted_end = work;
    comm->posted_end = &work->next_posted;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
}
