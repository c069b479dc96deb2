/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/strobe.h"

#include <math.h>

/* Harmonics of the refresh that are evaluated. The averaging windows of the known sensors are a
 * quarter and a half of the period. They suppress the fourth harmonic fully and later ones almost
 * fully. */
enum { HARMONICS = 4 };
/* Largest relative deviation of a sensor's period from the known one. Measured: 100 ms and 101.2 +-
 * 0.6 ms on A100s. */
static const double period_ratio = 0.02;
/* Periods are tried so densely that the last iteration moves by this share of a period from one to
 * the next. */
static const double turn_per_trial = 0.125;
/* The longest stretch of a run that is evaluated: the work grows with its square. */
static const int64_t longest_ns = INT64_C(600000000000);
/* One sensor misplaces both edges of a section, so their errors are correlated: the variance of
 * their difference is at most 1.5 times the sum of their variances (sawteeth half a period apart).
 */
static const double variance_per_section = 3.0;

/* A sensor in step with the iterations samples each at the same place, so it may read one
 * level in one run and the other level in the next. The runs then differ by the whole
 * swing, which half the interval of two such runs must cover: 2 sqrt(2) times this is
 * 1.13. */
static const double max_overlooked = 0.4;
/* A GPU that waits for others draws 20 to 35 % of what it draws while it computes (A100, V100). */
static const double known_drop_ratio = 0.8;
/* Levels of which one lasts less than this share of the time cannot be distinguished from their
 * scatter. */
static const double min_share = 0.1;

static const double pi = 3.14159265358979323846;

void lull_energy_strobe_add(struct lull_energy_strobe *strobe, int64_t begin_ns)
{
    if (strobe->count == LULL_ENERGY_STROBE_KEPT ||
        (strobe->count > 0 && begin_ns - strobe->begins_ns[0] > longest_ns))
        return;
    strobe->begins_ns[strobe->count++] = begin_ns;
}

static double strobe_square(double value)
{
    return value * value;
}

static double strobe_sinc(double turns)
{
    if (turns == 0.0)
        return 1.0;
    return sin(pi * turns) / (pi * turns);
}

/* The phase of a begin in the sensor's period, as a unit vector,
 * and the vector's rotation from one tried period to the next. */
struct hand {
    double x;
    double y;
    double step_x;
    double step_y;
};

static void set_hands(const struct lull_energy_strobe *strobe, double first_hz, double step_hz,
                      struct hand *hands)
{
    for (uint32_t i = 0; i < strobe->count; i++) {
        const double at_s = (double)(strobe->begins_ns[i] - strobe->begins_ns[0]) * 1e-9;
        const double angle = 2.0 * pi * at_s * first_hz;
        const double step = 2.0 * pi * at_s * step_hz;

        hands[i] = (struct hand){cos(angle), sin(angle), cos(step), sin(step)};
    }
}

static void move_hands(struct hand *hands, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const double x = hands[i].x;

        hands[i].x = x * hands[i].step_x - hands[i].y * hands[i].step_y;
        hands[i].y = x * hands[i].step_y + hands[i].y * hands[i].step_x;
    }
}

/* The variance of an edge, s^2, if the sensor looks at the power for window_s at this rate. */
static double strobe_edge_variance(const struct hand *hands, uint32_t count, double hz,
                                   double window_s)
{
    double sum_x[HARMONICS] = {0.0};
    double sum_y[HARMONICS] = {0.0};
    double variance = 0.0;

    for (uint32_t i = 0; i < count; i++) {
        double x = hands[i].x;
        double y = hands[i].y;

        for (int m = 0; m < HARMONICS; m++) {
            const double before = x;

            sum_x[m] += x;
            sum_y[m] += y;
            x = before * hands[i].x - y * hands[i].y;
            y = before * hands[i].y + y * hands[i].x;
        }
    }
    for (int m = 0; m < HARMONICS; m++)
        variance += strobe_square(strobe_sinc((m + 1) * window_s * hz) / (m + 1)) *
                    (strobe_square(sum_x[m]) + strobe_square(sum_y[m])) /
                    strobe_square((double)count);
    return variance / (2.0 * strobe_square(pi * hz));
}

double lull_energy_strobe_edge_s(const struct lull_energy_strobe *strobe,
                                 const struct lull_energy_source *source)
{
    const double period_s = source->power_refresh_s;
    const double lowest_hz = 1.0 / (period_s * (1.0 + period_ratio));
    const double highest_hz = 1.0 / (period_s * (1.0 - period_ratio));
    struct hand hands[LULL_ENERGY_STROBE_KEPT];
    double largest = 0.0;
    double span_s;
    double step_hz;
    uint32_t trials;

    if (strobe->count == 0 || source->power_window_s >= period_s)
        return 0.0;
    span_s = (double)(strobe->begins_ns[strobe->count - 1] - strobe->begins_ns[0]) * 1e-9;
    step_hz = turn_per_trial / fmax(span_s, period_s);
    set_hands(strobe, lowest_hz, step_hz, hands);
    trials = (uint32_t)ceil((highest_hz - lowest_hz) / step_hz) + 1;
    for (uint32_t i = 0; i < trials; i++) {
        largest = fmax(largest, strobe_edge_variance(hands, strobe->count, lowest_hz + i * step_hz,
                                                     source->power_window_s));
        move_hands(hands, strobe->count);
    }
    return sqrt(largest);
}

double lull_energy_strobe_swing_ratio(const struct lull_moments *readings_w, double low_share)
{
    const double share = fmin(1.0 - min_share, fmax(min_share, low_share));
    double seen = 0.0;

    if (readings_w->mean > 0.0)
        seen = sqrt(lull_moments_variance(readings_w)) / readings_w->mean;
    if (low_share <= 0.0)
        return 2.0 * seen; /* the least that two levels with this scatter can be apart */
    return fmax(seen / sqrt(share * (1.0 - share)),
                known_drop_ratio / (1.0 - known_drop_ratio * share));
}

double lull_energy_strobe_ratio(double edge_s, const struct lull_energy_waveform *waveform)
{
    const double share = edge_s / waveform->iteration_s;

    return waveform->swing_ratio *
           fmin(max_overlooked, share * sqrt(variance_per_section * waveform->sections));
}
