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

void lull_latency_tail_init(struct lull_latency_tail *tail)
{
    double above = 1.0;

    *tail = (struct lull_latency_tail){0};
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        const double upper = exp2(first_octave + (i + 1) / octave_bins);
        const double beyond = upper > 1.0 ? pow(upper, -tail_power) : 1.0 - upper / 2.0;

        tail->share[i] = assumed_count * fmax(above - beyond, 1e-9);
        above = fmin(above, beyond);
    }
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

    assert(count > 0.0 && low < high);
    from = fmin(from, LULL_LATENCY_BINS - 1.0);
    to = fmax(to, from + 1e-3);
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        inside += tail->share[i] * latency_tail_overlap(i, from, to);
        all += tail->share[i];
    }
    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        tail->share[i] += count * tail->share[i] * latency_tail_overlap(i, from, to) / inside;
        if (all + count > memory)
            tail->share[i] *= memory / (all + count);
        tail->share[i] = fmax(tail->share[i], 1e-9);
    }
    tail->count += count;
}

double lull_latency_tail_above(const struct lull_latency_tail *tail, double ratio)
{
    const double from = latency_tail_place(ratio);
    double above = 0.0;
    double all = 0.0;

    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++) {
        above += tail->share[i] * latency_tail_overlap(i, from, LULL_LATENCY_BINS);
        all += tail->share[i];
    }
    return above / all;
}

double lull_latency_tail_quantile(const struct lull_latency_tail *tail, double share)
{
    double all = 0.0;
    double above = 0.0;

    for (uint32_t i = 0; i < LULL_LATENCY_BINS; i++)
        all += tail->share[i];
    for (uint32_t i = LULL_LATENCY_BINS; i-- > 0;) {
        if (above + tail->share[i] >= share * all)
            return exp2(first_octave +
                        (i + (above + tail->share[i] - share * all) / tail->share[i]) /
                            octave_bins);
        above += tail->share[i];
    }
    return exp2(first_octave);
}
