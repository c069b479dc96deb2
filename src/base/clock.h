/*
 * Time inside Lull is int64_t nanoseconds of CLOCK_MONOTONIC everywhere; wall time is only for
 * people. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_CLOCK_H
#define LULL_BASE_CLOCK_H

#include <errno.h>
#include <stdint.h>
#include <time.h>

#define LULL_NS_PER_US INT64_C(1000)
#define LULL_NS_PER_MS INT64_C(1000000)
#define LULL_NS_PER_S INT64_C(1000000000)

/* The time now. It is async-signal-safe and takes about 20 ns. */
static inline int64_t lull_now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * LULL_NS_PER_S + now.tv_nsec;
}

static inline struct timespec lull_timespec_from_ns(int64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / LULL_NS_PER_S),
                             .tv_nsec = (long)(ns % LULL_NS_PER_S)};
}

/* Sleeps until the monotonic time until_ns. Signals do not end the sleep early. */
static inline void lull_sleep_until_ns(int64_t until_ns)
{
    const struct timespec until = lull_timespec_from_ns(until_ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}

/* The earlier and the later of two times. */
static inline int64_t lull_earlier_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static inline int64_t lull_later_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static inline double lull_ms_from_ns(int64_t ns)
{
    return (double)ns * 1e-6;
}

static inline int64_t lull_ns_from_ms(double ms)
{
    return (int64_t)(ms * 1e6);
}

#endif
