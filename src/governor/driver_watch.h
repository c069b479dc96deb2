/*
 * Does one GPU's driver do what it says? Counts what it does otherwise, for the report, and tells
 * when asking it is pointless: calls that succeed without effect, calls that take forever, and
 * another program that changes the clocks at the same time.
 *
 * Caller's storage; zero-initialised has seen nothing. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_DRIVER_WATCH_H
#define LULL_GOVERNOR_DRIVER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/switch.h"

struct lull_driver_watch {
    uint64_t changes;        /* that the driver said it had made */
    uint64_t without_effect; /* of these, the clock never followed */
    uint64_t calls;          /* made, whatever came of them */
    uint64_t slow_calls;     /* of these, blocked for over 100 ms */
    double slowest_call_ms;
    uint64_t foreign; /* stretches in which the clock was not what had been set */
    uint32_t row_without_effect; /* changes without effect in a row */
    uint32_t strange;   /* readings in a row that do not fit */
};

/* What a clock reading is held against. */
struct lull_clock_expectation {
    uint32_t set_mhz;   /* 0: the highest */
    uint32_t highest_mhz;
    int64_t since_ns;   /* asked for then */
    bool is_limited;    /* by power, heat or idleness: says nothing */
};

/* The final outcome of a request. */
void lull_driver_watch_take_result(struct lull_driver_watch *watch,
                                   const struct lull_switch_result *result);

/* The driver has returned from so many more calls; the last of them took so long. */
void lull_driver_watch_take_calls(struct lull_driver_watch *watch, uint64_t calls, double call_ms);

/* A reading of the SM clock. */
void lull_driver_watch_take_clock(struct lull_driver_watch *watch, int64_t now_ns,
                                  uint32_t read_mhz,
                                  const struct lull_clock_expectation *expected);

/* The clock has not followed so many times in a row that the GPU is better left alone. */
bool lull_driver_watch_has_no_effect(const struct lull_driver_watch *watch);

/* What is wrong, for people; false, and an empty text: nothing is. */
bool lull_driver_watch_describe(const struct lull_driver_watch *watch, char *text, size_t size);

#endif
