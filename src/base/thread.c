/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

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
