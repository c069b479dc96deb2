/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/driver_queue.h"
#include "../property.h"

static const int64_t second_ns = INT64_C(1000000000);

static void test_all_calls_fit_into_the_section(void **state)
{
    (void)state;
    for (uint32_t gpus = 1; gpus <= 64; gpus *= 2) {
        const double limit_ms = lull_call_trust_limit_ms(60000.0, gpus);

        assert_near(limit_ms * gpus, 60000.0, 1e-6);
        assert_near(lull_call_trust_waiting_limit_ms(60000.0, gpus), 60000.0, 0.0);
        assert_near(lull_call_trust_limit_ms(1.0, gpus), lull_call_trust_limit_ms(0.0, 1), 0.0);
        assert_true(lull_call_trust_limit_ms(0.0, gpus) > 100.0);
        assert_true(lull_call_trust_waiting_limit_ms(0.0, gpus) > 100.0 + 5.0 * gpus);
    }
}

static void test_calls_within_the_limit_are_trusted(void **state)
{
    struct lull_call_trust trust = {0};

    (void)state;
    for (int64_t i = 0; i < 1000; i++) {
        lull_call_trust_take_call(&trust, i * second_ns, 200.0, 200.0, 1.0);
        lull_call_trust_take_waiting(&trust, 200.0, 200.0);
        assert_true(lull_call_trust_poll(&trust, i * second_ns));
    }
    assert_true(lull_call_trust_wake_ns(&trust) == INT64_MAX);
}

static void test_a_request_that_waits_ends_trust_until_it_is_answered(void **state)
{
    struct lull_call_trust trust = {0};

    (void)state;
    lull_call_trust_take_waiting(&trust, 201.0, 200.0);
    assert_false(lull_call_trust_poll(&trust, 1));
    lull_call_trust_take_waiting(&trust, 0.0, 200.0);
    assert_true(lull_call_trust_poll(&trust, 2));
    assert_true(lull_call_trust_wake_ns(&trust) == INT64_MAX);
}

/* Breaches in a row, each as soon as there is trust again: the n-th costs ever less of the time. */
static void test_waits_double(void **state)
{
    (void)state;
    for (int deep = 0; deep < 2; deep++) {
        struct lull_call_trust trust = {0};
        int64_t now_ns = second_ns;
        int64_t before_ns = 0;

        for (int i = 0; i < 20; i++) {
            int64_t wait_ns;

            assert_true(lull_call_trust_poll(&trust, now_ns));
            lull_call_trust_take_call(&trust, now_ns, 500.0, 200.0, deep ? 1.0 : 0.01);
            assert_false(lull_call_trust_poll(&trust, now_ns));
            wait_ns = lull_call_trust_wake_ns(&trust) - now_ns;
            lull_call_trust_take_call(&trust, now_ns + second_ns / 2, 500.0, 200.0, 1.0);
            assert_true(lull_call_trust_wake_ns(&trust) == now_ns + wait_ns); /* the raising */
            assert_true(wait_ns == (deep ? 100 : 20) * second_ns || i > 0);
            assert_true(wait_ns == 2 * before_ns || i == 0 || wait_ns == 3600 * second_ns);
            assert_false(lull_call_trust_poll(&trust, now_ns + wait_ns - 1));
            before_ns = wait_ns;
            now_ns += wait_ns;
        }
        assert_true(before_ns == 3600 * second_ns);
    }
}

static void test_long_trust_forgives(void **state)
{
    struct lull_call_trust trust = {0};
    int64_t now_ns = second_ns;

    (void)state;
    for (int i = 0; i < 5; i++) {
        lull_call_trust_take_call(&trust, now_ns, 500.0, 200.0, 0.01);
        assert_true(lull_call_trust_wake_ns(&trust) - now_ns == 20 * second_ns);
        now_ns += 20 * second_ns;
        assert_true(lull_call_trust_poll(&trust, now_ns));
        now_ns += 81 * second_ns;
    }
}

/* Trust that has lasted for more than four waits forgives, however often it is requested. */
static void test_how_long_trust_has_to_last(void **state)
{
    (void)state;
    for (int64_t more_ns = 0; more_ns <= 1; more_ns++) {
        struct lull_call_trust trust = {0};
        int64_t now_ns = second_ns;

        lull_call_trust_take_call(&trust, now_ns, 500.0, 200.0, 0.01);
        now_ns += 20 * second_ns;
        assert_true(lull_call_trust_poll(&trust, now_ns));
        assert_true(lull_call_trust_wake_ns(&trust) == INT64_MAX);
        now_ns += 80 * second_ns + more_ns;
        assert_true(lull_call_trust_poll(&trust, now_ns - 40 * second_ns));
        assert_true(lull_call_trust_poll(&trust, now_ns));
        lull_call_trust_take_call(&trust, now_ns, 500.0, 200.0, 0.01);
        assert_int_equal(lull_call_trust_wake_ns(&trust) - now_ns,
                         (more_ns == 0 ? 40 : 20) * second_ns);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_calls_fit_into_the_section),
        cmocka_unit_test(test_calls_within_the_limit_are_trusted),
        cmocka_unit_test(test_a_request_that_waits_ends_trust_until_it_is_answered),
        cmocka_unit_test(test_waits_double),
        cmocka_unit_test(test_long_trust_forgives),
        cmocka_unit_test(test_how_long_trust_has_to_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
