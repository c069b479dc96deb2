/* One GPU's power limit during a lease, step by step. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "fake_devices.h"

#include "device/limit_control.c"

#define MS LULL_NS_PER_MS

static const struct lull_band band = {200, 1400, 150000, 300000};
static struct lull_limit_control control;

/* A lease of GPU 0, whose limit was 350 W. */
static void begin(void)
{
    fake_reset(1);
    control = (struct lull_limit_control){0};
    lull_limit_control_begin(&control, &band);
    control.before_mw = 350000;
}

static void ask(uint32_t limit_mw)
{
    const struct lull_limit_request request = {control.pending.sequence + 1, limit_mw};

    assert_int_equal(lull_limit_control_take(&control, &request), 0);
}

/* Returns whether a driver call was made. */
static bool act(void)
{
    const uint32_t before = fake.gpus[0].limit_calls;
    struct lull_error error;

    lull_limit_control_look(&control, NULL, 0);
    lull_limit_control_act(&control, NULL, 0, 0, &error);
    return fake.gpus[0].limit_calls != before;
}

static void fail_next(int status, uint32_t count)
{
    fake.gpus[0].status = status;
    fake.gpus[0].failures = count;
}

static void test_limits_are_clamped(void **state)
{
    static const struct {
        uint32_t asked_mw;
        uint32_t set_mw;
    } rows[] = {
        {1, 150000},      {150000, 150000}, {150001, 150001}, {299999, 299999},
        {300000, 300000}, {300001, 300000}, {0, 350000},
    };

    (void)state;
    begin();
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        ask(rows[i].asked_mw);
        act();
        assert_int_equal(fake.gpus[0].limit_mw, rows[i].set_mw);
        assert_int_equal(control.result.limit_mw, rows[i].set_mw);
        assert_int_equal(control.result.sequence, i + 1);
        assert_int_equal(control.result.status, 0);
    }
    fake.gpus[0].info.power_limit_min_mw = 160000; /* the device's own range */
    ask(150000);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 160000);
    control.before_mw = 200000; /* never above what the administrator had set */
    ask(200000);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(control.applied_mw, 0);
    ask(199999);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 199999);
    assert_int_equal(control.applied_mw, 199999);
}

static void test_what_is_set_already_is_not_written(void **state)
{
    (void)state;
    begin();
    ask(200000);
    assert_true(act());
    ask(200000);
    assert_false(act());
    assert_int_equal(fake.gpus[0].limit_calls, 1);
    assert_int_equal(control.result.sequence, 2);
    assert_int_equal(control.applied_mw, 200000);
    assert_int_equal(control.next_ns, fake_time_ns + 200 * MS);
}

static void test_when_it_wants_to_be_called(void **state)
{
    (void)state;
    begin();
    assert_true(lull_limit_control_due_ns(&control) == INT64_MAX);
    control.next_ns = 5;
    ask(200000);
    assert_int_equal(lull_limit_control_due_ns(&control), 5);
    control.before_mw = 0; /* it is not recorded yet what the limit was */
    assert_true(lull_limit_control_due_ns(&control) == INT64_MAX);
    control.before_mw = 350000;
    assert_true(act());
    assert_true(lull_limit_control_due_ns(&control) == INT64_MAX);
    lull_limit_control_end(&control, 77);
    assert_int_equal(lull_limit_control_due_ns(&control), 77);
    assert_false(lull_limit_control_is_restored(&control));
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_true(lull_limit_control_is_restored(&control));
    assert_true(lull_limit_control_due_ns(&control) == INT64_MAX);
    control.is_uncertain = true;
    assert_false(lull_limit_control_is_restored(&control));
}

static void test_a_lease_without_limits_refuses(void **state)
{
    const struct lull_band none = {200, 1400, 0, 0};
    const struct lull_limit_request request = {4, 200000};

    (void)state;
    fake_reset(1);
    control = (struct lull_limit_control){.before_mw = 123, .failures = 3, .has_pending = true};
    control.result.status = -EIO;
    lull_limit_control_begin(&control, &none);
    assert_int_equal(control.before_mw, 0); /* it may have been changed since */
    assert_int_equal(control.failures, 0);
    assert_int_equal(control.result.status, 0);
    assert_false(control.has_pending);
    assert_int_equal(lull_limit_control_take(&control, &request), LULL_E_UNSUPPORTED);
    assert_int_equal(control.result.sequence, 4);
    assert_int_equal(control.result.status, LULL_E_UNSUPPORTED);
    assert_true(lull_limit_control_due_ns(&control) == INT64_MAX);
    control.applied_mw = 200000; /* not restored yet: the old record counts */
    control.before_mw = 350000;
    lull_limit_control_begin(&control, &band);
    assert_int_equal(control.before_mw, 350000);
    control.max_mw = 1;
    assert_int_equal(lull_limit_control_take(&control, &request), 0);
}

