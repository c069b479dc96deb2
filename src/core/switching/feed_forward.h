/*
 * Feed-forward: the times at which to request a lower clock and the highest clock for one GPU, so
 * that computation never runs at a low clock although the driver is slow.
 *
 * A lowering is requested ahead of the forecast begin by no more than the driver call itself takes:
 * the old clock runs on until the call has returned and settled. A raising is requested ahead of
 * the forecast end by a lead. A wrong forecast is corrected as soon as the calls themselves show
 * it.
 *
 * Pure; caller's storage; all times are ns of one monotonic clock; INT64_MAX is never.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CORE_SWITCHING_FEED_FORWARD_H
#define LULL_CORE_SWITCHING_FEED_FORWARD_H

#include <stdbool.h>
#include <stdint.h>

struct lull_feed_forward {
    uint32_t requested;   /* point last requested; 0: the reference */
    uint32_t ahead_point; /* to request at lower_at_ns */
    int64_t lower_at_ns;
    int64_t raise_at_ns;
    int64_t raise_by_ns; /* time at which to raise the present or next section; INT64_MAX if the GPU
                          * is not low */
    int64_t deadline_ns; /* of the requested lowering: useless if served later */
    int64_t valid_until_ns; /* time at which it is undone if it was not raised */
};

/* Forecast of one section and the cost of switching, all in ms. */
struct lull_forecast {
    double length_ms; /* a length that nearly every occurrence reaches */
    double min_ms;    /* minimum length for which switching pays */
    double
        gap_low_ms; /* shortest typical time from the end of the section before to its start... */
    double gap_high_ms; /* ...and the longest typical one */
    double ahead_ms;    /* time before the start at which a lowering may be requested */
    double lead_ms;     /* time before the end at which a raising must be requested */
    double down_ms;     /* typical time until a lowering has effect */
    double serve_ms;    /* a lowering served later than this before its raising is useless */
};

void lull_feed_forward_init(struct lull_feed_forward *feed);

/*
 * The break-even of a run of calls (design section 4): both switches, each with a margin of a
 * quarter, ms.
 */
double lull_forecast_break_even_ms(double down_ms, double lead_ms);

/* True if a section of this forecast leaves time at the lower point. */
bool lull_forecast_pays(const struct lull_forecast *forecast);

/* The section with this point (0: stay) begins now. True: request feed->requested now. */
bool lull_feed_forward_begin(struct lull_feed_forward *feed, int64_t now_ns, uint32_t point,
                             const struct lull_forecast *forecast);

/*
 * As lull_feed_forward_begin(), but the lowering is only planned, from now_ns on: lower_at_ns and
 * ahead_point say when and which.
 */
void lull_feed_forward_plan(struct lull_feed_forward *feed, int64_t now_ns, uint32_t point,
                            const struct lull_forecast *forecast);

/*
 * A section ends now; the next one has this point (0: stay) and forecast. True: request
 * feed->requested now.
 */
bool lull_feed_forward_end(struct lull_feed_forward *feed, int64_t now_ns, uint32_t next_point,
                           const struct lull_forecast *next);

/* Time passes. True: request feed->requested now. */
bool lull_feed_forward_poll(struct lull_feed_forward *feed, int64_t now_ns);

/* Returns to the reference in any state. True: request that now. */
bool lull_feed_forward_raise(struct lull_feed_forward *feed);

/* Requests the planned lowering: the caller posts feed->requested. */
void lull_feed_forward_lower(struct lull_feed_forward *feed);

/* The next time at which lull_feed_forward_poll() may return true; INT64_MAX: never. */
int64_t lull_feed_forward_wake_ns(const struct lull_feed_forward *feed);

#endif
