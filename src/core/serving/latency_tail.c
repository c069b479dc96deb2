/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/latency_tail.h"

#include <assert.h>
#include <math.h>
#include <stdint.h>

/* Bins of one octave, and the first bin's lower bound as an exponent of two: ratios from 1/16 to
 * 256 are distinguished. Default: a bin is a ninth wide, about one step of clocks. */
static const double octave_bins = 8.0;
static const double first_octave = -4.0;
/* What is assumed before the first latency: so many of them, of which the share x^-tail_power
 * exceeds x times the prediction. Default: more of them delay the first lowering, fewer make it
 * depend on the first few requests. Mean prompts differ from long ones by a factor of 4, which one
 * in 250 exceeds then. */
static const double assumed_count = 2.0;
static const double tail_power = 4.0;
/* Latencies that count: a rare one is forgotten after so many. Default: a tail of 1 in 1000 needs
 * several thousand; load that changes over hours needs fewer. */
static const double memory = 4000.0;

/* The lower bound of a bin. */
static double latency_tail_edge(double bin)
{
    return exp2(first_octave + bin / octave_bins);
}

static void latency_tail_sum(struct lull_latency_tail *tail)
{
    double all = 0.0;

    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++)
        all += tail->weight[i];
    tail->above[LULL_LATENCY_BINS] = 0.0;
    tail->excess[LULL_LATENCY_BINS] = 0.0;
    for (uint32_t i = LULL_LATENCY_BINS; i-- > 0;) {
        const double width = latency_tail_edge(i + 1.0) - latency_tail_edge(i);
        const double share = tail->weight[i] / all;

        tail->above[i] = tail->above[i + 1] + share;
        tail->excess[i] = tail->excess[i + 1] + tail->above[i + 1] * width + share * width / 2.0;
    }
}

void lull_latency_tail_init(struct lull_latency_tail *tail)
{
    double above = 1.0;

    *tail = (struct lull_latency_tail){0};
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        const double upper = latency_tail_edge(i + 1.0);
        const double beyond = upper > 1.0 ? pow(upper, -tail_power) : 1.0 - upper / 2.0;

        tail->weight[i] = assumed_count * fmax(above - beyond, 1e-9);
        above = fmin(above, beyond);
    }
    latency_tail_sum(tail);
}

/* The place of a ratio on the bins; the whole part is the bin. */
static double latency_tail_place(double ratio)
{
    if (ratio <= 0.0)
        return 0.0;
    return fmin(fmax((log2(ratio) - first_octave) * octave_bins, 0.0), LULL_LATENCY_BINS);
}

/* How much of a bin lies between two places. */
static double latency_tail_overlap(uint32_t bin, double from, double to)
{
    return fmax(fmin(to, bin + 1.0) - fmax(from, bin), 0.0);
}

void lull_latency_tail_add(struct lull_latency_tail *tail, double low, double high, double count)
{
    double from = latency_tail_place(low);
    double to = latency_tail_place(high);
    double inside = 0.0;
    double all = 0.0;

    assert(count > 0.0 && low <= high);
    from = fmin(from, LULL_LATENCY_BINS - 1.0);
    to = fmax(to, from + 1e-3);
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        inside += tail->weight[i] * latency_tail_overlap(i, from, to);
        all += tail->weight[i];
    }
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        tail->weight[i] += count * tail->weight[i] * latency_tail_overlap(i, from, to) / inside;
        if (all + count > memory)
            tail->weight[i] *= memory / (all + count);
        tail->weight[i] = fmax(tail->weight[i], 1e-9);
    }
    tail->count += count;
    latency_tail_sum(tail);
}

/* A value between those at the lower bounds of bins. */
static double latency_tail_between(const double *values, double ratio)
{
    const double place = latency_tail_place(ratio);
    const uint32_t bin = place < LULL_LATENCY_BINS ? (uint32_t)place : LULL_LATENCY_BINS - 1;

    return values[bin] + (values[bin + 1] - values[bin]) * (place - bin);
}

double lull_latency_tail_above(const struct lull_latency_tail *tail, double ratio)
{
    return latency_tail_between(tail->above, ratio);
}

double lull_latency_tail_excess(const struct lull_latency_tail *tail, double ratio)
{
    return latency_tail_between(tail->excess, ratio);
}

double lull_latency_tail_quantile(const struct lull_latency_tail *tail, double share)
{
    uint32_t bin = LULL_LATENCY_BINS - 1;

    while (bin > 0 && tail->above[bin] < share)
        bin--;
    return latency_tail_edge(bin + (tail->above[bin] - share) /
                                       (tail->above[bin] - tail->above[bin + 1]));
}