/* A limit that an earlier process may have set is restored if the limit before it is known. */
static void test_a_limit_of_an_earlier_process_is_inherited(void **state)
{
    static const struct {
        uint32_t before_mw, written_mw[2], applied_mw; /* applied: by this process already */
        bool is_inherited;
    } rows[] = {
        {350000, {200000, 0}, 0, true},
        {350000, {0, 200000}, 0, true},
        {0, {200000, 180000}, 0, false},
        {350000, {0, 0}, 0, false},
        {350000, {200000, 180000}, 160000, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        control = (struct lull_limit_control){.applied_mw = rows[i].applied_mw};
        lull_limit_control_inherit(&control, rows[i].before_mw, rows[i].written_mw);
        assert_int_equal(control.is_uncertain, rows[i].is_inherited);
        assert_int_equal(control.before_mw, rows[i].is_inherited ? rows[i].before_mw : 0);
        assert_int_equal(control.applied_mw,
                         rows[i].is_inherited ? rows[i].written_mw[0] : rows[i].applied_mw);
        assert_int_equal(control.tried_mw, rows[i].is_inherited ? rows[i].written_mw[1] : 0);
    }
}

static void test_failures_are_repeated_ever_more_slowly(void **state)
{
    static const int64_t wait_ms[] = {40, 80, 160, 320, 640, 1000, 1000, 1000};

    (void)state;
    begin();
    ask(200000);
    fail_next(-EIO, 8);
    for (uint32_t i = 0; i < 8; i++) {
        assert_true(act());
        assert_int_equal(control.failures, i + 1);
        assert_int_equal(control.next_ns, fake_time_ns + wait_ms[i] * MS);
        assert_int_equal(control.result.status, -EIO);
        assert_true(control.is_uncertain);
        assert_int_equal(control.applied_mw, 0);
    }
    ask(350000); /* the limit is as it was, but that is not certain: it is written */
    assert_true(act());
    assert_int_equal(control.failures, 0);
    assert_false(control.is_uncertain);
    assert_int_equal(control.next_ns, fake_time_ns + 200 * MS);
}

static void test_refusals_have_no_effect(void **state)
{
    static const int refusals[] = {-EPERM, -EINVAL, LULL_E_UNSUPPORTED};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        begin();
        ask(200000);
        fail_next(refusals[i], 1);
        assert_true(act());
        assert_int_equal(control.result.status, refusals[i]);
        assert_false(control.is_uncertain);
        control.is_uncertain = true;
        fail_next(refusals[i], 1);
        assert_true(act());
        assert_true(control.is_uncertain); /* by what was before */
    }
}

static void test_a_limit_that_is_not_obeyed_is_still_put_back(void **state)
{
    struct lull_error error = {0};

    (void)state;
    begin();
    fake.gpus[0].least_limit_mw = 250000;
    ask(200000);
    lull_limit_control_look(&control, NULL, 0);
    lull_limit_control_act(&control, NULL, 0, 0, &error);
    assert_int_equal(control.result.status, LULL_E_NOT_APPLIED);
    assert_non_null(strstr(error.text, "200 W"));
    assert_non_null(strstr(error.text, "250 W"));
    assert_int_equal(control.result.limit_mw, 250000);
    assert_int_equal(control.applied_mw, 250000);
    assert_int_equal(control.failures, 1);
    lull_limit_control_end(&control, fake_time_ns);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_true(lull_limit_control_is_restored(&control));
}

/* A limit that was set and cannot be read back is not counted as restored, whichever of the two
 * writes it was. */
static void test_a_limit_that_cannot_be_read_back_is_still_put_back(void **state)
{
    struct lull_error error = {0};

    (void)state;
    begin();
    ask(200000);
    lull_limit_control_look(&control, NULL, 0);
    fake.gpus[0].unreadable = LULL_READING_POWER_LIMIT;
    lull_limit_control_act(&control, NULL, 0, 0, &error);
    assert_int_equal(control.result.status, LULL_E_NOT_APPLIED);
    assert_non_null(strstr(error.text, "cannot be read back"));
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_false(lull_limit_control_is_restored(&control));
    lull_limit_control_end(&control, fake_time_ns);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_false(lull_limit_control_is_restored(&control));
    fake.gpus[0].limit_mw = 200000; /* that write had no effect */
    fake.gpus[0].unreadable = 0;
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_true(lull_limit_control_is_restored(&control));
}

