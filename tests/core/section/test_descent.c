/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "core/section/descent.h"
#include "../property.h"

enum { MAX_COUNT = 300, STRATEGIES = 3 };

static const enum lull_descent_strategy strategies[STRATEGIES] = {
    LULL_DESCENT_STEP, LULL_DESCENT_BISECT, LULL_DESCENT_GALLOP};

static uint32_t log2_floor(uint32_t value)
{
    uint32_t result = 0;

    while (value >>= 1)
        result++;
    return result;
}

static uint32_t most_verdicts(enum lull_descent_strategy strategy, uint32_t count)
{
    switch (strategy) {
    case LULL_DESCENT_STEP:
        return count - 1;
    case LULL_DESCENT_BISECT:
        return 2 + log2_floor(count);
    default:
        return 2 + 2 * log2_floor(count);
    }
}

/* Runs to the end; is_bad[p] is the guard's answer at point p. */
static void run(struct lull_descent *descent, const uint8_t *is_bad, uint64_t seed)
{
    for (uint32_t i = 0; i <= MAX_COUNT && !lull_descent_done(descent); i++) {
        holds(descent->candidate > descent->good && descent->candidate < descent->bad, seed);
        holds(descent->candidate < descent->count, seed);
        lull_descent_take(descent, is_bad[descent->candidate] ? LULL_VERDICT_DEGRADED
                                                              : LULL_VERDICT_NOT_DEGRADED);
    }
    holds(lull_descent_done(descent) && descent->candidate == descent->good, seed);
}

/* The lowest point from which all up to the highest are good. */
static uint32_t lowest_good(const uint8_t *is_bad, uint32_t count)
{
    uint32_t point = 0;

    while (point + 1 < count && !is_bad[point + 1])
        point++;
    return point;
}

static void test_s221_descent_starts_at_the_highest_point(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct lull_descent descent;

        lull_descent_init(&descent, strategies[i], 10);
        assert_int_equal(descent.good, 0);
        assert_int_equal(descent.steps, 0);
        assert_false(lull_descent_done(&descent));
    }
}

static void test_s222_the_next_candidate_is_one_point_lower(void **state)
{
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_STEP, 10);
    assert_int_equal(descent.candidate, 1);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    assert_int_equal(descent.candidate, 2);
}

static void test_s222_bisection_tries_the_lowest_point_first(void **state)
{
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_BISECT, 10);
    assert_int_equal(descent.candidate, 9);
    lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
    assert_int_equal(descent.candidate, 4);
}

static void test_s222_the_gallop_doubles_its_stride(void **state)
{
    static const uint32_t expected[] = {1, 3, 7, 15, 31, 63, 99};
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_GALLOP, 100);
    for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++) {
        assert_int_equal(descent.candidate, expected[i]);
        lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    }
    assert_true(lull_descent_done(&descent));
}

static void test_s223_the_section_runs_at_the_candidate_until_a_verdict(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct lull_descent descent, before;

        lull_descent_init(&descent, strategies[i], 10);
        before = descent;
        lull_descent_take(&descent, LULL_VERDICT_UNDECIDED);
        assert_memory_equal(&descent, &before, sizeof(before));
    }
}

static void test_s224_every_verdict_is_counted(void **state)
{
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_STEP, 10);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    lull_descent_take(&descent, LULL_VERDICT_UNDECIDED);
    lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
    assert_int_equal(descent.steps, 2);
}

static void test_s225_degradation_returns_to_the_previous_point(void **state)
{
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_STEP, 10);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
    assert_true(lull_descent_done(&descent));
    assert_int_equal(descent.good, 2);
    assert_int_equal(descent.candidate, 2);
}

static void test_s226_at_the_minimum_the_minimum_is_kept(void **state)
{
    static const uint8_t is_bad[MAX_COUNT] = {0};

    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct lull_descent descent;

        lull_descent_init(&descent, strategies[i], 57);
        run(&descent, is_bad, 0);
        assert_int_equal(descent.good, 56);
    }
}

static void test_s227_the_kept_point_is_the_result(void **state)
{
    struct lull_descent descent, before;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_STEP, 3);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
    before = descent;
    lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
    lull_descent_take(&descent, LULL_VERDICT_NOT_DEGRADED);
    assert_memory_equal(&descent, &before, sizeof(before));
    assert_int_equal(descent.good, 1);
}

static void test_monotone_slowdowns_end_at_the_lowest_good_point(void **state)
{
    (void)state;
    for (uint32_t count = 1; count <= MAX_COUNT; count++) {
        for (uint32_t edge = 1; edge <= count; edge++) {
            const uint64_t name = (uint64_t)count * 1000 + edge;
            uint8_t is_bad[MAX_COUNT] = {0};

            memset(is_bad + edge, 1, count - edge);
            for (size_t i = 0; i < STRATEGIES; i++) {
                struct lull_descent descent;

                lull_descent_init(&descent, strategies[i], count);
                run(&descent, is_bad, name);
                holds(descent.good == lowest_good(is_bad, count), name);
                holds(descent.steps <= most_verdicts(strategies[i], count), name);
            }
        }
    }
}

