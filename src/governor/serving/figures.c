/* SPDX-License-Identifier: Apache-2.0 */
#include "governor/serving/figures.h"

#include <math.h>
#include <string.h>

#include "base/clock.h"

static const int64_t slice_ns = 5 * LULL_NS_PER_S;

/* ---- differences ------------------------------------------------------------------------- */

/* Adds the growth of a counter that both readings have. Some servers report a counter only after
 * their first request. */
static void add_growth(double *total, double from, double to)
{
    if (isnan(to - from))
        return;
    if (isnan(*total))
        *total = 0.0;
    *total += fmax(to - from, 0.0);
}

static bool has_same_bounds(const struct lull_serving_histogram *a,
                            const struct lull_serving_histogram *b)
{
    return a->count == b->count &&
           memcmp(a->bound_s, b->bound_s, a->count * sizeof(a->bound_s[0])) == 0;
}

static void begin_histogram(struct lull_serving_histogram *total,
                            const struct lull_serving_histogram *like)
{
    *total = *like;
    memset(total->total, 0, sizeof(total->total));
    total->sum_s = 0.0;
}

/* Other bounds than before: the earlier values cannot be placed in the new buckets. */
static void add_histogram(struct lull_serving_histogram *total,
                          const struct lull_serving_histogram *from,
                          const struct lull_serving_histogram *to)
{
    if (!has_same_bounds(total, to))
        begin_histogram(total, to);
    if (!has_same_bounds(from, to))
        return;
    for (uint32_t i = 0; i < to->count; i++)
        add_growth(&total->total[i], from->total[i], to->total[i]);
    add_growth(&total->sum_s, from->sum_s, to->sum_s);
}

static void figures_begin(struct lull_serving_figures *figures,
                          const struct lull_serving_reading *reading)
{
    begin_histogram(&figures->now.ttft, &reading->ttft);
    begin_histogram(&figures->now.tpot, &reading->tpot);
    figures->begin_j = (double)NAN;
    figures->now.time_ns = reading->time_ns;
    figures->now.energy_j = (double)NAN;
    figures->now.finished = (double)NAN;
    figures->now.output_tokens = (double)NAN;
    figures->now.prompt_tokens = (double)NAN;
    figures->slices[0] = figures->now;
    figures->slice_count = 1;
    figures->has_reading = true;
}

void lull_serving_figures_take(struct lull_serving_figures *figures,
                               const struct lull_serving_reading *reading, double energy_j)
{
    struct lull_serving_totals *const now = &figures->now;
    const struct lull_serving_reading *const last = &figures->last;
    const struct lull_serving_totals *newest;

    if (!figures->has_reading)
        figures_begin(figures, reading);
    else if (!reading->is_restarted) {
        add_growth(&now->finished, last->finished, reading->finished);
        add_growth(&now->output_tokens, last->output_tokens, reading->output_tokens);
        add_growth(&now->prompt_tokens, last->prompt_tokens, reading->prompt_tokens);
        add_histogram(&now->ttft, &last->ttft, &reading->ttft);
        add_histogram(&now->tpot, &last->tpot, &reading->tpot);
    }
    figures->last = *reading;
    now->time_ns = reading->time_ns;
    if (isnan(figures->begin_j))
        figures->begin_j = energy_j;
    now->energy_j = energy_j - figures->begin_j;
    newest = &figures->slices[(figures->slice_count - 1) % LULL_SERVING_SLICES];
    if (now->time_ns - newest->time_ns >= slice_ns)
        figures->slices[figures->slice_count++ % LULL_SERVING_SLICES] = *now;
}

/* ---- results ----------------------------------------------------------------------------- */

/* A counter that was not reported yet has grown from 0. */
static void subtract(double *from, double before)
{
    if (!isnan(before))
        *from -= before;
}

static void subtract_histogram(struct lull_serving_histogram *from,
                               const struct lull_serving_histogram *before)
{
    if (!has_same_bounds(from, before))
        return;
    for (uint32_t i = 0; i < from->count; i++)
        from->total[i] -= before->total[i];
    from->sum_s -= before->sum_s;
}

bool lull_serving_figures_minute(const struct lull_serving_figures *figures,
                                 struct lull_serving_totals *totals_out)
{
    uint32_t oldest = 0;
    const struct lull_serving_totals *before;

    if (!figures->has_reading)
        return false;
    if (figures->slice_count > LULL_SERVING_SLICES)
        oldest = figures->slice_count % LULL_SERVING_SLICES;
    before = &figures->slices[oldest];
    if (before->time_ns >= figures->now.time_ns)
        return false;
    *totals_out = figures->now;
    totals_out->time_ns -= before->time_ns;
    subtract(&totals_out->finished, before->finished);
    subtract(&totals_out->output_tokens, before->output_tokens);
    subtract(&totals_out->prompt_tokens, before->prompt_tokens);
    subtract(&totals_out->energy_j, before->energy_j);
    subtract_histogram(&totals_out->ttft, &before->ttft);
    subtract_histogram(&totals_out->tpot, &before->tpot);
    return true;
}

double lull_serving_quantile_s(const struct lull_serving_histogram *histogram, double p)
{
    const double all = histogram->count > 0 ? histogram->total[histogram->count - 1] : 0.0;
    const double rank = p * all;
    double low_s = 0.0;
    double below = 0.0;

    if (!(all > 0.0) || histogram->is_upper)
        return (double)NAN;
    /* vLLM counts the TPOT of a request with a single token as 0: a prefill pool has none. */
    if (histogram->sum_s <= 0.0 && histogram->total[0] >= all)
        return (double)NAN;
    for (uint32_t i = 0; i < histogram->count; i++) {
        const double inside = histogram->total[i] - below;

        if (histogram->total[i] >= rank && inside > 0.0) {
            if (!isfinite(histogram->bound_s[i]))
                return (double)NAN;
            return low_s + (histogram->bound_s[i] - low_s) * (rank - below) / inside;
        }
        low_s = histogram->bound_s[i];
        below = histogram->total[i];
    }
    return (double)NAN;
}
