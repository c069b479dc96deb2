/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/shared/stop_signals.h"

#include <stddef.h>
#include <time.h>

void lull_stop_signals_begin(struct lull_stop_signals *stop)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

    *stop = (struct lull_stop_signals){.stopped_by = 0};
    sigemptyset(&stop->signals);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        sigaddset(&stop->signals, numbers[i]);
    sigprocmask(SIG_BLOCK, &stop->signals, NULL);
}

bool lull_is_stopped(struct lull_stop_signals *stop)
{
    const struct timespec now = {0};

    if (stop->stopped_by == 0) {
        const int number = sigtimedwait(&stop->signals, NULL, &now);

        stop->stopped_by = number > 0 ? number : 0;
    }
    return stop->stopped_by != 0;
}
