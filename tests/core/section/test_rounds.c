/*
 * Rounds: the iteration found from the times between identical calls,
 * against synthetic intervals with a known iteration. SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/rounds.h"
#include "../property.h"

enum { MAX = 12288, SHAPE = 4096 };

static double newest_first[MAX];

/* Plays `count` intervals of an iteration of `length` ones, oldest first, and looks at them. */
static uint32_t find(const double *shape, uint32_t length, uint32_t count, uint32_t period,
                     double noise, struct lull_random *random)
{
    for (uint32_t i = 0; i < count; i++)
        newest_first[count - 1 - i] =
            shape[i % length] * exp(lull_random_normal(random, 0.0, noise));
    return lull_rounds_find(newest_first, count, period, 1);
}

/* Hundreds to thousands of short calls, after one long time or a few. */
static void test_the_iteration_of_many_like_calls_is_found(void **state)
{
    static double shape[SHAPE];

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t length = 5 + (uint32_t)lull_random_below(&random, MAX / 3 - 5);
        const uint32_t pauses = 1 + (uint32_t)lull_random_below(&random, 3);
        const uint32_t count =
            3 * length + (uint32_t)lull_random_below(&random, MAX - 3 * length + 1);

        for (uint32_t i = 0; i < length; i++)
            shape[i] = 0.2 + lull_random_uniform(&random);
        for (uint32_t i = 0; i < pauses; i++)
            shape[lull_random_below(&random, length)] = 20.0 + 10.0 * i + 0.02 * length;
        holds(find(shape, length, count, 1, 0.02, &random) == length, seed);
    }
}

/* A period of several calls repeats inside the iteration, which is a multiple of it. */
static void test_the_iteration_is_a_multiple_of_the_period(void **state)
{
    static double shape[SHAPE];

    (void)state;
    for (uint64_t seed = 1; seed <= 100; seed++) {
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t period = 2 + (uint32_t)lull_random_below(&random, 12);
        const uint32_t rounds = 3 + (uint32_t)lull_random_below(&random, 40);

        for (uint32_t i = 0; i < period * rounds; i++)
            shape[i] = 5.0 + (i % period);
        shape[0] += 60.0;
        holds(find(shape, period * rounds, 5 * period * rounds, period, 0.01, &random) == rounds,
              seed);
    }
}

/* Noise alone, however large, makes no iteration. */
static void test_noise_is_no_iteration(void **state)
{
    static double shape[1] = {10.0};

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_random random;

        lull_random_init(&random, seed);
        holds(find(shape, 1, 64 + (uint32_t)lull_random_below(&random, 4000), 1,
                   lull_random_uniform(&random), &random) == 1,
              seed);
    }
}

/* Iterations of three calls, and after every fifty of them an evaluation of 20 other ones: the
 * iteration is all of it. */
static void test_a_loop_within_the_iteration(void **state)
{
    static double shape[170];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1);
    for (uint32_t i = 0; i < 150; i++)
        shape[i] = i % 3 == 0 ? 66.0 : 1.4;
    for (uint32_t i = 150; i < 170; i++)
        shape[i] = 30.0;
    assert_int_equal(find(shape, 170, 140, 1, 0.01, &random), 3);
    assert_int_equal(find(shape, 170, 3 * 170 + 20, 1, 0.01, &random), 170);
}

/* Two stalls of a host, longer than any iteration, hide nothing. */
static void test_stalls_hide_no_iteration(void **state)
{
    static double shape[50];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1);
    for (uint32_t i = 0; i < 50; i++)
        shape[i] = i == 0 ? 40.0 : 1.0;
    find(shape, 50, 1000, 1, 0.01, &random);
    newest_first[77] += 2000.0;
    newest_first[222] += 900.0;
    assert_int_equal(lull_rounds_find(newest_first, 1000, 1, 1), 50);
}

/* The present iteration stays while it explains the times. Otherwise another one replaces it. */
static void test_the_present_one_is_preferred(void **state)
{
    static double shape[24];
    struct lull_random random;

    (void)state;
    lull_random_init(&random, 1);
    for (uint32_t i = 0; i < 24; i++)
        shape[i] = i % 12 == 0 ? 30.0 : 1.0;
    assert_int_equal(find(shape, 24, 480, 1, 0.01, &random), 12);
    assert_int_equal(lull_rounds_find(newest_first, 480, 1, 24), 24);
    assert_int_equal(lull_rounds_find(newest_first, 480, 1, 7), 12);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_iteration_of_many_like_calls_is_found),
        cmocka_unit_test(test_the_iteration_is_a_multiple_of_the_period),
        cmocka_unit_test(test_noise_is_no_iteration),
        cmocka_unit_test(test_a_loop_within_the_iteration),
        cmocka_unit_test(test_stalls_hide_no_iteration),
        cmocka_unit_test(test_the_present_one_is_preferred),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
