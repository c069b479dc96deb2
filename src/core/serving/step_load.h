/*
 * How many of a server's steps have prompts, where nothing but steps is known.
 *
 * A step with prompts has about as many tokens each time, and its time follows the SM clock. So its
 * time, divided by that of computation at the clock, is the same at all clocks. Steps without
 * prompts are shorter and read memory, so their time at the highest clock is at most that at
 * another one, divided by the time of memory accesses there. The prompts that arrive need their
 * steps at any clock: if these take all of the time, the queue grows without bound.
 *
 * A server of which all steps take about the same time shows nothing of this.
 *
 * Pure; caller's storage; zero-initialised is new; one thread at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SERVING_STEP_LOAD_H
#define LULL_CORE_SERVING_STEP_LOAD_H

#include <stdbool.h>

#include "core/serving/reading.h"
#include "core/serving/server_model.h"

enum { LULL_STEP_LOAD_BINS = 64 };

/* Time of steps by their length at the highest clock. */
struct lull_step_load {
    double all[LULL_STEP_LOAD_BINS];    /* if all is computation */
    double recent[LULL_STEP_LOAD_BINS]; /* the same of the last second */
    double light[LULL_STEP_LOAD_BINS];  /* if all is memory access */
    double prompt_ratio; /* share of time that steps with prompts take at the highest clock */
};

/* Takes the steps between two readings, at a clock. */
void lull_step_load_take(struct lull_step_load *load, const struct lull_serving_reading *before,
                         const struct lull_serving_reading *now,
                         const struct lull_server_clock *clock);

/* Returns whether nearly all recent steps had prompts: requests wait. */
bool lull_step_load_is_full(const struct lull_step_load *load);

#endif