static void test_any_answers_end_at_a_good_point_above_a_bad_one(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        uint8_t is_bad[MAX_COUNT] = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t count = 1 + (uint32_t)lull_random_below(&random, MAX_COUNT);
        const double share = lull_random_uniform(&random);
        for (uint32_t p = 1; p < count; p++)
            is_bad[p] = lull_random_uniform(&random) < share;
        for (size_t i = 0; i < STRATEGIES; i++) {
            struct lull_descent descent;

            lull_descent_init(&descent, strategies[i], count);
            run(&descent, is_bad, seed);
            holds(!is_bad[descent.good], seed);
            holds(descent.good + 1 == count || is_bad[descent.good + 1], seed);
            holds(descent.steps <= most_verdicts(strategies[i], count), seed);
            if (strategies[i] == LULL_DESCENT_STEP)
                holds(descent.good == lowest_good(is_bad, count), seed);
        }
    }
}

/* Whatever the model expects, the search ends where it would have, soon if the model is right. */
static void test_an_aimed_gallop_ends_where_it_would_have(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5000; seed++) {
        uint8_t is_bad[MAX_COUNT] = {0};
        struct lull_descent descent;
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t count = 2 + (uint32_t)lull_random_below(&random, MAX_COUNT - 1);
        const uint32_t edge = 1 + (uint32_t)lull_random_below(&random, count);
        const bool is_right = lull_random_below(&random, 2) == 1;
        uint32_t lower = 0;

        memset(is_bad + edge, 1, count - edge);
        lull_descent_init(&descent, LULL_DESCENT_GALLOP, count);
        while (!lull_descent_done(&descent)) {
            const uint32_t by_itself = descent.candidate;

            lull_descent_aim(&descent,
                             is_right ? edge - 1 : (uint32_t)lull_random_below(&random, count));
            holds(descent.candidate > descent.good && descent.candidate < descent.bad, seed);
            holds(descent.bad < count || descent.candidate <= by_itself, seed);
            lower += descent.candidate >= edge;
            lull_descent_take(&descent, is_bad[descent.candidate] ? LULL_VERDICT_DEGRADED
                                                                  : LULL_VERDICT_NOT_DEGRADED);
        }
        holds(descent.good == edge - 1, seed);
        holds(descent.steps <= most_verdicts(LULL_DESCENT_GALLOP, count) + LULL_DESCENT_AIMS, seed);
        holds(!is_right || lower <= 1, seed);
    }
}

static void test_only_a_gallop_is_aimed(void **state)
{
    struct lull_descent descent;

    (void)state;
    lull_descent_init(&descent, LULL_DESCENT_BISECT, 10);
    lull_descent_aim(&descent, 3);
    assert_int_equal(descent.candidate, 9);
}

static void test_backing_off_stays_above_the_old_result(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        uint8_t is_bad[MAX_COUNT] = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        const uint32_t count = 1 + (uint32_t)lull_random_below(&random, MAX_COUNT);
        const uint32_t edge = 1 + (uint32_t)lull_random_below(&random, count);
        for (size_t i = 0; i < STRATEGIES; i++) {
            struct lull_descent descent;

            lull_descent_init(&descent, strategies[i], count);
            run(&descent, is_bad, seed);
            memset(is_bad + edge, 1, count - edge);
            lull_descent_back_off(&descent, 0, 1);
            run(&descent, is_bad, seed);
            const uint32_t bound = count < 2 ? 0 : count - 2;
            holds(descent.good == (edge - 1 < bound ? edge - 1 : bound), seed);
            memset(is_bad, 0, sizeof(is_bad));
        }
    }
}

static void test_a_single_point_is_the_result_at_once(void **state)
{
    (void)state;
    for (size_t i = 0; i < STRATEGIES; i++) {
        struct lull_descent descent;

        lull_descent_init(&descent, strategies[i], 1);
        assert_true(lull_descent_done(&descent));
        lull_descent_take(&descent, LULL_VERDICT_DEGRADED);
        lull_descent_back_off(&descent, 0, 1);
        assert_true(lull_descent_done(&descent));
        assert_int_equal(descent.good, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_s221_descent_starts_at_the_highest_point),
        cmocka_unit_test(test_s222_the_next_candidate_is_one_point_lower),
        cmocka_unit_test(test_s222_bisection_tries_the_lowest_point_first),
        cmocka_unit_test(test_s222_the_gallop_doubles_its_stride),
        cmocka_unit_test(test_s223_the_section_runs_at_the_candidate_until_a_verdict),
        cmocka_unit_test(test_s224_every_verdict_is_counted),
        cmocka_unit_test(test_s225_degradation_returns_to_the_previous_point),
        cmocka_unit_test(test_s226_at_the_minimum_the_minimum_is_kept),
        cmocka_unit_test(test_s227_the_kept_point_is_the_result),
        cmocka_unit_test(test_monotone_slowdowns_end_at_the_lowest_good_point),
        cmocka_unit_test(test_any_answers_end_at_a_good_point_above_a_bad_one),
        cmocka_unit_test(test_an_aimed_gallop_ends_where_it_would_have),
        cmocka_unit_test(test_only_a_gallop_is_aimed),
        cmocka_unit_test(test_backing_off_stays_above_the_old_result),
        cmocka_unit_test(test_a_single_point_is_the_result_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
