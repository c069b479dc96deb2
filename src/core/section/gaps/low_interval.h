/*
 * Whether a GPU was low outside the gaps that were switched for it. The outcome of a change is told
 * late, even after the gap has ended; so it is judged by when things happened, not by the order in
 * which they were told.
 *
 * Pure; caller's storage; zero-initialised knows nothing. Times are ns of one clock.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_GAPS_LOW_INTERVAL_H
#define LULL_CORE_SECTION_GAPS_LOW_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* Gaps that are remembered: an outcome is told before this many more have begun. */
enum { LULL_LOW_SPAN_GAPS = 4 };

struct lull_low_interval {
    struct {
        int64_t begin_ns;
        int64_t end_ns; /* INT64_MAX: it has not ended */
    } gaps[LULL_LOW_SPAN_GAPS];
    uint32_t gap_count; /* of all that ever began */
    int64_t from_ns;    /* since when the clock is low, if it is */
    bool is_low;
};

/* A gap in which the clock is to be low begins; ends. An end without a begin is ignored. */
void lull_low_interval_gap_begins(struct lull_low_interval *span, int64_t time_ns);
void lull_low_interval_gap_ends(struct lull_low_interval *span, int64_t time_ns);

/* The clock is low from effect_ns on, which may lie ahead. If it was low already, it counts as low
 * since the first time. */
void lull_low_interval_lowered(struct lull_low_interval *span, int64_t effect_ns);

/* The clock is high again from effect_ns on. True: while it was low there was a time outside gaps.
 */
bool lull_low_interval_raised(struct lull_low_interval *span, int64_t effect_ns);

#endif
