/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/enforcer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread.h"

/* The patience is counted in so many steps, each a wake-up of the thread, so that the time in which
 * the whole process did not run counts at most one of them. */
enum { PATIENCE_STEPS = 10 };

/* Numbers of clients are counted from 1, so no client has these two. */
static const uint64_t own_timer = 0;
static const uint64_t own_mail = UINT64_MAX;

struct lull_enforcer {
    struct lull_writer *writer;
    struct lull_enforcer_options options;
    int epoll_fd;
    int timer_fd;
    int mail_fd; /* is written once, to stop */
    pthread_t thread;

    pthread_mutex_t lock; /* guards what follows; no thread waits while holding it */
    struct lull_lease_table *leases;
    bool is_stopping;
    int64_t asked_ns; /* since when overdue leases wait for the reader; 0: none does */
    uint32_t steps_left;
    uint64_t ended; /* a bit per GPU: ended leases that take() has not returned yet */
    struct lull_ended_lease ended_leases[LULL_DEVICE_MAX_GPUS];
};

static void enforcer_set_timer(struct lull_enforcer *enforcer, int64_t due_ns)
{
    struct itimerspec spec = {0};

    if (due_ns != INT64_MAX)
        spec.it_value = lull_timespec_from_ns(due_ns > 0 ? due_ns : 1);
    timerfd_settime(enforcer->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* --- with the lock --- */

static bool end_lease(struct lull_enforcer *enforcer, uint32_t gpu)
{
    if (!lull_lease_end(enforcer->leases, gpu))
        return false;
    lull_writer_end(enforcer->writer, gpu);
    return true;
}

static void end_and_report(struct lull_enforcer *enforcer, uint32_t gpu, enum lull_ending why)
{
    const struct lull_lease *const lease = lull_lease_find(enforcer->leases, gpu);

    enforcer->ended |= UINT64_C(1) << gpu;
    enforcer->ended_leases[gpu] = (struct lull_ended_lease){gpu, lease->client, why};
    end_lease(enforcer, gpu);
    enforcer->options.wake(enforcer->options.context);
}

static void end_overdue(struct lull_enforcer *enforcer)
{
    int gpu;

    /* Leases that ran out after the reader was asked get their own turn. */
    while ((gpu = lull_lease_find_expired(enforcer->leases, enforcer->asked_ns)) >= 0)
        end_and_report(enforcer, (uint32_t)gpu, LULL_ENDING_OVERDUE);
    enforcer->asked_ns = 0;
}

/* Queries the reader about overdue leases, or gives up on it, and plans the next check. */
static void enforcer_check_leases(struct lull_enforcer *enforcer, int64_t now_ns)
{
    if (enforcer->asked_ns != 0 && enforcer->steps_left == 0)
        end_overdue(enforcer);
    if (lull_lease_find_expired(enforcer->leases, now_ns) < 0) {
        enforcer->asked_ns = 0;
        enforcer_set_timer(enforcer, lull_lease_next_expiry_ns(enforcer->leases));
        return;
    }
    if (enforcer->asked_ns == 0) {
        enforcer->asked_ns = now_ns;
        enforcer->steps_left = PATIENCE_STEPS;
        enforcer->options.wake(enforcer->options.context);
    }
    enforcer->steps_left--;
    enforcer_set_timer(enforcer, now_ns + enforcer->options.patience_ns / PATIENCE_STEPS);
}

static void end_leases_of_dead(struct lull_enforcer *enforcer, uint64_t client)
{
    for (uint32_t gpu = 0; gpu < enforcer->options.gpu_count; gpu++) {
        const struct lull_lease *const lease = lull_lease_find(enforcer->leases, gpu);

        if (lease != NULL && lease->client == client)
            end_and_report(enforcer, gpu, LULL_ENDING_DEAD);
    }
}

/* --- the thread --- */

/* Events are edge-triggered, so that neither the timer nor a pidfd has to be read. */
static void *enforcer_run(void *argument)
{
    struct lull_enforcer *const enforcer = argument;
    struct epoll_event events[16];
    bool is_stopping = false;

    pthread_setname_np(pthread_self(), "lull-enforcer");
    lull_thread_set_realtime();
    while (!is_stopping) {
        const int count = epoll_wait(enforcer->epoll_fd, events, 16, -1);

        pthread_mutex_lock(&enforcer->lock);
        for (int i = 0; i < count; i++)
            if (events[i].data.u64 == own_timer)
                enforcer_check_leases(enforcer, lull_now_ns());
            else if (events[i].data.u64 != own_mail)
                end_leases_of_dead(enforcer, events[i].data.u64);
        is_stopping = enforcer->is_stopping;
        pthread_mutex_unlock(&enforcer->lock);
    }
    return NULL;
}

/* --- the owner's side --- */

static int enforcer_listen_to(struct lull_enforcer *enforcer, int fd, uint64_t who)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = who};

    return epoll_ctl(enforcer->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void free_enforcer(struct lull_enforcer *enforcer)
{
    const int fds[] = {enforcer->epoll_fd, enforcer->timer_fd, enforcer->mail_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    lull_lease_table_destroy(enforcer->leases);
    pthread_mutex_destroy(&enforcer->lock);
    free(enforcer);
}

static int enforcer_open_fds(struct lull_enforcer *enforcer)
{
    int result;

    enforcer->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    enforcer->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    enforcer->mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (enforcer->epoll_fd < 0 || enforcer->timer_fd < 0 || enforcer->mail_fd < 0)
        return -errno;
    result = enforcer_listen_to(enforcer, enforcer->timer_fd, own_timer);
    return result < 0 ? result : enforcer_listen_to(enforcer, enforcer->mail_fd, own_mail);
}

int lull_enforcer_start(struct lull_writer *writer, const struct lull_enforcer_options *options,
                        struct lull_enforcer **enforcer_out, struct lull_error *err)
{
    struct lull_enforcer *const enforcer = calloc(1, sizeof(*enforcer));
    int result;

    if (enforcer == NULL)
        return lull_error_set(err, -ENOMEM, "enforcer: no memory");
    enforcer->writer = writer;
    enforcer->options = *options;
    pthread_mutex_init(&enforcer->lock, NULL);
    enforcer->leases = lull_lease_table_create(options->gpu_count);
    result = enforcer_open_fds(enforcer);
    if (enforcer->leases == NULL)
        result = -ENOMEM;
    if (result == 0)
        result = lull_thread_start(&enforcer->thread, enforcer_run, enforcer);
    if (result < 0) {
        free_enforcer(enforcer);
        return lull_error_set(err, result, "enforcer: cannot start: %s", strerror(-result));
    }
    *enforcer_out = enforcer;
    return 0;
}

void lull_enforcer_stop(struct lull_enforcer *enforcer)
{
    if (enforcer == NULL)
        return;
    pthread_mutex_lock(&enforcer->lock);
    enforcer->is_stopping = true;
    pthread_mutex_unlock(&enforcer->lock);
    eventfd_write(enforcer->mail_fd, 1);
    pthread_join(enforcer->thread, NULL);
    free_enforcer(enforcer);
}

int lull_enforcer_watch(struct lull_enforcer *enforcer, uint64_t client, int pid_fd)
{
    return enforcer_listen_to(enforcer, pid_fd, client);
}

void lull_enforcer_unwatch(struct lull_enforcer *enforcer, int pid_fd)
{
    epoll_ctl(enforcer->epoll_fd, EPOLL_CTL_DEL, pid_fd, NULL);
}

int lull_enforcer_check(struct lull_enforcer *enforcer, uint32_t gpu, struct lull_error *err)
{
    int result;

    pthread_mutex_lock(&enforcer->lock);
    result = lull_lease_check(enforcer->leases, gpu, err);
    pthread_mutex_unlock(&enforcer->lock);
    return result;
}

int lull_enforcer_grant(struct lull_enforcer *enforcer, uint32_t gpu, uint64_t client,
                        const struct lull_band *band, struct lull_writer_source *source,
                        uint64_t *id_out, struct lull_error *err)
{
    int result;

    pthread_mutex_lock(&enforcer->lock);
    result = lull_lease_grant(
        enforcer->leases, &(struct lull_lease_request){gpu, client, band, enforcer->options.ttl_ns},
        lull_now_ns(), id_out, err);
    if (result == 0) {
        lull_writer_grant(enforcer->writer, gpu, source, band);
        if (enforcer->asked_ns == 0) /* else the timer counts the patience */
            enforcer_set_timer(enforcer, lull_lease_next_expiry_ns(enforcer->leases));
    }
    pthread_mutex_unlock(&enforcer->lock);
    return result;
}

/* The timer is unchanged: it fires early, and is planned again then. */
uint32_t lull_enforcer_renew(struct lull_enforcer *enforcer, uint64_t client)
{
    uint32_t count;

    pthread_mutex_lock(&enforcer->lock);
    count = lull_lease_renew(enforcer->leases, client, lull_now_ns(), enforcer->options.ttl_ns);
    pthread_mutex_unlock(&enforcer->lock);
    return count;
}

bool lull_enforcer_end(struct lull_enforcer *enforcer, uint32_t gpu)
{
    bool was_leased;

    pthread_mutex_lock(&enforcer->lock);
    was_leased = end_lease(enforcer, gpu);
    pthread_mutex_unlock(&enforcer->lock);
    return was_leased;
}

void lull_enforcer_settle(struct lull_enforcer *enforcer, uint32_t gpu)
{
    pthread_mutex_lock(&enforcer->lock);
    lull_lease_settle(enforcer->leases, gpu);
    pthread_mutex_unlock(&enforcer->lock);
}

bool lull_enforcer_find(struct lull_enforcer *enforcer, uint32_t gpu, struct lull_lease *lease_out)
{
    const struct lull_lease *lease;

    pthread_mutex_lock(&enforcer->lock);
    lease = lull_lease_find(enforcer->leases, gpu);
    if (lease != NULL)
        *lease_out = *lease;
    pthread_mutex_unlock(&enforcer->lock);
    return lease != NULL;
}

uint64_t lull_enforcer_leases_of(struct lull_enforcer *enforcer, uint64_t client)
{
    uint64_t mask = 0;

    pthread_mutex_lock(&enforcer->lock);
    for (uint32_t gpu = 0; gpu < enforcer->options.gpu_count; gpu++) {
        const struct lull_lease *const lease = lull_lease_find(enforcer->leases, gpu);

        if (lease != NULL && lease->client == client)
            mask |= UINT64_C(1) << gpu;
    }
    pthread_mutex_unlock(&enforcer->lock);
    return mask;
}

uint64_t lull_enforcer_settling(struct lull_enforcer *enforcer)
{
    uint64_t mask;

    pthread_mutex_lock(&enforcer->lock);
    mask = lull_lease_settling(enforcer->leases);
    pthread_mutex_unlock(&enforcer->lock);
    return mask;
}

bool lull_enforcer_take(struct lull_enforcer *enforcer, struct lull_ended_lease *ended_out)
{
    bool is_found = false;

    pthread_mutex_lock(&enforcer->lock);
    for (uint32_t gpu = 0; gpu < enforcer->options.gpu_count && !is_found; gpu++) {
        if ((enforcer->ended >> gpu & 1) == 0)
            continue;
        enforcer->ended &= ~(UINT64_C(1) << gpu);
        *ended_out = enforcer->ended_leases[gpu];
        is_found = true;
    }
    pthread_mutex_unlock(&enforcer->lock);
    return is_found;
}

int64_t lull_enforcer_waits_since_ns(struct lull_enforcer *enforcer)
{
    int64_t since_ns;

    pthread_mutex_lock(&enforcer->lock);
    since_ns = enforcer->asked_ns;
    pthread_mutex_unlock(&enforcer->lock);
    return since_ns;
}

void lull_enforcer_has_read(struct lull_enforcer *enforcer, int64_t since_ns)
{
    pthread_mutex_lock(&enforcer->lock);
    if (enforcer->asked_ns != 0 && enforcer->asked_ns == since_ns) {
        enforcer->steps_left = 0;
        enforcer_check_leases(enforcer, lull_now_ns());
    }
    pthread_mutex_unlock(&enforcer->lock);
}
