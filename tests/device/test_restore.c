/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "device/restore.h"

static const struct lull_device_info info = {.sm_clock_count = 2, .sm_clocks_mhz = {1410, 210}};

static bool is_free(uint32_t sm_mhz, uint64_t reasons, uint32_t before_mhz)
{
    const struct lull_device_reading reading = {
        .valid = LULL_READING_SM_CLOCK | LULL_READING_REASONS,
        .sm_mhz = sm_mhz,
        .reasons = reasons,
    };

    return lull_restore_is_free(&info, &reading, before_mhz);
}

static void test_what_counts_as_free(void **state)
{
    (void)state;
    assert_true(is_free(1410, 0, 1410));                         /* the highest clock */
    assert_true(is_free(1200, 0, 900));                          /* it has moved */
    assert_true(is_free(900, LULL_CLOCK_REASON_POWER_CAP, 900)); /* the power cap holds it */
    assert_true(is_free(210, LULL_CLOCK_REASON_IDLE, 210));      /* idle */
    assert_false(is_free(900, 0, 900));                          /* nothing says why it is low */
    assert_false(
        is_free(900, LULL_CLOCK_REASON_SETTING, 900)); /* application clocks are somebody's doing */
    assert_false(is_free(900, 0, 0));
}

static void test_a_silent_device_is_believed(void **state)
{
    const struct lull_device_reading nothing = {0};

    (void)state;
    assert_true(lull_restore_is_free(&info, &nothing, 900));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts_as_free),
        cmocka_unit_test(test_a_silent_device_is_believed),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
