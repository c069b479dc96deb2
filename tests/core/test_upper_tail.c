/* SPDX-License-Identifier: Apache-2.0 */
#include "property.h"

#include <stdlib.h>

#include "core/stats/upper_tail.h"

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
        double values[LULL_UPPER_TAIL_MOST];
        struct lull_random random;
        uint32_t count;

        lull_random_init(&random, seed);
        count = 1 + (uint32_t)lull_random_below(&random, LULL_UPPER_TAIL_MOST);
        for (uint32_t i = 0; i < count; i++) {
            values[i] = seed % 3 == 0 ? (double)lull_random_below(&random, 5)
                                      : lull_random_normal(&random, 10.0, 3.0);
            lull_upper_tail_add(&tail, values[i]);
        }
        qsort(values, count, sizeof(values[0]), descending);
        holds(lull_upper_tail_p99(&tail) == values[count < 100 ? 0 : count / 100 - 1], seed);
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_is_the_sorted_value),
        cmocka_unit_test(test_what_is_not_finite_is_ignored),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
