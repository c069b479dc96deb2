/*
 * How many of a server's steps have prompts, where nothing but steps is known.
 *
 * A step with prompts has about as many tokens each time, and its time follows the SM clock. So its
 * time, divided by that of computation at the clock, is the same at all clocks, and longer than
 * that of steps without prompts. The prompts that arrive need these steps at any clock: if they
 * take all of the time, the queue grows without bound.
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

enum { LULL_STEP_LOAD_BINS = 64 };

struct lull_step_load {
    double all[LULL_STEP_LOAD_BINS];    /* time of steps by their length at the highest clock... */
    double recent[LULL_STEP_LOAD_BINS]; /* ...and of the last second */
    double prompt_ratio; /* share of time that steps with prompts take at the highest clock */
};

/* Takes the steps between two readings, at a clock at which computation takes `compute` >= 1 times
 * as long as at the highest one. */
void lull_step_load_take(struct lull_step_load *load, const struct lull_serving_reading *before,
                         const struct lull_serving_reading *now, double compute);

/* Returns whether nearly all recent steps had prompts: requests wait. */
bool lull_step_load_is_full(const struct lull_step_load *load);

#endif
