/*
 * Watches the driver of one GPU. It counts calls that succeed without effect, calls that do not
 * return, and clocks that another program must have changed; the report has these counts. It also
 * determines when further requests are pointless.
 *
 * Caller's storage, zero-initialised. Threads: one at a time.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_GOVERNOR_CONTROL_DRIVER_WATCH_H
#define LULL_GOVERNOR_CONTROL_DRIVER_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/switch.h"

struct lull_driver_watch {
    uint64_t changes;        /* clock changes that the driver reported as successful */
    uint64_t without_effect; /* changes that the clock never followed */
    uint64_t calls;          /* driver calls, with any result */
    uint64_t slow_calls;     /* calls that blocked for over 100 ms */
    double slowest_call_ms;
    int32_t denial;   /* -EPERM, LULL_E_UNSUPPORTED or LULL_E_NO_DEVICE, if the last request ended
                         with it: a permanent failure; 0: it did not */
    int32_t refusal;  /* -EAGAIN, LULL_E_DRIVER or another code of a temporary failure, if the last
                         request ended with it; 0: it did not */
    uint32_t refused; /* number of consecutive latest requests with it */
    bool is_locked;   /* the last request was refused because another program holds the clock */
    uint64_t foreign; /* stretches in which the clock differed from the set one */
    uint32_t in_vain; /* number of consecutive latest changes without effect */
    uint32_t strange; /* number of consecutive latest readings that do not fit the set clock */
};

/* The expectation for a clock reading. */
struct lull_clock_expectation {
    uint32_t set_mhz; /* the set clock; 0: none, so the highest is expected */
    uint32_t highest_mhz;
    int64_t since_ns; /* when the clock had settled there */
    bool is_limited;  /* power, heat or idleness explain a lower clock */
};

/* Takes the final outcome of a request. */
void lull_driver_watch_take_result(struct lull_driver_watch *watch,
                                   const struct lull_switch_result *result);

/* The driver has returned from this many more calls; the last of them took call_ms. */
void lull_driver_watch_take_calls(struct lull_driver_watch *watch, uint64_t calls, double call_ms);

/* Takes a reading of the SM clock. */
void lull_driver_watch_take_clock(struct lull_driver_watch *watch, int64_t now_ns,
                                  uint32_t read_mhz, const struct lull_clock_expectation *expected);

/* Returns whether the last reading after a lowering is at least half the way down from the previous
 * clock. Readings lag behind. The clock of an idle GPU falls without a request, and not every
 * device reports idleness. */
bool lull_driver_watch_follows(const struct lull_switch_result *result,
                               const struct lull_clock_expectation *before);

/* Returns whether requests are refused permanently. */
bool lull_driver_watch_denies(const struct lull_driver_watch *watch);

/* Returns whether so many consecutive requests were refused that measurements are impossible. */
bool lull_driver_watch_is_refused(const struct lull_driver_watch *watch);

/* Returns whether the clock has failed to follow so often in a row that the GPU should no longer be
 * managed. */
bool lull_driver_watch_has_no_effect(const struct lull_driver_watch *watch);

/* Describes the problem in a message for users. Returns false, with an empty text, if there is
 * none. */
bool lull_driver_watch_describe(const struct lull_driver_watch *watch, char *text, size_t size);

#endif
