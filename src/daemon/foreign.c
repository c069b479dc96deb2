/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/foreign.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/process.h"
#include "base/thread.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

#define INTERRUPT_NS (2 * LULL_NS_PER_MS)
#define STOP_NS (100 * LULL_NS_PER_MS)

/* A signal that interrupts a system call and does nothing else. Nothing in lulld uses it. */
enum { INTERRUPT = SIGURG };

struct foreign_thread {
    struct lull_foreign *foreign;
    bool is_working;
    uid_t uid; /* of the job that it works on */
};

struct lull_foreign {
    pthread_mutex_t mutex; /* protects everything below */
    pthread_cond_t changed;
    struct lull_foreign_job *first;
    struct lull_foreign_job *last;
    uint32_t stray_count;
    uint32_t thread_count;
    bool is_stopping;
    struct foreign_thread threads[LULL_FOREIGN_THREADS + 1]; /* the first is for lulld itself */
};

static void on_interrupt(int number)
{
    (void)number;
}

/* --- the queue; the caller holds the mutex --- */

static bool is_served(const struct lull_foreign *foreign, uid_t uid)
{
    for (size_t i = 1; i <= LULL_FOREIGN_THREADS; i++)
        if (foreign->threads[i].is_working && foreign->threads[i].uid == uid)
            return true;
    return false;
}

/* Takes the oldest job for the thread, of a user for whom no thread works. */
static struct lull_foreign_job *foreign_take_job(struct lull_foreign *foreign,
                                                 const struct foreign_thread *thread)
{
    const bool is_own = thread == &foreign->threads[0];
    struct lull_foreign_job *before = NULL;

    for (struct lull_foreign_job *job = foreign->first; job != NULL;
         before = job, job = job->next) {
        if (job->is_own != is_own || (!is_own && is_served(foreign, job->uid)))
            continue;
        if (before != NULL)
            before->next = job->next;
        else
            foreign->first = job->next;
        if (foreign->last == job)
            foreign->last = before;
        return job;
    }
    return NULL;
}

/* --- the threads --- */

static void foreign_set_timer(timer_t timer, int64_t interval_ns)
{
    const struct timespec interval = {.tv_nsec = interval_ns};
    const struct itimerspec spec = {interval, interval};

    timer_settime(timer, 0, &spec, NULL);
}

/* Creates a timer that interrupts the calling thread. */
static bool create_timer(timer_t *timer_out)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = INTERRUPT};
    sigset_t own;

    event.sigev_notify_thread_id = lull_process_thread();
    sigemptyset(&own);
    sigaddset(&own, INTERRUPT);
    pthread_sigmask(SIG_UNBLOCK, &own, NULL);
    return timer_create(CLOCK_MONOTONIC, &event, timer_out) == 0;
}

static void work_on(struct foreign_thread *thread, struct lull_foreign_job *job, timer_t *timer)
{
    struct lull_foreign *const foreign = thread->foreign;
    const bool is_stray = job->is_stray;

    thread->is_working = true;
    thread->uid = job->uid;
    pthread_mutex_unlock(&foreign->mutex);
    if (timer != NULL)
        foreign_set_timer(*timer, INTERRUPT_NS);
    job->work(job);
    if (timer != NULL)
        foreign_set_timer(*timer, 0);
    pthread_mutex_lock(&foreign->mutex);
    thread->is_working = false;
    foreign->stray_count -= is_stray;
    /* Another thread may have passed over a job of this user. */
    pthread_cond_broadcast(&foreign->changed);
}

static void *foreign_thread_run(void *argument)
{
    struct foreign_thread *const thread = argument;
    struct lull_foreign *const foreign = thread->foreign;
    timer_t timer;
    const bool has_timer = create_timer(&timer);

    pthread_setname_np(pthread_self(), "lull-foreign");
    pthread_mutex_lock(&foreign->mutex);
    while (!foreign->is_stopping) {
        struct lull_foreign_job *const job = foreign_take_job(foreign, thread);

        if (job != NULL)
            work_on(thread, job, has_timer ? &timer : NULL);
        else
            pthread_cond_wait(&foreign->changed, &foreign->mutex);
    }
    if (has_timer)
        timer_delete(timer);
    foreign->thread_count--;
    pthread_cond_broadcast(&foreign->changed);
    pthread_mutex_unlock(&foreign->mutex);
    return NULL;
}

/* --- start and stop --- */

static struct lull_foreign *foreign_create(void)
{
    struct lull_foreign *const foreign = calloc(1, sizeof(*foreign));

    if (foreign == NULL)
        return NULL;
    pthread_mutex_init(&foreign->mutex, NULL);
    lull_thread_init_condition(&foreign->changed);
    return foreign;
}

static void foreign_destroy(struct lull_foreign *foreign)
{
    pthread_cond_destroy(&foreign->changed);
    pthread_mutex_destroy(&foreign->mutex);
    free(foreign);
}

int lull_foreign_start(struct lull_foreign **foreign_out, struct lull_error *err)
{
    const struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = SA_RESTART};
    struct lull_foreign *const foreign = foreign_create();
    int result = 0;

    if (foreign == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for the descriptors of clients");
    sigaction(INTERRUPT, &action, NULL);
    pthread_mutex_lock(&foreign->mutex);
    while (result == 0 && foreign->thread_count <= LULL_FOREIGN_THREADS) {
        struct foreign_thread *const thread = &foreign->threads[foreign->thread_count];
        pthread_t handle;

        thread->foreign = foreign;
        result = lull_thread_start(&handle, foreign_thread_run, thread);
        if (result == 0) {
            foreign->thread_count++;
            pthread_detach(handle);
        }
    }
    pthread_mutex_unlock(&foreign->mutex);
    if (result < 0 && foreign->thread_count < 2) { /* one for lulld, one for clients */
        lull_foreign_stop(foreign);
        return lull_error_set(err, result, "cannot start a thread for descriptors of clients: %s",
                              strerror(-result));
    }
    *foreign_out = foreign;
    return 0;
}

void lull_foreign_add(struct lull_foreign *foreign, struct lull_foreign_job *job)
{
    job->next = NULL;
    pthread_mutex_lock(&foreign->mutex);
    if (foreign->last != NULL)
        foreign->last->next = job;
    else
        foreign->first = job;
    foreign->last = job;
    foreign->stray_count += job->is_stray;
    pthread_cond_broadcast(&foreign->changed); /* not every thread takes every job */
    pthread_mutex_unlock(&foreign->mutex);
}

uint32_t lull_foreign_stray_count(struct lull_foreign *foreign)
{
    uint32_t count;

    pthread_mutex_lock(&foreign->mutex);
    count = foreign->stray_count;
    pthread_mutex_unlock(&foreign->mutex);
    return count;
}

void lull_foreign_stop(struct lull_foreign *foreign)
{
    const int64_t until_ns = lull_now_ns() + STOP_NS;
    const struct timespec until = {.tv_sec = until_ns / LULL_NS_PER_S,
                                   .tv_nsec = until_ns % LULL_NS_PER_S};
    bool is_ended;

    if (foreign == NULL)
        return;
    pthread_mutex_lock(&foreign->mutex);
    foreign->is_stopping = true;
    pthread_cond_broadcast(&foreign->changed);
    while (foreign->thread_count > 0 &&
           pthread_cond_timedwait(&foreign->changed, &foreign->mutex, &until) != ETIMEDOUT)
        continue;
    is_ended = foreign->thread_count == 0;
    pthread_mutex_unlock(&foreign->mutex);
    if (is_ended)
        foreign_destroy(foreign);
}
