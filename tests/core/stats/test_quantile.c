/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/stats/quantile.h"
#include "../property.h"

enum { STREAM = 300 };

/* The last values of a stream that the window holds, sorted by insertion. */
static uint32_t sort_tail(const double *stream, uint32_t n, double *sorted)
{
    const uint32_t first = n > LULL_QUANTILE_WINDOW ? n - LULL_QUANTILE_WINDOW : 0;

    for (uint32_t i = first; i < n; i++) {
        uint32_t at = i - first;

        for (; at > 0 && sorted[at - 1] > stream[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = stream[i];
    }
    return n - first;
}

static double expected_quantile(const double *sorted, uint32_t n, double p)
{
    const double place = p * (n - 1);
    const double below = floor(place);

    return sorted[(uint32_t)below] +
           (place - below) * (sorted[(uint32_t)ceil(place)] - sorted[(uint32_t)below]);
}

static double expected_excess(const double *sorted, uint32_t n, double threshold)
{
    double sum = 0.0;

    for (uint32_t i = 0; i < n; i++)
        sum += sorted[i] > threshold ? sorted[i] - threshold : 0.0;
    return sum / n;
}

static void check_window(const struct lull_quantile *quantile, const double *sorted, uint32_t n,
                         struct lull_random *random, uint64_t seed)
{
    const double p = lull_random_uniform(random);
    const double threshold = 20.0 * lull_random_uniform(random) - 5.0;
    const double excess = expected_excess(sorted, n, threshold);

    holds(quantile->count == n, seed);
    holds(fabs(lull_quantile_get(quantile, p) - expected_quantile(sorted, n, p)) < 1e-12, seed);
    holds(fabs(lull_quantile_get(quantile, 0.0) - sorted[0]) <= 0.0, seed);
    holds(fabs(lull_quantile_get(quantile, 1.0) - sorted[n - 1]) <= 0.0, seed);

    const double inverse = lull_quantile_threshold(quantile, excess);
    holds(inverse >= 0.0 && expected_excess(sorted, n, inverse) <= excess + 1e-12, seed);
    holds(inverse <= 0.0 || expected_excess(sorted, n, inverse - 1e-6) > excess, seed);
}

static void test_quantile_and_threshold_against_sorting(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        double stream[STREAM], sorted[LULL_QUANTILE_WINDOW];
        struct lull_quantile quantile = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint32_t n = 1; n <= STREAM; n++) {
            /* Rounded, so that equal values occur. */
            stream[n - 1] = floor(lull_random_normal(&random, 5.0, 4.0) * 2.0) / 2.0;
            lull_quantile_add(&quantile, stream[n - 1]);
            check_window(&quantile, sorted, sort_tail(stream, n, sorted), &random, seed);
        }
    }
}

static void test_the_lower_mean_does_not_see_the_tail(void **state)
{
    struct lull_quantile quantile = {0};

    (void)state;
    for (uint32_t i = 1; i <= 5; i++)
        lull_quantile_add(&quantile, (double)i);
    assert_near(lull_quantile_lower_mean(&quantile), 2.0, 1e-12); /* 1, 2, 3 */
    lull_quantile_add(&quantile, 1e9);
    assert_near(lull_quantile_lower_mean(&quantile), 2.0, 1e-12);
    lull_quantile_add(&quantile, 0.0);
    assert_near(lull_quantile_lower_mean(&quantile), 1.5, 1e-12); /* 0, 1, 2, 3 */
}

/* Chances that fall by e per scale, from each value: the same as from the soft extreme. */
static void test_soft_extremes_are_as_safe_as_each_value(void **state)
{
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 5);
    for (uint32_t trial = 0; trial < 200; trial++) {
        const uint32_t count = 1 + trial % LULL_QUANTILE_WINDOW;
        const double scale = 1.0 + 10.0 * lull_random_uniform(&random);
        const double away = 60.0;
        struct lull_quantile quantile = {0};
        double above = 0.0;
        double below = 0.0;

        for (uint32_t i = 0; i < count; i++) {
            const double value = lull_random_normal(&random, 50.0, 5.0);

            lull_quantile_add(&quantile, value);
            above += exp(-(away - value) / scale) / count;
            below += exp(-(value + away) / scale) / count;
        }
        assert_near(lull_quantile_soft_most(&quantile, scale), away + scale * log(above), 1e-6);
        assert_near(lull_quantile_soft_least(&quantile, scale), -away - scale * log(below), 1e-6);
    }
}

static void test_soft_extremes_reach_from_the_mean_to_the_hard_ones(void **state)
{
    struct lull_quantile quantile = {0};

    (void)state;
    assert_true(isnan(lull_quantile_soft_most(&quantile, 1.0)));
    assert_true(isnan(lull_quantile_soft_least(&quantile, 0.0)));
    lull_quantile_add(&quantile, 1.0);
    lull_quantile_add(&quantile, 2.0);
    lull_quantile_add(&quantile, 6.0);
    assert_near(lull_quantile_soft_most(&quantile, 0.0), 6.0, 0.0);
    assert_near(lull_quantile_soft_least(&quantile, 0.0), 1.0, 0.0);
    assert_near(lull_quantile_soft_most(&quantile, 0.01), 6.0, 0.02);
    assert_near(lull_quantile_soft_most(&quantile, 1e6), 3.0, 1e-4);
    assert_near(lull_quantile_soft_least(&quantile, 1e6), 3.0, 1e-4);
}

static void test_empty_and_bad_values(void **state)
{
    struct lull_quantile quantile = {0};

    (void)state;
    lull_quantile_add(&quantile, NAN);
    lull_quantile_add(&quantile, INFINITY);
    assert_int_equal(quantile.count, 0);
    assert_true(isnan(lull_quantile_get(&quantile, 0.5)));
    assert_near(lull_quantile_threshold(&quantile, 1.0), 0.0, 0.0);
}

static void test_no_allowed_excess_gives_the_largest_value(void **state)
{
    struct lull_quantile quantile = {0};

    (void)state;
    for (uint32_t i = 0; i < 10; i++)
        lull_quantile_add(&quantile, (double)i);
    assert_near(lull_quantile_threshold(&quantile, 0.0), 9.0, 0.0);
    assert_near(lull_quantile_threshold(&quantile, -3.0), 9.0, 0.0);
    assert_near(lull_quantile_threshold(&quantile, 100.0), 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantile_and_threshold_against_sorting),
        cmocka_unit_test(test_the_lower_mean_does_not_see_the_tail),
        cmocka_unit_test(test_soft_extremes_are_as_safe_as_each_value),
        cmocka_unit_test(test_soft_extremes_reach_from_the_mean_to_the_hard_ones),
        cmocka_unit_test(test_empty_and_bad_values),
        cmocka_unit_test(test_no_allowed_excess_gives_the_largest_value),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
