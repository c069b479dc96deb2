/* The driver watch on sequences of single readings. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/error.h"
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
        {2100, 500, 500, 500, false}, /* no lowering, so nothing is reported */
        {2100, 132, 2080, 132, false}, {2100, 132, 0, 132, false},
        {0, 0, 132, 132, false}, /* the state before is unknown */
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

/* Returns the state of the watch after these results, one after the other. */
static struct lull_driver_watch watch_results(const struct lull_switch_result *results,
                                              uint32_t count)
{
    struct lull_driver_watch watch = {0};

    for (uint32_t i = 0; i < count; i++)
        lull_driver_watch_take_result(&watch, &results[i]);
    return watch;
}

static void three_refusals_in_a_row_are_no_passing_trouble(void **state)
{
    const struct lull_switch_result refused = {.status = LULL_E_DRIVER, .call_ns = 1};
    const struct lull_switch_result busy = {.status = -EAGAIN, .call_ns = 1};
    const struct lull_switch_result made = {.sm_mhz = 900, .call_ns = 1};
    const struct lull_switch_result unneeded = {0}; /* no call was made, so it shows nothing */
    const struct lull_switch_result passing[] = {refused, busy, made, refused, busy};
    const struct lull_switch_result lasting[] = {made, refused, unneeded, refused, busy};
    struct lull_driver_watch watch = watch_results(passing, 5);

    (void)state;
    assert_false(lull_driver_watch_is_refused(&watch));
    watch = watch_results(lasting, 5);
    assert_true(lull_driver_watch_is_refused(&watch));
    assert_int_equal(watch.refused, 3);
    assert_int_equal(watch.refusal, -EAGAIN);
    assert_false(lull_driver_watch_denies(&watch));
}

static void a_lock_of_others_holds_until_a_call_is_made(void **state)
{
    const struct lull_switch_result locked = {.status = -EBUSY};
    const struct lull_switch_result unneeded = {0};
    const struct lull_switch_result made = {.sm_mhz = 900, .call_ns = 1};
    const struct lull_switch_result results[] = {made, locked, unneeded, made};

    (void)state;
    assert_false(watch_results(results, 1).is_locked);
    assert_true(watch_results(results, 2).is_locked);
    assert_true(watch_results(results, 3).is_locked);
    assert_false(watch_results(results, 4).is_locked);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lowered_clock_follows_from_half_the_way_on),
        cmocka_unit_test(three_refusals_in_a_row_are_no_passing_trouble),
        cmocka_unit_test(a_lock_of_others_holds_until_a_call_is_made),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
