/*
 * Energies of power logs against integrals by brute force: power curves on a grid of 1 ms, read
 * through a sensor that averages and refreshes, and logged at intervals with gaps; and counters
 * that wrap, hang or are missing. `test_log_energy report` prints coverage and widths.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/energy/log_energy.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../property.h"

enum { GRID_MS = 400000, CASES = 200, MAX_READINGS = GRID_MS / 100 };

static const int64_t ms = 1000000;
static bool is_report;

/* energy_j[i]: drawn before millisecond i. */
static double energy_j[GRID_MS + 1];
static struct lull_energy_reading readings[MAX_READINGS];

static double between(struct lull_random *random, double low, double high)
{
    return low + (high - low) * lull_random_uniform(random);
}

/* Power held for random lengths, or going up and down with a period. */
static void draw_curve(struct lull_random *random)
{
    const bool is_periodic = lull_random_below(random, 2) == 0;
    const double period_ms = exp(between(random, log(50.0), log(60000.0)));
    double left_ms = 0.0;
    double power_w = 0.0;

    for (int i = 0; i < GRID_MS; i++, left_ms--) {
        if (is_periodic) {
            power_w = fmod(i, period_ms) < 0.7 * period_ms ? 350.0 : 120.0;
        } else if (left_ms <= 0.0) {
            left_ms = exp(between(random, log(20.0), log(30000.0)));
            power_w = between(random, 60.0, 400.0);
        }
        energy_j[i + 1] = energy_j[i] + power_w * 1e-3;
    }
}

/* Returns the reading of the sensor at a time: the mean over window_ms up to its last refresh. */
static double sensed_w(int at_ms, int window_ms)
{
    const int to_ms = at_ms / 100 * 100;

    return (energy_j[to_ms] - energy_j[to_ms - window_ms]) / ((double)window_ms * 1e-3);
}

/* Logs every period_ms, give or take a tenth, but for one gap. Returns how many readings. */
static size_t log_power(struct lull_random *random, int period_ms, int gap_ms, double *gap_j)
{
    const int gap_at_ms = (int)between(random, GRID_MS / 4.0, GRID_MS / 2.0);
    const int window_ms = lull_random_below(random, 2) == 0 ? 100 : 1000;
    bool has_gap = false;
    size_t count = 0;

    *gap_j = 0.0;
    for (int at_ms = 2000; at_ms < GRID_MS - 2000;) {
        readings[count++] = (struct lull_energy_reading){
            .time_ns = at_ms * ms, .has_power = true, .power_w = sensed_w(at_ms, window_ms)};
        if (gap_ms > 0 && !has_gap && at_ms >= gap_at_ms) {
            *gap_j = energy_j[at_ms + gap_ms] - energy_j[at_ms];
            at_ms += gap_ms;
            has_gap = true;
            continue;
        }
        at_ms += period_ms + (int)between(random, -0.1 * period_ms, 0.1 * period_ms);
    }
    return count;
}

static const struct lull_energy_source source = {.counter_refresh_s = 0.1,
                                                 .power_refresh_s = 0.1,
                                                 .power_window_s = 1.0,
                                                 .lowest_w = 2.0,
                                                 .highest_w = 600.0};

static double truth_of(const struct lull_log_energy *energy)
{
    return energy_j[energy->end_ns / ms] - energy_j[energy->begin_ns / ms];
}

/* A gap is left out and said; intervals hold 95 of 100 truths, and are of some use. */
static void test_power_against_brute_force(void **state)
{
    static const int periods_ms[] = {100, 500, 1000, 5000};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 20240502);
    for (size_t p = 0; p < sizeof(periods_ms) / sizeof(periods_ms[0]); p++) {
        double width = 0.0;
        double error = 0.0;
        int inside = 0;

        for (int i = 0; i < CASES; i++) {
            const int gap_ms = i % 2 == 0 ? 60000 : 0;
            struct lull_log_energy energy;
            double gap_j;
            size_t count;
            double truth_j;

            draw_curve(&random);
            count = log_power(&random, periods_ms[p], gap_ms, &gap_j);
            assert_int_equal(
                lull_log_energy(&source, readings, count, INT64_MIN, INT64_MAX, &energy), 0);
            assert_null(energy.reason);
            assert_false(energy.has_counter);
            assert_int_equal(energy.gaps, gap_ms > 0);
            assert_true(fabs(energy.gap_s - gap_ms * 1e-3) < 1e-6);
            truth_j = truth_of(&energy) - gap_j;
            inside += fabs(energy.joules - truth_j) <= energy.uncertainty_j;
            width += energy.uncertainty_j / truth_j / CASES;
            error += fabs(energy.joules - truth_j) / truth_j / CASES;
        }
        if (is_report)
            printf("every %d ms: %d of %d inside, +- %.2f %%, mean error %.2f %%\n", periods_ms[p],
                   inside, CASES, 100.0 * width, 100.0 * error);
        assert_true(inside >= 95 * CASES / 100);
        assert_true(width < 0.15);
    }
}

