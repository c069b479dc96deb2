/*
 * The time of a sweep: CLOCK_MONOTONIC, or on an emulated node the time that its GPUs live in,
 * which may run faster (`lull emulate --time-scale`). Threads: any. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_LAB_SWEEP_TIME_H
#define LULL_LAB_SWEEP_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct lull_node;

struct lull_sweep_time {
    struct lull_node *node; /* NULL: GPUs are real */
};

/* Opens the emulated node that the environment names, if any. Errors: those of lull_node_open. */
int lull_sweep_time_open(struct lull_sweep_time *time_out, struct lull_error *err);
void lull_sweep_time_close(struct lull_sweep_time *time);

/* The time now, s since any time. */
double lull_sweep_time_now(const struct lull_sweep_time *time);

/* Sleeps for so many seconds of that time. */
void lull_sweep_time_sleep(const struct lull_sweep_time *time, double seconds);

#endif
