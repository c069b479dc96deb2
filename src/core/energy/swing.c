/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/swing.h"

#include <assert.h>
#include <math.h>

static const double pi = 3.14159265358979323846;

/* A difference counts from so many of its standard errors on: about 95 %. */
static const double min_errors = 2.0;

static double swing_mean_of(const double *values, uint32_t count)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < count; i++)
        sum += values[i];
    return sum / count;
}

/* Returns the square of the k-th coefficient of the transform (Goertzel 1958). */
static double coefficient_square(const double *values, uint32_t count, double mean, uint32_t k)
{
    const double turn = 2.0 * cos(2.0 * pi * k / count);
    double before = 0.0;
    double last = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        const double next = values[i] - mean + turn * last - before;

        before = last;
        last = next;
    }
    return last * last + before * before - turn * last * before;
}

double lull_swing_band_w(const double *powers_w, uint32_t count, double step_s, double lowest_hz,
                         double highest_hz)
{
    double sum = 0.0;
    double mean;

    assert(count >= 2 && step_s > 0.0);
    mean = swing_mean_of(powers_w, count);
    for (uint32_t k = 1; k <= count / 2; k++) {
        const double frequency_hz = k / (count * step_s);
        /* Each frequency represents its negative as well, but for the highest, which is its own. */
        const double twins = 2 * k == count ? 1.0 : 2.0;

        if (frequency_hz >= lowest_hz && frequency_hz <= highest_hz)
            sum += twins * coefficient_square(powers_w, count, mean, k);
    }
    return sqrt(fmax(sum, 0.0)) / count;
}

void lull_swing_add(struct lull_swing *swing, const double *powers_w, uint32_t count, double step_s)
{
    double min_w = INFINITY;
    double most_w = -INFINITY;

    assert(count >= 2 && step_s > 0.0);
    for (uint32_t i = 0; i < count; i++) {
        if (!isfinite(powers_w[i]))
            return;
        min_w = fmin(min_w, powers_w[i]);
        most_w = fmax(most_w, powers_w[i]);
    }
    lull_moments_add(&swing->mean_w, swing_mean_of(powers_w, count));
    lull_moments_add(&swing->peak_to_peak_w, most_w - min_w);
    lull_moments_add(
        &swing->band_w,
        lull_swing_band_w(powers_w, count, step_s, LULL_SWING_LOWEST_HZ, LULL_SWING_HIGHEST_HZ));
}

static bool is_more(const struct lull_moments *values, const struct lull_moments *reference,
                    double allowed_ratio)
{
    const double allowed = reference->mean * (1.0 + allowed_ratio);
    const double error = sqrt(lull_moments_variance(values) / (double)values->count +
                              lull_moments_variance(reference) * pow(1.0 + allowed_ratio, 2.0) /
                                  (double)reference->count);

    return values->mean - allowed > min_errors * error;
}

bool lull_swing_is_wider(const struct lull_swing *swing, const struct lull_swing *reference,
                         double allowed_ratio)
{
    assert(allowed_ratio >= 0.0);
    if (swing->mean_w.count < LULL_SWING_MIN_PIECES ||
        reference->mean_w.count < LULL_SWING_MIN_PIECES)
        return false;
    return is_more(&swing->peak_to_peak_w, &reference->peak_to_peak_w, allowed_ratio) ||
           is_more(&swing->band_w, &reference->band_w, allowed_ratio);
}