/* A failed write that had an effect is still recognised as Lull's after the next failed write. */
static void test_two_failed_writes_are_not_taken_for_others(void **state)
{
    (void)state;
    begin();
    ask(200000);
    fail_next(-EIO, 1);
    assert_true(act());
    fake.gpus[0].limit_mw = 200000;
    ask(250000);
    fail_next(-EIO, 1);
    assert_true(act());
    lull_limit_control_end(&control, fake_time_ns);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
    assert_true(lull_limit_control_is_restored(&control));
}

static void test_f45_what_others_have_set_since_stays(void **state)
{
    (void)state;
    begin();
    ask(200000);
    assert_true(act());
    fake.gpus[0].limit_mw = 280000;
    ask(200000); /* the lease may still go below */
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(control.before_mw, 280000);
    lull_limit_control_end(&control, fake_time_ns);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 280000); /* not the 350 W of the beginning */
    assert_true(lull_limit_control_is_restored(&control));

    begin();
    ask(200000);
    assert_true(act());
    fake.gpus[0].unreadable = LULL_READING_POWER_LIMIT; /* unknown: it is restored */
    lull_limit_control_end(&control, fake_time_ns);
    act();
    assert_int_equal(fake.gpus[0].limit_mw, 350000);

    begin();
    control.is_uncertain = true; /* a limit that may be ours is restored */
    control.applied_mw = 200000;
    control.tried_mw = 280000;
    fake.gpus[0].limit_mw = 280000;
    lull_limit_control_end(&control, fake_time_ns);
    assert_true(act());
    assert_int_equal(fake.gpus[0].limit_mw, 350000);
}

/* A cap that is set during a lease is never exceeded, neither by the lease nor by its end. */
static void test_f45_a_cap_set_meanwhile_is_never_exceeded(void **state)
{
    static const struct {
        uint32_t cap_mw, asked_mw, left_mw;
    } rows[] = {
        {180000, 200000, 180000}, {180000, 180000, 180000}, {180000, 160000, 160000},
        {180000, 0, 180000},      {399000, 300000, 300000}, {120000, 150000, 120000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        begin();
        ask(200000);
        assert_true(act());
        fake.gpus[0].limit_mw = rows[i].cap_mw;
        ask(rows[i].asked_mw);
        assert_true(lull_limit_control_look(&control, NULL, 0)); /* the journal is to know */
        assert_int_equal(control.before_mw, rows[i].cap_mw);
        act();
        assert_int_equal(fake.gpus[0].limit_mw, rows[i].left_mw);
        lull_limit_control_end(&control, fake_time_ns);
        act();
        assert_int_equal(fake.gpus[0].limit_mw, rows[i].cap_mw);
        assert_true(lull_limit_control_is_restored(&control));
    }
    /* Before the lease has set anything as well. */
    begin();
    fake.gpus[0].limit_mw = 180000;
    ask(200000);
    assert_false(act());
    assert_int_equal(control.applied_mw, 0);
}

static void test_a_refusal_writes_nothing_and_is_repeated(void **state)
{
    struct lull_error error = {0};

    (void)state;
    begin();
    ask(200000);
    lull_limit_control_look(&control, NULL, 0);
    assert_int_equal(control.target_mw, 200000);
    lull_limit_control_act(&control, NULL, 0, -ENOSPC, &error);
    assert_int_equal(fake.gpus[0].limit_calls, 0);
    assert_int_equal(control.result.status, -ENOSPC);
    assert_int_equal(control.applied_mw, 0);
    assert_int_equal(control.failures, 1);
    assert_true(lull_limit_control_is_restored(&control));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_limits_are_clamped),
        cmocka_unit_test(test_what_is_set_already_is_not_written),
        cmocka_unit_test(test_when_it_wants_to_be_called),
        cmocka_unit_test(test_a_lease_without_limits_refuses),
        cmocka_unit_test(test_a_limit_of_an_earlier_process_is_inherited),
        cmocka_unit_test(test_failures_are_repeated_ever_more_slowly),
        cmocka_unit_test(test_refusals_have_no_effect),
        cmocka_unit_test(test_a_limit_that_is_not_obeyed_is_still_put_back),
        cmocka_unit_test(test_a_limit_that_cannot_be_read_back_is_still_put_back),
        cmocka_unit_test(test_two_failed_writes_are_not_taken_for_others),
        cmocka_unit_test(test_f45_what_others_have_set_since_stays),
        cmocka_unit_test(test_f45_a_cap_set_meanwhile_is_never_exceeded),
        cmocka_unit_test(test_a_refusal_writes_nothing_and_is_repeated),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
