/* What the watch of a driver makes of single readings. SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "governor/control/driver_watch.h"

static void a_lowered_clock_follows_from_half_the_way_on(void **state)
{
    static const struct {
        uint32_t highest_mhz;
        uint32_t before_mhz; /* 0: nothing was set */
        uint32_t set_mhz;    /* 0: the lock was removed */
        uint32_t read_mhz;
        bool follows;
    } rows[] = {
        {2100, 0, 132, 172, true}, /* without work, and not read at its lock yet */
        {2100, 0, 132, 100, true},     {2100, 0, 132, 1116, true},
        {2100, 0, 132, 1117, false},   {2100, 0, 132, 2100, false},
        {2100, 0, 2080, 2100, false}, /* one step is no way to be half of */
        {2100, 1000, 500, 750, true},  {2100, 1000, 500, 751, false},
        {2100, 500, 500, 500, false}, /* no lowering, so that nothing is told */
        {2100, 132, 2080, 132, false}, {2100, 132, 0, 132, false},
        {0, 0, 132, 132, false}, /* nobody knows what was before */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct lull_switch_result result = {.sm_mhz = rows[i].set_mhz,
                                                  .observed_mhz = rows[i].read_mhz};
        const struct lull_clock_expectation before = {.set_mhz = rows[i].before_mhz,
                                                      .highest_mhz = rows[i].highest_mhz};

        assert_int_equal(lull_driver_watch_follows(&result, &before), rows[i].follows);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lowered_clock_follows_from_half_the_way_on),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
