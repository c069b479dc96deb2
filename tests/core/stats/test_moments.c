/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/stats/moments.h"
#include "../property.h"

enum { VALUES = 200 };

static void test_moments_are_those_of_two_passes(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        double values[VALUES], mean = 0.0, squares = 0.0;
        struct lull_moments moments = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t n = 2 + (uint32_t)lull_random_below(&random, VALUES - 1);
        for (uint32_t i = 0; i < n; i++) {
            /* A mean far from zero: where the textbook formula fails. */
            values[i] = lull_random_normal(&random, 1e8, 1.0);
            mean += values[i] / n;
            lull_moments_add(&moments, values[i]);
        }
        for (uint32_t i = 0; i < n; i++)
            squares += (values[i] - mean) * (values[i] - mean);
        holds(moments.count == n && fabs(moments.mean - mean) < 1e-6, seed);
        holds(fabs(lull_moments_variance(&moments) - squares / (n - 1)) < 1e-6, seed);
    }
}

static void test_merging_is_adding_all(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_moments all = {0}, left = {0}, right = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint64_t n = lull_random_below(&random, VALUES);
        const uint64_t split = lull_random_below(&random, n + 1);
        for (uint64_t i = 0; i < n; i++) {
            const double value = lull_random_normal(&random, -5.0, 3.0);

            lull_moments_add(&all, value);
            lull_moments_add(i < split ? &left : &right, value);
        }
        lull_moments_merge(&left, &right);
        holds(left.count == all.count && fabs(left.mean - all.mean) < 1e-12, seed);
        holds(fabs(left.squares - all.squares) < 1e-9, seed);
    }
}

static void test_few_values_have_no_variance(void **state)
{
    struct lull_moments moments = {0};

    (void)state;
    assert_near(lull_moments_variance(&moments), 0.0, 0.0);
    lull_moments_add(&moments, 4.0);
    assert_near(moments.mean, 4.0, 0.0);
    assert_near(lull_moments_variance(&moments), 0.0, 0.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_moments_are_those_of_two_passes),
        cmocka_unit_test(test_merging_is_adding_all),
        cmocka_unit_test(test_few_values_have_no_variance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
