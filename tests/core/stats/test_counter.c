/* Interpolated values of a rarely refreshed counter. SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/counter.h"
#include "../property.h"

/* Grows by 300 units per second, refreshed every 100 ms, polled every 50 ms with some jitter. */
static void test_windows_are_right_within_half_a_poll(void **state)
{
    struct lull_counter counter = {0};
    struct lull_random random;
    double worst = 0.0;

    (void)state;
    lull_random_init(&random, 5);
    for (int64_t time_ns = 0; time_ns < INT64_C(20000000000);) {
        const int64_t refreshed_ns = time_ns / 100000000 * 100000000;
        double value;

        lull_counter_take(&counter, time_ns, 300e-9 * (double)refreshed_ns);
        if (time_ns > INT64_C(1000000000) && lull_counter_at(&counter, time_ns - 300000000, &value))
            worst = fmax(worst, fabs(value - 300e-9 * (double)(time_ns - 300000000)));
        time_ns += (int64_t)lull_random_normal(&random, 50e6, 3e6);
    }
    assert_true(worst > 0.0);
    assert_true(worst < 300.0 * 0.032);
}

static void test_nothing_is_known_outside(void **state)
{
    struct lull_counter counter = {0};
    double value = -1.0;

    (void)state;
    assert_false(lull_counter_at(&counter, 5, &value));
    lull_counter_take(&counter, 10, 1.0);
    lull_counter_take(&counter, 20, 2.0);
    assert_false(lull_counter_at(&counter, 15, &value)); /* one refresh is not two */
    lull_counter_take(&counter, 30, 2.0);
    lull_counter_take(&counter, 40, 4.0);
    assert_false(lull_counter_at(&counter, 14, &value));
    assert_false(lull_counter_at(&counter, 36, &value));
    assert_true(lull_counter_at(&counter, 25, &value));
    assert_near(value, 3.0, 1e-12);
}

static void test_a_reset_forgets(void **state)
{
    struct lull_counter counter = {0};
    double value;

    (void)state;
    for (int i = 0; i < 300; i++)
        lull_counter_take(&counter, 10 * i, (double)i);
    assert_true(lull_counter_at(&counter, 2900, &value));
    assert_false(lull_counter_at(&counter, 500, &value)); /* too long ago */
    lull_counter_take(&counter, 3000, 0.0);
    assert_false(lull_counter_at(&counter, 2900, &value));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_windows_are_right_within_half_a_poll),
        cmocka_unit_test(test_nothing_is_known_outside),
        cmocka_unit_test(test_a_reset_forgets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
