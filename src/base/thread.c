/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <sched.h>
#include <signal.h>

int lull_thread_start(pthread_t *thread_out, void *(*run)(void *), void *argument)
{
    sigset_t all;
    sigset_t before;
    int result;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    result = pthread_create(thread_out, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return -result;
}

void lull_thread_set_realtime(void)
{
    const struct sched_param lowest = {.sched_priority = sched_get_priority_min(SCHED_RR)};

    sched_setscheduler(0, SCHED_RR | SCHED_RESET_ON_FORK, &lowest);
}
