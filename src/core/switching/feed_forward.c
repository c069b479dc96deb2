/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/feed_forward.h"

#include <assert.h>

#include "base/clock.h"

/* A lowered clock is undone by the device's writer this long after its raising was due. */
static const double overdue_ms = 250.0;
/* A lowering ahead of its section is undone this long after the typical begin. */
static const double patience_ms = 2.0;
/* Each switch counts a quarter more than it takes. */
static const double break_even_margin = 1.25;

static int64_t after_ms(int64_t from_ns, double ms)
{
    return from_ns + lull_ns_from_ms(ms);
}

void lull_feed_forward_init(struct lull_feed_forward *feed)
{
    *feed = (struct lull_feed_forward){
        .lower_at_ns = INT64_MAX, .raise_at_ns = INT64_MAX, .raise_by_ns = INT64_MAX};
}

double lull_forecast_break_even_ms(double down_ms, double lead_ms)
{
    return break_even_margin * (down_ms + lead_ms);
}

bool lull_forecast_pays(const struct lull_forecast *forecast)
{
    return forecast->length_ms > forecast->min_ms;
}

/* Sets until when the lowering of a section that begins at begin_ns is worth serving; returns when
 * the section must be raised. */
static int64_t set_deadline(struct lull_feed_forward *feed, int64_t begin_ns,
                            const struct lull_forecast *forecast)
{
    const int64_t raise_at_ns = after_ms(begin_ns, forecast->length_ms - forecast->lead_ms);

    feed->raise_by_ns = raise_at_ns;
    feed->deadline_ns = after_ms(raise_at_ns, -forecast->serve_ms);
    feed->valid_until_ns = after_ms(raise_at_ns, overdue_ms);
    return raise_at_ns;
}

bool lull_feed_forward_raise(struct lull_feed_forward *feed)
{
    bool low = feed->requested != 0;

    feed->requested = 0;
    feed->lower_at_ns = INT64_MAX;
    feed->raise_at_ns = INT64_MAX;
    feed->raise_by_ns = INT64_MAX;
    return low;
}

bool lull_feed_forward_begin(struct lull_feed_forward *feed, int64_t now_ns, uint32_t point,
                             const struct lull_forecast *forecast)
{
    if (point == 0)
        return lull_feed_forward_raise(feed);
    feed->lower_at_ns = INT64_MAX;
    feed->raise_at_ns = set_deadline(feed, now_ns, forecast);
    if (feed->requested == point)
        return false;
    feed->requested = point;
    return true;
}

void lull_feed_forward_plan(struct lull_feed_forward *feed, int64_t now_ns, uint32_t point,
                            const struct lull_forecast *forecast)
{
    feed->lower_at_ns = INT64_MAX;
    feed->raise_at_ns = set_deadline(feed, now_ns, forecast);
    if (feed->requested == point)
        return;
    feed->lower_at_ns = now_ns;
    feed->ahead_point = point;
}

bool lull_feed_forward_end(struct lull_feed_forward *feed, int64_t now_ns, uint32_t next_point,
                           const struct lull_forecast *next)
{
    bool raise = lull_feed_forward_raise(feed);
    /* A raising ahead of this end has taken effect by now and needs no more time. */
    const double raising_ms = raise ? next->lead_ms : 0.0;

    /* Too near to be both raised for the computation and lowered ahead of the section... */
    if (next_point == 0 || next->gap_low_ms <= next->ahead_ms + raising_ms)
        return raise;
    /* ...or too uncertain: the computation would run low while the section is waited for. */
    if (next->gap_high_ms - next->gap_low_ms > next->ahead_ms)
        return raise;
    feed->ahead_point = next_point;
    feed->lower_at_ns = after_ms(now_ns, next->gap_low_ms - next->ahead_ms);
    set_deadline(feed, after_ms(now_ns, next->gap_high_ms), next);
    /* If the section does not come, the lowering is undone at this time. */
    feed->raise_at_ns = after_ms(now_ns, next->gap_high_ms + patience_ms);
    return raise;
}

void lull_feed_forward_lower(struct lull_feed_forward *feed)
{
    assert(feed->ahead_point != 0);
    feed->lower_at_ns = INT64_MAX;
    feed->requested = feed->ahead_point;
}

bool lull_feed_forward_poll(struct lull_feed_forward *feed, int64_t now_ns)
{
    if (now_ns >= feed->raise_at_ns)
        return lull_feed_forward_raise(feed);
    if (now_ns < feed->lower_at_ns)
        return false;
    lull_feed_forward_lower(feed);
    return true;
}

int64_t lull_feed_forward_wake_ns(const struct lull_feed_forward *feed)
{
    return lull_earlier_ns(feed->lower_at_ns, feed->raise_at_ns);
}
