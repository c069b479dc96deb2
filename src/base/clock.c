/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <errno.h>

void lull_sleep_until_ns(int64_t until_ns)
{
    struct timespec until = lull_timespec_from_ns(until_ns);

    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        continue;
}
