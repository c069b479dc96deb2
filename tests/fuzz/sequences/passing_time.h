/*
 * The time of the server under test: it advances like real time and jumps on request, so that no
 * sequence has to wait for a lease to expire. The linker replaces the C library's functions in the
 * code under test by these (meson.build:
 * --wrap). Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TESTS_FUZZ_PASSING_TIME_H
#define LULL_TESTS_FUZZ_PASSING_TIME_H

#include <stdint.h>

/* Lets this much time pass at once: timers that are due fire. */
void time_leap(int64_t ns);

/* The real time, on CLOCK_MONOTONIC; lull_now_ns() gives the other. */
int64_t time_real_ns(void);

/* Sleeps really. */
void time_rest_ms(int64_t ms);

#endif
