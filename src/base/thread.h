/*
 * Threads of Lull's own: signals are for the threads of the program that they run in.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_THREAD_H
#define LULL_BASE_THREAD_H

#include <pthread.h>

/* pthread_create() of a thread that blocks every signal. Errors: -errno, nothing runs then. */
int lull_thread_start(pthread_t *thread_out, void *(*run)(void *), void *argument);

/*
 * The calling thread works for microseconds at a time and must not be late: asks that it run before
 * all ordinary threads (SCHED_RR, the lowest real-time priority). Not for one that every call of a
 * job wakes: it would push the caller aside, for milliseconds where ranks share processors. Threads
 * and processes that it starts are ordinary. Where that is not permitted (root, CAP_SYS_NICE,
 * RLIMIT_RTPRIO) nothing changes.
 */
void lull_thread_set_realtime(void);

#endif
