/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/switch_budget.h"

#define MS(x) (INT64_C(1000000) * (x))

static void test_the_first_lowering_is_free(void **state)
{
    struct lull_switch_budget budget;

    (void)state;
    lull_switch_budget_init(&budget, MS(20), MS(50));
    assert_int_equal(lull_switch_budget_from_ns(&budget), 0);
}

static void test_without_savings_the_gap_holds(void **state)
{
    struct lull_switch_budget budget;

    (void)state;
    lull_switch_budget_init(&budget, MS(20), INT64_MAX);
    lull_switch_budget_lower(&budget, MS(100));
    lull_switch_budget_raise(&budget, MS(110));
    assert_int_equal(lull_switch_budget_from_ns(&budget), MS(130));
}

static void test_savings_run_out_and_come_back(void **state)
{
    struct lull_switch_budget budget;
    int64_t now_ns = MS(1000);

    (void)state;
    lull_switch_budget_init(&budget, MS(20), MS(50));
    for (int i = 0; i < LULL_SWITCH_BUDGET_SAVED; i++) {
        lull_switch_budget_raise(&budget, now_ns);
        assert_int_equal(lull_switch_budget_from_ns(&budget), now_ns);
        lull_switch_budget_lower(&budget, now_ns);
    }
    lull_switch_budget_raise(&budget, now_ns);
    assert_int_equal(lull_switch_budget_from_ns(&budget), now_ns + MS(20));
    lull_switch_budget_lower(&budget, now_ns + MS(20)); /* after the gap: costs nothing */
    lull_switch_budget_raise(&budget, now_ns + MS(40));
    assert_int_equal(lull_switch_budget_from_ns(&budget), now_ns + MS(50));
    lull_switch_budget_raise(&budget, now_ns + MS(51));
    assert_int_equal(lull_switch_budget_from_ns(&budget), now_ns + MS(51));
}

/* A client that lowers as soon as it may: never more than the bucket and its refill. */
static void test_the_rate_is_bounded(void **state)
{
    (void)state;
    for (int64_t low_ns = MS(1) / 4; low_ns <= MS(16); low_ns *= 2) {
        struct lull_switch_budget budget;
        int64_t now_ns = MS(1);
        int64_t early = 0;

        lull_switch_budget_init(&budget, MS(20), MS(50));
        while (now_ns < MS(20000)) {
            const int64_t from_ns = lull_switch_budget_from_ns(&budget);

            if (from_ns > now_ns)
                now_ns = from_ns;
            early += budget.raised_ns != 0 && now_ns < budget.raised_ns + MS(20);
            lull_switch_budget_lower(&budget, now_ns);
            now_ns += low_ns;
            lull_switch_budget_raise(&budget, now_ns);
        }
        assert_true(early <= LULL_SWITCH_BUDGET_SAVED + 20 * 20 + 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_lowering_is_free),
        cmocka_unit_test(test_without_savings_the_gap_holds),
        cmocka_unit_test(test_savings_run_out_and_come_back),
        cmocka_unit_test(test_the_rate_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
