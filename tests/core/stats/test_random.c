/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/stats/moments.h"
#include "../property.h"

static void test_the_sequence_is_the_published_one(void **state)
{
    /* State 1, 2, 3, 4: worked out by hand from the definition of xoshiro256**. */
    static const uint64_t expected[] = {11520, 0, 1509978240, UINT64_C(1215971899390074240)};
    struct lull_random random = {.state = {1, 2, 3, 4}};

    (void)state;
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
        assert_true(lull_random_next(&random) == expected[i]);
}

static void test_the_seed_is_spread_by_splitmix(void **state)
{
    /* splitmix64's published first values for this seed. */
    static const uint64_t expected[] = {
        UINT64_C(6457827717110365317), UINT64_C(3203168211198807973), UINT64_C(9817491932198370423),
        UINT64_C(4593380528125082431)};
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1234567);
    for (size_t i = 0; i < 4; i++)
        assert_true(random.state[i] == expected[i]);
}

static void test_uniform_and_normal_have_their_moments(void **state)
{
    struct lull_moments uniform = {0}, normal = {0};
    struct lull_random random;
    const double n = 200000.0;

    (void)state;
    lull_random_init(&random, 0);
    for (uint32_t i = 0; i < 200000; i++) {
        const double u = lull_random_uniform(&random);

        assert_true(u >= 0.0 && u < 1.0);
        lull_moments_add(&uniform, u);
        lull_moments_add(&normal, lull_random_normal(&random, 3.0, 2.0));
    }
    assert_near(uniform.mean, 0.5, 5.0 * sqrt(1.0 / 12.0 / n));
    assert_near(lull_moments_variance(&uniform), 1.0 / 12.0, 0.001);
    assert_near(normal.mean, 3.0, 5.0 * 2.0 / sqrt(n));
    assert_near(lull_moments_variance(&normal), 4.0, 5.0 * 4.0 * sqrt(2.0 / n));
}

static void test_below_reaches_each_value_alike(void **state)
{
    struct lull_random random;
    uint32_t seen[7] = {0};

    (void)state;
    lull_random_init(&random, 5);
    for (uint32_t i = 0; i < 70000; i++)
        seen[lull_random_below(&random, 7)]++;
    for (uint32_t i = 0; i < 7; i++)
        assert_in_range(seen[i], 9500, 10500);
    for (uint32_t i = 0; i < 1000; i++) {
        assert_true(lull_random_below(&random, UINT64_MAX) < UINT64_MAX);
        assert_true(lull_random_below(&random, 1) == 0);
    }
}

/* The bound is 3/4 of all numbers: what lies above would come down on the first third. */
static void test_below_a_large_bound_is_fair(void **state)
{
    const uint64_t third = UINT64_C(1) << 62;
    struct lull_random random;
    uint32_t seen[3] = {0};

    (void)state;
    lull_random_init(&random, 6);
    for (uint32_t i = 0; i < 30000; i++)
        seen[lull_random_below(&random, 3 * third) / third]++;
    for (uint32_t i = 0; i < 3; i++)
        assert_in_range(seen[i], 9500, 10500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_sequence_is_the_published_one),
        cmocka_unit_test(test_the_seed_is_spread_by_splitmix),
        cmocka_unit_test(test_uniform_and_normal_have_their_moments),
        cmocka_unit_test(test_below_reaches_each_value_alike),
        cmocka_unit_test(test_below_a_large_bound_is_fair),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
