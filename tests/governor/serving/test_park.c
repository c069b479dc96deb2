/* The clock of a parked GPU, and the estimate of what parking saves. SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "governor/serving/park.h"

static const uint32_t clocks_mhz[] = {1410, 1200, 900, 600, 300, 210};
enum { CLOCKS = sizeof(clocks_mhz) / sizeof(clocks_mhz[0]) };

static void test_clock_keeps_the_bound(void **state)
{
    (void)state;
    assert_int_equal(lull_park_clock(clocks_mhz, CLOCKS, 0.2, INFINITY), 210);
    assert_int_equal(lull_park_clock(clocks_mhz, CLOCKS, 0.2, 0.0), 1410);
    assert_int_equal(lull_park_clock(clocks_mhz, CLOCKS, 0.2, 0.1), 900);
    assert_int_equal(lull_park_clock(clocks_mhz, 1, 0.2, 0.1), 1410);
    for (double wake_s = 0.0; wake_s < 0.3; wake_s += 0.01) {
        const uint32_t clock = lull_park_clock(clocks_mhz, CLOCKS, 0.2, wake_s);

        assert_true(lull_park_wake_s(clock, 1410, 0.2) <= wake_s);
        for (uint32_t i = 0; i < CLOCKS; i++)
            assert_true(clocks_mhz[i] >= clock ||
                        lull_park_wake_s(clocks_mhz[i], 1410, 0.2) > wake_s);
    }
}

static void test_record(void **state)
{
    struct lull_park_record record = {0};

    (void)state;
    assert_true(isnan(lull_park_saved_j(&record, 0)));
    lull_park_begin(&record, 10 * LULL_NS_PER_S, 84.0);
    for (int i = 0; i <= 100; i++)
        lull_park_take_power(&record, (10 * 10 + i) * LULL_NS_PER_S / 10, 60.0);
    /* 24 W for 10 s, and as much for 10 s without readings. */
    assert_float_equal(lull_park_saved_j(&record, 20 * LULL_NS_PER_S), 240.0, 1e-6);
    assert_float_equal(lull_park_saved_j(&record, 30 * LULL_NS_PER_S), 480.0, 1e-6);
    lull_park_end(&record, 30 * LULL_NS_PER_S);
    lull_park_take_power(&record, 31 * LULL_NS_PER_S, 0.0);
    assert_float_equal(lull_park_saved_j(&record, 99 * LULL_NS_PER_S), 480.0, 1e-6);
    assert_float_equal(lull_park_seconds(&record, 99 * LULL_NS_PER_S), 20.0, 1e-9);
    /* A time whose saving is unknown counts like the rest. */
    lull_park_begin(&record, 100 * LULL_NS_PER_S, NAN);
    lull_park_take_power(&record, 101 * LULL_NS_PER_S, 60.0);
    lull_park_end(&record, 110 * LULL_NS_PER_S);
    assert_float_equal(lull_park_saved_j(&record, 0), 720.0, 1e-6);
    assert_int_equal(record.count, 2);
}

static void test_gaps_between_readings(void **state)
{
    struct lull_park_record record = {0};

    (void)state;
    lull_park_begin(&record, 0, 84.0);
    lull_park_take_power(&record, 0, 60.0);
    lull_park_take_power(&record, LULL_NS_PER_S, 60.0);
    lull_park_take_power(&record, 9 * LULL_NS_PER_S, 10.0); /* what was in between is not known */
    assert_float_equal(lull_park_saved_j(&record, 10 * LULL_NS_PER_S), 240.0, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_clock_keeps_the_bound),
        cmocka_unit_test(test_record),
        cmocka_unit_test(test_gaps_between_readings),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
