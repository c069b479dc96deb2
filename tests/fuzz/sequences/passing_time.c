/* SPDX-License-Identifier: Apache-2.0 */
#include "passing_time.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/timerfd.h>

#include "base/clock.h"

/* Whoever waits for a time looks for leaps this often. */
#define LOOK_NS LULL_NS_PER_MS

enum { TIMERS = 32 };

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __real_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *left);
int __real_timerfd_settime(int fd, int flags, const struct itimerspec *spec,
                           struct itimerspec *before);
int __real_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *left);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec,
                           struct itimerspec *before);
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until);

static _Atomic int64_t leapt_ns;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards timers, and leaping */
static struct {
    int fd;
    int64_t due_ns; /* on the leaping clock; 0: not set */
} timers[TIMERS];

static int64_t from_timespec(const struct timespec *time)
{
    return (int64_t)time->tv_sec * LULL_NS_PER_S + time->tv_nsec;
}

int64_t time_real_ns(void)
{
    struct timespec now;

    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return from_timespec(&now);
}

void time_rest_ms(int64_t ms)
{
    const struct timespec until = lull_timespec_from_ns(time_real_ns() + ms * LULL_NS_PER_MS);

    while (__real_clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    const int result = __real_clock_gettime(clock, out);

    if (result == 0 && clock == CLOCK_MONOTONIC)
        *out = lull_timespec_from_ns(from_timespec(out) + atomic_load(&leapt_ns));
    return result;
}

static int set_timer(int fd, int64_t due_ns)
{
    struct itimerspec spec = {0};
    const int64_t real_ns = due_ns - atomic_load(&leapt_ns);

    if (due_ns != 0)
        spec.it_value = lull_timespec_from_ns(real_ns > 0 ? real_ns : 1);
    return __real_timerfd_settime(fd, TFD_TIMER_ABSTIME, &spec, NULL);
}

/* The code under test sets timers to one point in time. */
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *spec,
                           struct itimerspec *before)
{
    const int64_t due_ns = from_timespec(&spec->it_value);
    int at = 0;
    int result;

    (void)flags;
    (void)before;
    pthread_mutex_lock(&lock);
    while (at < TIMERS - 1 && timers[at].fd != fd && timers[at].due_ns != 0)
        at++;
    timers[at].fd = fd;
    timers[at].due_ns = due_ns;
    result = set_timer(fd, due_ns);
    pthread_mutex_unlock(&lock);
    return result;
}

/* A descriptor that is no timer any more refuses, and one that is used again was set again. */
void time_leap(int64_t ns)
{
    pthread_mutex_lock(&lock);
    atomic_fetch_add(&leapt_ns, ns);
    for (int i = 0; i < TIMERS; i++)
        if (timers[i].due_ns != 0)
            (void)set_timer(timers[i].fd, timers[i].due_ns);
    pthread_mutex_unlock(&lock);
}

int __wrap_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                           struct timespec *left)
{
    (void)clock;
    (void)flags;
    (void)left;
    while (lull_now_ns() < from_timespec(until))
        time_rest_ms(1);
    return 0;
}

/* It may return without a reason, as the caller of the real one has to expect as well. */
int __wrap_pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex,
                                  const struct timespec *until)
{
    const int64_t left_ns = from_timespec(until) - lull_now_ns();
    const struct timespec look =
        lull_timespec_from_ns(time_real_ns() + lull_earlier_ns(lull_later_ns(left_ns, 0), LOOK_NS));
    const int result = __real_pthread_cond_timedwait(condition, mutex, &look);

    if (result == ETIMEDOUT && lull_now_ns() < from_timespec(until))
        return 0;
    return result;
}
