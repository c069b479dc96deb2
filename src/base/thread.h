/*
 * Starts Lull's threads, which leave signals to the other threads of the program, and initialises
 * their condition variables. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_BASE_THREAD_H
#define LULL_BASE_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Starts a thread that blocks every signal but SIGBUS. Errors: -errno; no thread was started. */
int lull_thread_start(pthread_t *thread_out, void *(*run)(void *), void *argument);

/* Initialises a condition variable whose timed waits use the monotonic clock (clock.h). */
void lull_thread_init_condition(pthread_cond_t *condition_out);

/*
 * Gives the calling thread priority over all ordinary threads (SCHED_RR, the lowest real-time
 * priority), because it works for microseconds at a time and must not be late. Do not use it for a
 * thread that every call of a job wakes: it would preempt the caller, for milliseconds where ranks
 * share processors. Threads and processes that it starts are ordinary. Nothing changes where this
 * is not permitted (it needs root, CAP_SYS_NICE or RLIMIT_RTPRIO).
 */
void lull_thread_set_realtime(void);

/* Gives all threads of another process that priority, for its last moments. Nothing changes where
 * this is not permitted. */
void lull_thread_set_realtime_of_process(pid_t pid);

/* Returns the state letter of a thread of this process (proc(5)), such as R, S or D; '?': unknown.
 */
char lull_thread_state(int thread);

/* Writes the kernel function in which a thread of this process waits. False: the kernel does not
 * report it.
 */
bool lull_thread_wait_channel(int thread, char *name_out, size_t size);

#endif
