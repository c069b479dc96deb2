/*
 * The writer's threads: the loop of the one that has the turn, what it sleeps for, and the spare.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"
#include "device/driver_owner.h"

static int64_t next_due(const struct lull_writer *writer)
{
    int64_t due_ns = writer->stop_seen_ns != 0 ? writer->stop_seen_ns : LULL_WRITER_NEVER_NS;

    due_ns = lull_earlier_ns(due_ns, lull_writer_next_heartbeat(writer));
    due_ns = lull_earlier_ns(due_ns, lull_writer_driver_due_ns(writer));
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_away(writer, i)) {
            due_ns = lull_earlier_ns(due_ns, lull_writer_health_due_ns(writer, i));
            continue;
        }
        if (lull_writer_is_out(writer, i))
            continue;
        due_ns = lull_earlier_ns(due_ns, gpu->clock.raise_ns);
        due_ns = lull_earlier_ns(due_ns, lull_writer_limit_due_ns(gpu));
        due_ns = lull_earlier_ns(due_ns, lull_writer_profiles_due_ns(gpu));
        due_ns = lull_earlier_ns(due_ns, lull_writer_smoothing_due_ns(gpu));
        if (gpu->clock.observation.is_running)
            due_ns = lull_earlier_ns(due_ns, gpu->clock.observation.next_ns);
        if (lull_writer_is_watched(gpu))
            due_ns = lull_earlier_ns(due_ns, gpu->watch.next_ns);
        if (gpu->lease.source != NULL)
            due_ns = lull_earlier_ns(due_ns, lull_writer_expires_ns(gpu));
        if (gpu->request.is_pending)
            due_ns = lull_earlier_ns(
                due_ns, lull_earlier_ns(lull_writer_lowering_from_ns(gpu),
                                        lull_earlier_ns(gpu->request.pending.deadline_ns,
                                                        gpu->request.pending.valid_until_ns) +
                                            1));
    }
    return due_ns;
}

/* Events are edge-triggered, and neither the timer nor the doorbells are read, so no client can
 * make a read block. */
static void sleep_until_due(struct lull_writer *writer)
{
    int64_t due_ns = next_due(writer);
    struct epoll_event events[16];

    if (due_ns != writer->timer_ns) {
        struct itimerspec spec = {0};

        if (due_ns != LULL_WRITER_NEVER_NS)
            spec.it_value = lull_timespec_from_ns(due_ns > 0 ? due_ns : 1);
        timerfd_settime(writer->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
        writer->timer_ns = due_ns;
    }
    epoll_wait(writer->epoll_fd, events, 16, -1);
    if (due_ns <= lull_now_ns())
        writer->timer_ns = 0; /* the timer has fired: it is set again, even for the same time */
}

/* Returns whether nothing is left to do on a GPU before the writer ends. */
static bool is_restored(const struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (lull_writer_is_away(writer, index))
        return lull_writer_health_of_call(writer, index, now_ns) != LULL_WRITER_UP;
    /* Stopping does not wait for a GPU that is not there: its record stays for the next start. */
    if (lull_writer_is_out(writer, index))
        return gpu->states.lease == LULL_LEASE_FREE;
    if (gpu->states.presence == LULL_PRESENCE_LOST)
        return gpu->states.lease == LULL_LEASE_FREE && gpu->clock.raise_ns > now_ns;
    return gpu->states.lease == LULL_LEASE_FREE && gpu->clock.raise_ns == LULL_WRITER_NEVER_NS &&
           gpu->states.record != LULL_RECORD_KEPT;
}

static bool writer_thread_is_done(const struct lull_writer *writer, int64_t now_ns)
{
    if (writer->stop_seen_ns == 0)
        return false;
    if (now_ns >= writer->stop_seen_ns)
        return true;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (!is_restored(writer, i, now_ns))
            return false;
    return true;
}

/* The writer's loop, until all is done or the calling thread has lost its turn in a call. */
static void *writer_thread_run(void *argument)
{
    struct lull_writer *writer = argument;

    while (!lull_driver_owner_is_lost()) {
        int64_t now_ns = lull_now_ns();

        atomic_store(&writer->is_asked, false);
        if (atomic_exchange(&writer->has_mail, false))
            lull_writer_adopt(writer, now_ns);
        lull_writer_watch_away(writer, now_ns);
        lull_writer_apply_keeper(writer, now_ns);
        lull_writer_collect(writer, now_ns);
        if (lull_writer_act(writer, now_ns) || lull_writer_mind_driver(writer, now_ns) ||
            lull_writer_record_one(writer) || lull_writer_observe_one(writer, now_ns) ||
            lull_writer_watch_one(writer, now_ns))
            continue;
        lull_writer_finish_all(writer);
        if (lull_driver_owner_is_lost())
            break;
        lull_writer_apply_administrator(writer, now_ns);
        if (writer_thread_is_done(writer, now_ns))
            break;
        if (!atomic_load(&writer->has_mail))
            sleep_until_due(writer);
    }
    if (lull_driver_owner_is_lost())
        return NULL;
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->has_finished = true;
    pthread_cond_signal(&writer->finished);
    pthread_mutex_unlock(&writer->mailbox_lock);
    return NULL;
}

/* Starts the thread that takes over if this one gets stuck. */
static void start_spare(struct lull_writer *writer)
{
    const int result = lull_thread_start(&writer->spare, lull_writer_wait_and_run, writer);

    writer->has_spare = result == 0;
    if (result < 0)
        lull_log(LULL_LOG_WARNING, "writer",
                 "no second thread (%s): a GPU that hangs would stop all", strerror(-result));
}

void *lull_writer_wait_and_run(void *argument)
{
    struct lull_writer *writer = argument;

    pthread_setname_np(pthread_self(), "lull-writer");
    /* The default slack of 50 us would be most of a switch's latency. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    lull_thread_set_realtime();
    if (!lull_driver_owner_wait(&writer->owner))
        return NULL;
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->thread = pthread_self();
    pthread_mutex_unlock(&writer->mailbox_lock);
    start_spare(writer);
    writer_thread_run(writer);
    if (!lull_driver_owner_is_lost())
        return NULL;
    pthread_detach(pthread_self()); /* the thread that took the turn is the one that is joined */
    pthread_mutex_lock(&writer->mailbox_lock);
    lull_driver_owner_return();
    lull_writer_wake(writer);
    pthread_mutex_unlock(&writer->mailbox_lock); /* from here on the writer may be freed */
    return NULL;
}
