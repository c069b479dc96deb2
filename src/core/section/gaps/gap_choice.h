/*
 * Chooses the gaps of an iteration to switch, if kernels may start at a low clock only in a given
 * share of iterations.
 *
 * A gap of length l is low for l - lead + ahead on average, since lowering and raising take equally
 * long. The permitted late share is divided equally among the raisings, which minimises the sum of
 * leads because the tail of latencies is about exponential. Each further gap makes every lead
 * longer. So the longest k gaps are switched, with the k that gives the longest total time at the
 * low clock.
 *
 * Pure. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SECTION_GAPS_GAP_CHOICE_H
#define LULL_CORE_SECTION_GAPS_GAP_CHOICE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/switching/switch_cost.h"

/* The requirements of switching a gap if a given share of the switches may be late; all in ms. */
struct lull_gap_need {
    double ahead_ms;       /* a lowering requested this long before the gap's begin is not early */
    double lead_ms;        /* a raising requested this long before its end is not late */
    double ahead_scale_ms; /* requested later by this much, e times fewer lowerings are early */
    double lead_scale_ms;  /* requested sooner by this much, e times fewer raisings are late */
    double call_ms;        /* most raising calls take no longer; each waits for its lowering's */
    double min_ms;         /* minimum length that can save anything */
};

void lull_gap_need_find(const struct lull_switch_cost *cost, double late_share,
                        struct lull_gap_need *need_out);

/*
 * Returns how many of the longest gaps to switch, at most `most`. late_share: the share of passes
 * in which a gap may be late, in (0, 1). lengths_ms is in descending order. O(count).
 */
uint32_t lull_gap_choose(const double *lengths_ms, uint32_t count, uint32_t most,
                         const struct lull_switch_cost *cost, double late_share);

/* ---- whether a GPU was low outside its gaps ------------------------------------------------ */

/*
 * Records whether a GPU was low outside the gaps that were switched for it. The outcome of a change
 * is reported late, even after the gap has ended. It is therefore judged by the times of the
 * events, not by the order of the reports.
 *
 * Pure; caller's storage; zero-initialised knows nothing. Times are ns of one clock.
 */

/* Number of gaps kept: an outcome is reported before this many more have started. */
enum { LULL_LOW_INTERVAL_GAPS = 4 };

struct lull_low_interval {
    struct {
        int64_t begin_ns;
        int64_t end_ns; /* INT64_MAX: it has not ended */
    } gaps[LULL_LOW_INTERVAL_GAPS];
    uint32_t gap_count; /* of all gaps so far */
    int64_t from_ns;    /* time since which the clock is low, if it is */
    bool is_low;
};

/* A gap in which the clock is to be low begins; ends. An end without a start is ignored. */
void lull_low_interval_gap_begins(struct lull_low_interval *low, int64_t time_ns);
void lull_low_interval_gap_ends(struct lull_low_interval *low, int64_t time_ns);

/* The clock is low from effect_ns on, which may be in the future. If it was low already, it counts
 * as low since the first time. */
void lull_low_interval_lowered(struct lull_low_interval *low, int64_t effect_ns);

/* The clock is high again from effect_ns on. Returns whether it was low at any time outside gaps.
 */
bool lull_low_interval_raised(struct lull_low_interval *low, int64_t effect_ns);

#endif
