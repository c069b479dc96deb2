/*
 * Preloaded: the wall clock jumps by a year, forward or back, ten times a second. Other clocks are
 * unchanged. SPDX-License-Identifier: Apache-2.0
 */
#include <stddef.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>

static const time_t year_s = 365 * 24 * 3600;

#define EXPORT __attribute__((visibility("default")))

static struct timespec jumping(void)
{
    struct timespec monotonic;
    struct timespec wall;

    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &monotonic);
    syscall(SYS_clock_gettime, CLOCK_REALTIME, &wall);
    wall.tv_sec += monotonic.tv_nsec / 100000000 % 2 == 0 ? year_s : -year_s;
    return wall;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *time_out)
{
    if (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        return (int)syscall(SYS_clock_gettime, clock, time_out);
    *time_out = jumping();
    return 0;
}

EXPORT time_t time(time_t *time_out)
{
    const time_t now = jumping().tv_sec;

    if (time_out != NULL)
        *time_out = now;
    return now;
}

EXPORT int gettimeofday(struct timeval *restrict time_out, void *restrict zone)
{
    const struct timespec now = jumping();

    (void)zone;
    *time_out = (struct timeval){.tv_sec = now.tv_sec, .tv_usec = now.tv_nsec / 1000};
    return 0;
}
