/* Rhythms and carry-over. SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/carry_over.h"
#include "core/stats/rhythm.h"
#include "../property.h"

static void test_a_rhythm_is_found_and_taken_out(void **state)
{
    (void)state;
    for (uint32_t period = 2; period <= LULL_RHYTHM_MAX; period++) {
        struct lull_rhythm_memory memory = {0};
        struct lull_rhythm rhythm;
        struct lull_random random;

        lull_random_init(&random, period);
        for (uint64_t i = 5; i < 5 + LULL_RHYTHM_MEMORY; i++)
            lull_rhythm_remember(&memory, i,
                                 lull_random_normal(&random, i % period == 1 ? 150.0 : 100.0, 0.3));
        rhythm = lull_rhythm_find(&memory);
        assert_int_equal(rhythm.period, period);
        for (uint64_t i = 1000; i < 1000 + period; i++)
            assert_near(lull_rhythm_even_ms(&rhythm, i, i % period == 1 ? 150.0 : 100.0),
                        100.0 + 50.0 / period, 1.0);
    }
}

static void test_noise_and_few_iterations_have_no_rhythm(void **state)
{
    uint32_t found = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_rhythm_memory memory = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint64_t i = 0; i < 40 + seed; i++)
            lull_rhythm_remember(&memory, i, lull_random_normal(&random, 100.0, 1.0));
        found += lull_rhythm_find(&memory).period != 0;
        memory = (struct lull_rhythm_memory){0};
        for (uint64_t i = 0; i < 20; i++)
            lull_rhythm_remember(&memory, i, i % 8 == 0 ? 500.0 : 100.0);
        assert_int_equal(lull_rhythm_find(&memory).period, 0);
        assert_near(lull_rhythm_unevenness(&memory), 0.6, 1e-12);
    }
    assert_true(found <= 2);
    assert_near(lull_rhythm_even_ms(&(struct lull_rhythm){0}, 7, 3.0), 3.0, 0.0);
}

static void test_carry_over_needs_both_kinds_and_is_seldom_found_by_chance(void **state)
{
    uint32_t alarms = 0;
    uint32_t found = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 1000; seed++) {
        struct lull_carry_over none = {0};
        struct lull_carry_over some = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        for (uint32_t i = 0; i < 8; i++) {
            const bool is_exposed = i % 4 != 0;
            const double noise = lull_random_normal(&random, 0.0, 0.003);

            holds(lull_carry_over_is_tested(&none) == (i >= 4), seed);
            lull_carry_over_add(&none, is_exposed, noise);
            lull_carry_over_add(&some, is_exposed, noise + 0.02 * is_exposed);
        }
        alarms += lull_carry_over_find(&none, 0.0, 0.05) > 0.0;
        found += lull_carry_over_find(&some, 0.0025, 0.05) > 0.02;
        holds(lull_carry_over_find(&some, 0.03, 0.05) <= 0.0, seed);
    }
    assert_true(alarms > 20 && alarms < 80);
    assert_true(found > 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_rhythm_is_found_and_taken_out),
        cmocka_unit_test(test_noise_and_few_iterations_have_no_rhythm),
        cmocka_unit_test(test_carry_over_needs_both_kinds_and_is_seldom_found_by_chance),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
