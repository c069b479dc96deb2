/*
 * Duty: a steady point between two clocks. The job's iterations alternate between the steady point
 * and one point below it, on all GPUs together. A beat is a number of consecutive iterations at one
 * of the two. Of LULL_DUTY_SLOTS beats `low` run at the lower point, spread as evenly as possible.
 * So the mean slowdown lies between those of two neighbouring clocks.
 *
 * Pure; caller's storage; any thread. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_DUTY_H
#define LULL_CORE_SECTION_DUTY_H

#include <stdbool.h>
#include <stdint.h>

enum { LULL_DUTY_SLOTS = 8 };

/* Zero-initialised: all iterations run at the steady point. */
struct lull_duty {
    uint32_t point;           /* the steady point that it refines */
    uint32_t low;             /* beats at the point below it, 0..LULL_DUTY_SLOTS - 1 */
    uint32_t slot_iterations; /* iterations of a beat; 0 where low is 0 */
};

/* Returns whether iteration number `iteration` (from 0) runs one point below the steady point. */
bool lull_duty_is_low(const struct lull_duty *duty, uint64_t iteration);

/* Returns the number of iterations after which the beats repeat, >= 1. */
uint32_t lull_duty_round(const struct lull_duty *duty);

/* Returns how many iterations a beat needs to be long compared with the time of changing the clocks
 * of all GPUs (both > 0, ms); 0: a round would take too many iterations. */
uint32_t lull_duty_slot_iterations(double iteration_ms, double change_ms);

#endif
