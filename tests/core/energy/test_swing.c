/*
 * Swings: the band against the definition of the transform, and properties of any series.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/swing.h"

#include "../property.h"

enum { MAX = 120, CASES = 300 };

static const double pi = 3.14159265358979323846;

struct series {
    double values[MAX];
    uint32_t count;
    double step_s;
};

static struct series draw(uint64_t seed)
{
    struct lull_random random;
    struct series series;

    lull_random_init(&random, seed);
    series.count = 2 + (uint32_t)(lull_random_uniform(&random) * (MAX - 1));
    series.step_s = 0.01 + 0.2 * lull_random_uniform(&random);
    for (uint32_t i = 0; i < series.count; i++)
        series.values[i] = 300.0 + 100.0 * sin(0.7 * i) + 50.0 * lull_random_uniform(&random);
    return series;
}

/* Sums both sides of the spectrum, by the definition. */
static double brute_force_w(const struct series *series, double lowest_hz, double highest_hz)
{
    const double length_s = series->count * series->step_s;
    double sum = 0.0;

    for (uint32_t k = 1; k < series->count; k++) {
        const double frequency_hz =
            (2 * k <= series->count ? (double)k : (double)(series->count - k)) / length_s;
        double re = 0.0;
        double im = 0.0;

        if (frequency_hz < lowest_hz || frequency_hz > highest_hz)
            continue;
        for (uint32_t i = 0; i < series->count; i++) {
            re += series->values[i] * cos(2.0 * pi * k * i / series->count);
            im += series->values[i] * sin(2.0 * pi * k * i / series->count);
        }
        sum += re * re + im * im;
    }
    return sqrt(sum) / series->count;
}

static double deviation_w(const struct series *series)
{
    struct lull_moments moments = {0};

    for (uint32_t i = 0; i < series->count; i++)
        lull_moments_add(&moments, series->values[i]);
    return sqrt(moments.squares / (double)moments.count);
}

static void the_band_is_that_of_the_transform(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= CASES; seed++) {
        const struct series series = draw(seed);
        const double lowest_hz = 0.05 * (double)(seed % 20);
        const double highest_hz = lowest_hz + 0.3 * (double)(seed % 17);
        const double band_w =
            lull_swing_band_w(series.values, series.count, series.step_s, lowest_hz, highest_hz);

        holds(fabs(band_w - brute_force_w(&series, lowest_hz, highest_hz)) < 1e-6, seed);
        /* All frequencies together are the standard deviation (Parseval). */
        holds(fabs(lull_swing_band_w(series.values, series.count, series.step_s, 0.0, 1e9) -
                   deviation_w(&series)) < 1e-6,
              seed);
    }
}

/* A square wave of 100 W around 250 W at 1 Hz, read every 50 ms for 10 s. */
static struct series square_wave(double swing_w)
{
    struct series series = {.count = MAX, .step_s = 0.05};

    for (uint32_t i = 0; i < series.count; i++)
        series.values[i] = 250.0 + (i % 20 < 10 ? swing_w : -swing_w) / 2.0;
    return series;
}

static void a_square_wave_is_seen_as_it_is(void **state)
{
    const struct series series = square_wave(100.0);
    struct lull_swing swing = {0};

    (void)state;
    lull_swing_add(&swing, series.values, series.count, series.step_s);
    assert_near(swing.mean_w.mean, 250.0, 1e-9);
    assert_near(swing.peak_to_peak_w.mean, 100.0, 1e-9);
    /* All of it lies between 0.1 and 10 Hz. */
    assert_near(swing.band_w.mean, 50.0, 1e-6);
    assert_near(lull_swing_band_w(series.values, series.count, series.step_s, 0.9, 1.1),
                50.0 / (10.0 * sin(pi / 20.0)) * sqrt(2.0), 1e-6);
    assert_near(lull_swing_band_w(series.values, series.count, series.step_s, 1.1, 2.9), 0.0, 1e-6);
}

static void what_is_not_finite_is_left_out(void **state)
{
    double values[] = {1.0, NAN, 2.0};
    struct lull_swing swing = {0};

    (void)state;
    lull_swing_add(&swing, values, 3, 0.1);
    assert_int_equal(swing.mean_w.count, 0);
}

static struct lull_swing side_of(double swing_w, double scatter_w, uint32_t pieces)
{
    struct lull_swing swing = {0};

    for (uint32_t i = 0; i < pieces; i++) {
        const struct series series = square_wave(swing_w + (i % 2 == 0 ? scatter_w : -scatter_w));

        lull_swing_add(&swing, series.values, series.count, series.step_s);
    }
    return swing;
}

static void wider_means_by_more_than_is_allowed_and_than_chance(void **state)
{
    const struct lull_swing reference = side_of(100.0, 0.5, 6);
    const struct lull_swing wider = side_of(107.0, 0.5, 6);
    const struct lull_swing as_allowed = side_of(104.0, 0.5, 6);
    const struct lull_swing scattered = side_of(107.0, 20.0, 6);
    const struct lull_swing few = side_of(107.0, 0.5, 2);

    (void)state;
    assert_true(lull_swing_is_wider(&wider, &reference, 0.05));
    assert_false(lull_swing_is_wider(&wider, &reference, 0.1));
    assert_false(lull_swing_is_wider(&as_allowed, &reference, 0.05));
    assert_true(lull_swing_is_wider(&as_allowed, &reference, 0.0));
    assert_false(lull_swing_is_wider(&scattered, &reference, 0.05));
    assert_false(lull_swing_is_wider(&few, &reference, 0.05));
    assert_false(lull_swing_is_wider(&wider, &few, 0.0));
    assert_false(lull_swing_is_wider(&reference, &wider, 0.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_band_is_that_of_the_transform),
        cmocka_unit_test(a_square_wave_is_seen_as_it_is),
        cmocka_unit_test(what_is_not_finite_is_left_out),
        cmocka_unit_test(wider_means_by_more_than_is_allowed_and_than_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
