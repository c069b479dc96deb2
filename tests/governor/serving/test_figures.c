/* Totals of a server's metrics: restarts, counters that appear late, other buckets, the last
 * minute, and quantiles. SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/serving/figures.h"

/* A reading with that many finished requests, each of 10 tokens, half of them in each bucket. */
static struct lull_serving_reading make_reading(double seconds, double finished)
{
    struct lull_serving_reading reading = {
        .time_ns = (int64_t)(seconds * 1e9),
        .finished = finished,
        .output_tokens = 10.0 * finished,
        .prompt_tokens = NAN,
        .ttft = {.count = 3,
                 .bound_s = {0.1, 0.2, INFINITY},
                 .total = {finished / 2.0, finished, finished},
                 .sum_s = 0.1 * finished},
    };

    return reading;
}

static void test_totals_and_restarts(void **state)
{
    struct lull_serving_figures figures = {0};
    struct lull_serving_reading reading = make_reading(0.0, 1000.0);
    struct lull_serving_totals minute;

    (void)state;
    assert_false(lull_serving_figures_minute(&figures, &minute));
    lull_serving_figures_take(&figures, &reading, NAN);
    assert_false(lull_serving_figures_minute(&figures, &minute));
    reading = make_reading(1.0, 1010.0);
    lull_serving_figures_take(&figures, &reading, 100.0);
    assert_float_equal(figures.now.finished, 10.0, 1e-9);
    assert_float_equal(figures.now.output_tokens, 100.0, 1e-9);
    assert_true(isnan(figures.now.prompt_tokens));
    assert_float_equal(figures.now.energy_j, 0.0, 1e-9);
    reading = make_reading(2.0, 3.0);
    reading.is_restarted = true;
    lull_serving_figures_take(&figures, &reading, 150.0);
    assert_float_equal(figures.now.finished, 10.0, 1e-9);
    reading = make_reading(3.0, 7.0);
    lull_serving_figures_take(&figures, &reading, 200.0);
    assert_float_equal(figures.now.finished, 14.0, 1e-9);
    assert_float_equal(figures.now.energy_j, 100.0, 1e-9);
    assert_float_equal(figures.now.ttft.total[2], 14.0, 1e-9);
    /* A counter that comes later, and one that falls. */
    reading = make_reading(4.0, 6.0);
    reading.prompt_tokens = 50.0;
    lull_serving_figures_take(&figures, &reading, 200.0);
    assert_float_equal(figures.now.finished, 14.0, 1e-9);
    assert_true(isnan(figures.now.prompt_tokens));
    reading.time_ns += LULL_NS_PER_S;
    reading.prompt_tokens = 60.0;
    lull_serving_figures_take(&figures, &reading, 200.0);
    assert_float_equal(figures.now.prompt_tokens, 10.0, 1e-9);
    assert_true(lull_serving_figures_minute(&figures, &minute));
    assert_float_equal(minute.finished, 14.0, 1e-9);
    assert_float_equal(minute.prompt_tokens, 10.0, 1e-9);
}

static void test_other_buckets(void **state)
{
    struct lull_serving_figures figures = {0};
    struct lull_serving_reading reading = make_reading(0.0, 0.0);

    (void)state;
    lull_serving_figures_take(&figures, &reading, 0.0);
    reading = make_reading(1.0, 10.0);
    lull_serving_figures_take(&figures, &reading, 0.0);
    reading = make_reading(2.0, 20.0);
    reading.ttft.bound_s[0] = 0.15;
    lull_serving_figures_take(&figures, &reading, 0.0);
    assert_float_equal(figures.now.ttft.total[2], 0.0, 1e-9);
    reading.time_ns += LULL_NS_PER_S;
    reading.ttft.total[2] += 5.0;
    lull_serving_figures_take(&figures, &reading, 0.0);
    assert_float_equal(figures.now.ttft.total[2], 5.0, 1e-9);
    assert_float_equal(figures.now.finished, 20.0, 1e-9);
}

static void test_the_last_minute(void **state)
{
    struct lull_serving_figures figures = {0};
    struct lull_serving_totals minute;

    (void)state;
    /* One request a second and 10 W for ten minutes, then two requests a second. */
    for (int i = 0; i <= 6000; i++) {
        const struct lull_serving_reading reading = make_reading(0.1 * i, 0.1 * i);

        lull_serving_figures_take(&figures, &reading, 10.0 * 0.1 * i);
    }
    assert_true(lull_serving_figures_minute(&figures, &minute));
    assert_in_range(minute.time_ns, 55 * LULL_NS_PER_S, 65 * LULL_NS_PER_S);
    assert_true(fabs(minute.finished - (double)minute.time_ns * 1e-9) < 0.2);
    assert_true(fabs(minute.energy_j - 10.0 * (double)minute.time_ns * 1e-9) < 2.0);
    assert_float_equal(minute.ttft.total[2], minute.finished, 1e-6);
}

static void test_quantiles(void **state)
{
    struct lull_serving_histogram histogram = {
        .count = 3, .bound_s = {0.1, 0.2, INFINITY}, .total = {50.0, 90.0, 100.0}};

    (void)state;
    assert_float_equal(lull_serving_quantile_s(&histogram, 0.25), 0.05, 1e-9);
    assert_float_equal(lull_serving_quantile_s(&histogram, 0.5), 0.1, 1e-9);
    assert_float_equal(lull_serving_quantile_s(&histogram, 0.7), 0.15, 1e-9);
    assert_float_equal(lull_serving_quantile_s(&histogram, 0.9), 0.2, 1e-9);
    assert_true(isnan(lull_serving_quantile_s(&histogram, 0.99)));
    memset(histogram.total, 0, sizeof(histogram.total));
    assert_true(isnan(lull_serving_quantile_s(&histogram, 0.5)));
    histogram.count = 0;
    assert_true(isnan(lull_serving_quantile_s(&histogram, 0.5)));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_totals_and_restarts),
        cmocka_unit_test(test_other_buckets),
        cmocka_unit_test(test_the_last_minute),
        cmocka_unit_test(test_quantiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
