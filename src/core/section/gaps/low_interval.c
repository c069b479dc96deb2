/* SPDX-License-Identifier: Apache-2.0 */
#include "core/section/gaps/low_interval.h"

#include <assert.h>

void lull_low_interval_gap_begins(struct lull_low_interval *span, int64_t time_ns)
{
    const uint32_t slot = span->gap_count++ % LULL_LOW_SPAN_GAPS;

    span->gaps[slot].begin_ns = time_ns;
    span->gaps[slot].end_ns = INT64_MAX;
}

void lull_low_interval_gap_ends(struct lull_low_interval *span, int64_t time_ns)
{
    if (span->gap_count == 0)
        return;
    if (span->gaps[(span->gap_count - 1) % LULL_LOW_SPAN_GAPS].end_ns == INT64_MAX)
        span->gaps[(span->gap_count - 1) % LULL_LOW_SPAN_GAPS].end_ns = time_ns;
}

void lull_low_interval_lowered(struct lull_low_interval *span, int64_t effect_ns)
{
    if (!span->is_low)
        span->from_ns = effect_ns;
    span->is_low = true;
}

bool lull_low_interval_raised(struct lull_low_interval *span, int64_t effect_ns)
{
    if (!span->is_low)
        return false;
    span->is_low = false;
    if (effect_ns <= span->from_ns)
        return false;
    assert(!span->is_low && effect_ns > span->from_ns);
    for (uint32_t i = 0; i < span->gap_count && i < LULL_LOW_SPAN_GAPS; i++)
        if (span->gaps[i].begin_ns <= span->from_ns && effect_ns <= span->gaps[i].end_ns)
            return false;
    return true;
}