/* A counter counts through gaps, and from its first reading on. */
static void test_counter(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 7);
    for (int i = 0; i < 50; i++) {
        struct lull_log_energy energy;
        double gap_j;
        size_t count;

        draw_curve(&random);
        count = log_power(&random, 1000, 60000, &gap_j);
        for (size_t k = 3; k < count; k++) {
            readings[k].has_counter = true;
            readings[k].counter_j = 1e6 + energy_j[readings[k].time_ns / ms / 100 * 100];
        }
        assert_int_equal(lull_log_energy(&source, readings, count, INT64_MIN, INT64_MAX, &energy),
                         0);
        assert_true(energy.has_counter && energy.gaps == 0 && energy.resets == 0);
        assert_int_equal(energy.begin_ns, readings[3].time_ns);
        assert_true(fabs(energy.joules - truth_of(&energy)) <= energy.uncertainty_j);
        assert_true(energy.uncertainty_j < 0.01 * energy.joules);
    }
}

static void test_counter_that_wraps_or_stands_still(void **state)
{
    struct lull_log_energy energy;

    (void)state;
    for (int is_still = 0; is_still < 2; is_still++) {
        for (size_t k = 0; k < 100; k++) {
            readings[k] = (struct lull_energy_reading){.time_ns = (int64_t)k * 1000 * ms,
                                                       .has_counter = true,
                                                       .has_power = true,
                                                       .power_w = 100.0};
            readings[k].counter_j = is_still != 0 ? 50.0 : fmod(100.0 * (double)k, 5000.0);
        }
        assert_int_equal(lull_log_energy(&source, readings, 100, INT64_MIN, INT64_MAX, &energy), 0);
        assert_null(energy.reason);
        assert_true(fabs(energy.joules - 9900.0) <= energy.uncertainty_j);
        assert_true(energy.estimated_s > 0.0);
        assert_int_equal(energy.resets, is_still != 0 ? 0 : 1);
    }
}

static void test_windows_and_reasons(void **state)
{
    struct lull_log_energy energy;

    (void)state;
    for (size_t k = 0; k < 100; k++)
        readings[k] = (struct lull_energy_reading){
            .time_ns = (int64_t)k * 1000 * ms, .has_power = true, .power_w = 100.0};
    assert_int_equal(lull_log_energy(&source, readings, 100, 10000 * ms, 20000 * ms, &energy), 0);
    assert_true(fabs(energy.joules - 1000.0) < 1e-6 && energy.covered_s == 10.0);
    assert_int_equal(lull_log_energy(&source, readings, 0, INT64_MIN, INT64_MAX, &energy), 0);
    assert_true(energy.reason != NULL && isnan(energy.joules));
    assert_int_equal(lull_log_energy(&source, readings, 100, 500 * ms, 1500 * ms, &energy), 0);
    assert_string_equal(energy.reason, "it has a single reading");
    for (size_t k = 0; k < 100; k++)
        readings[k].power_w = 0.0;
    assert_int_equal(lull_log_energy(&source, readings, 100, INT64_MIN, INT64_MAX, &energy), 0);
    assert_true(energy.reason != NULL && isnan(energy.joules));
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_against_brute_force),
        cmocka_unit_test(test_counter),
        cmocka_unit_test(test_counter_that_wraps_or_stands_still),
        cmocka_unit_test(test_windows_and_reasons),
    };

    is_report = argc > 1 && strcmp(argv[1], "report") == 0;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
