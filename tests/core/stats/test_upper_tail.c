/* SPDX-License-Identifier: Apache-2.0 */
#include "../property.h"

#include <stdlib.h>

#include "core/stats/quantile.h"

static int descending(const void *a, const void *b)
{
    const double left = *(const double *)a;
    const double right = *(const double *)b;

    return (left < right) - (left > right);
}

static void test_it_is_the_sorted_value(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        struct lull_upper_tail tail = {0};
        double values[LULL_UPPER_TAIL_MAX];
        struct lull_random random;
        uint32_t count;

        lull_random_init(&random, seed);
        count = 1 + (uint32_t)lull_random_below(&random, LULL_UPPER_TAIL_MAX);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = seed % 3 == 0 ? (double)lull_random_below(&random, 5)
                                      : lull_random_normal(&random, 10.0, 3.0);
            lull_upper_tail_add(&tail, values[i]);
        }
        qsort(values, count, sizeof(values[0]), descending);
        holds(lull_upper_tail_p99(&tail) == values[count < 100 ? 0 : count / 100 - 1], seed);
    }
}

/* A share beyond the tail that is looked at is answered with the least of that tail: a third of the
   values, at least eight, and as many as are kept. */
static void test_what_is_taken_for_the_tail(void **state)
{
    static const struct {
        uint32_t count;
        uint32_t least;
    } cases[] = {{1, 1}, {7, 7}, {8, 8}, {9, 8}, {24, 8}, {27, 9}, {96, 32}, {300, 32}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct lull_upper_tail tail = {0};

        for (uint32_t value = 1; value <= cases[i].count; value++)
            lull_upper_tail_add(&tail, value);
        assert_near(lull_upper_tail_exceeded(&tail, 1.0), cases[i].count + 1.0 - cases[i].least,
                    0.0);
    }
}

static void test_what_is_not_finite_is_ignored(void **state)
{
    struct lull_upper_tail tail = {0};

    (void)state;
    assert_true(isnan(lull_upper_tail_p99(&tail)));
    lull_upper_tail_add(&tail, NAN);
    lull_upper_tail_add(&tail, INFINITY);
    assert_int_equal(tail.count, 0);
    lull_upper_tail_add(&tail, 3.0);
    assert_near(lull_upper_tail_p99(&tail), 3.0, 0.0);
}

static void test_merged_is_added(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        struct lull_upper_tail all = {0};
        struct lull_upper_tail parts[2] = {{0}};
        struct lull_random random;
        uint32_t count;

        lull_random_init(&random, seed);
        count = (uint32_t)lull_random_below(&random, 200);
        for (uint32_t i = 0; i < count; i++) {
            const double value = lull_random_normal(&random, 10.0, 3.0);

            lull_upper_tail_add(&all, value);
            lull_upper_tail_add(&parts[lull_random_below(&random, 2)], value);
        }
        lull_upper_tail_merge(&parts[0], &parts[1]);
        holds(parts[0].count == all.count, seed);
        for (uint32_t i = 0; i < LULL_UPPER_TAIL_KEPT; i++)
            holds(parts[0].largest[i] == all.largest[i], seed);
    }
}

/* However long it continues: the share stays what it is, and an old regime is forgotten. */
static void test_the_recent_tail_follows(void **state)
{
    const double shares[] = {0.01, 0.003, 0.001};

    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct lull_recent_tail tail = {0};
        struct lull_random random;

        lull_random_init(&random, seed);
        for (int i = 0; i < 5000; i++)
            lull_recent_tail_add(&tail, 1000.0 - 100.0 * log(lull_random_uniform(&random) + 1e-12));
        for (int i = 0; i < 50000; i++)
            lull_recent_tail_add(&tail, 10.0 - 2.0 * log(lull_random_uniform(&random) + 1e-12));
        for (size_t i = 0; i < sizeof(shares) / sizeof(shares[0]); i++)
            holds(fabs(lull_recent_tail_exceeded(&tail, shares[i]) -
                       (10.0 - 2.0 * log(shares[i]))) < 5.0, /* four deviations of so many values */
                  seed);
    }
}

/* The quantile of an exponential tail that has met one value from elsewhere. */
static void test_a_hiccup_says_little(void **state)
{
    const double truth = 10.0 - 2.0 * log(0.001);
    double error = 0.0;

    (void)state;
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct lull_random random;
        struct lull_upper_tail tail = {0};

        lull_random_init(&random, seed);
        for (int i = 0; i < 1000; i++)
            lull_upper_tail_add(&tail, 10.0 - 2.0 * log(lull_random_uniform(&random) + 1e-12));
        lull_upper_tail_add(&tail, 300.0);
        error += (lull_upper_tail_exceeded(&tail, 0.001) - truth) / 50;
    }
    assert_true(fabs(error) < 2.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_sorted_value),
        cmocka_unit_test(test_what_is_taken_for_the_tail),
        cmocka_unit_test(test_what_is_not_finite_is_ignored),
        cmocka_unit_test(test_merged_is_added),
        cmocka_unit_test(test_the_recent_tail_follows),
        cmocka_unit_test(test_a_hiccup_says_little),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
