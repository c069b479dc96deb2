/*
 * The power of a node is reported by rounds: when all GPUs of the previous round have been read
 * again, even if GPUs are added or removed. SPDX-License-Identifier: Apache-2.0
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "governor/control/power_round.h"

static struct lull_power_round power;

static void rounds_are_summed(void **state)
{
    (void)state;
    assert_false(lull_power_round_take(&power, 0, 100.0));
    assert_false(lull_power_round_take(&power, 1, 200.0)); /* their number is unknown */
    for (int i = 1; i <= 3; i++) {
        assert_false(lull_power_round_take(&power, 0, 100.0));
        assert_true(lull_power_round_take(&power, 1, 200.0 + i));
        assert_true(power.sum_w == 300.0 + i);
    }
    /* GPU 0 is left; its first reading alone might still be half a round. */
    assert_false(lull_power_round_take(&power, 0, 70.0));
    assert_true(lull_power_round_take(&power, 0, 80.0));
    assert_true(power.sum_w == 80.0);
    /* GPU 2 comes. */
    assert_true(lull_power_round_take(&power, 0, 80.0));
    assert_false(lull_power_round_take(&power, 2, 10.0));
    assert_false(lull_power_round_take(&power, 0, 81.0));
    assert_true(lull_power_round_take(&power, 2, 11.0));
    assert_true(power.sum_w == 92.0);
    /* GPU 0 misses one reading: its next reading belongs to another round than GPU 2's. */
    assert_false(lull_power_round_take(&power, 2, 12.0));
    assert_false(lull_power_round_take(&power, 0, 83.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rounds_are_summed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
