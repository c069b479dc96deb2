/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/file.h"
#include "base/clock.h"
#include "device/fault.h"
#include "device/nvml_library.h"

static void test_every_documented_code_has_its_row(void **state)
{
    (void)state;
    for (int code = 0; code <= 30; code++) {
        const struct lull_library_meaning *meaning = lull_nvml_meaning(code);

        assert_int_equal(meaning->code, code);
        assert_true((code == 0) == (meaning->error == 0));
        assert_true(meaning->text[0] != '\0');
    }
}

static void test_errors_follow_the_fault_table(void **state)
{
    static const struct {
        int code;
        int error;
    } rows[] = {
        {9, LULL_E_NO_DRIVER},
        {18, LULL_E_NO_DRIVER},
        {15, LULL_E_NO_DEVICE},
        {3, LULL_E_UNSUPPORTED},
        {13, LULL_E_UNSUPPORTED},
        {4, -EPERM},
        {2, -EINVAL},
        {10, -EAGAIN},
        {999, LULL_E_DRIVER},
        {8, -EIO},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(lull_nvml_meaning(rows[i].code)->error, rows[i].error);
}

/* F09: the table of what follows from every code. */
static void test_f09_every_code_has_its_fault(void **state)
{
    static const struct {
        enum lull_device_fault fault;
        int codes[12]; /* ended by -1 */
    } rows[] = {
        {LULL_FAULT_NONE, {0, -1}},
        {LULL_FAULT_GONE, {1, 9, 12, 18, /* the driver */ 6, 15, 16, 28, /* the GPU */ -1}},
        {LULL_FAULT_UNSUPPORTED, {3, 13, 22, 24, 25, 26, 30, -1}},
        {LULL_FAULT_NOT_ALLOWED, {4, -1}},
        {LULL_FAULT_OWN, {2, 5, 7, -1}},
        {LULL_FAULT_PASSING, {10, 11, 17, 19, 20, 21, 23, 27, 29, 999, -1}},
        {LULL_FAULT_ALARM, {8, 14, -1}},
    };
    uint32_t count = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        for (const int *code = rows[i].codes; *code >= 0; code++) {
            assert_int_equal(lull_fault_of(lull_nvml_meaning(*code)->error), rows[i].fault);
            count++;
        }
    assert_int_equal(count, 32); /* all of them */
}

static void test_f09_what_follows_from_a_fault(void **state)
{
    static const struct {
        enum lull_device_fault fault;
        bool ends_control;
        bool may_have_had_effect;
    } rows[] = {
        {LULL_FAULT_NONE, false, false},       {LULL_FAULT_GONE, false, true},
        {LULL_FAULT_UNSUPPORTED, true, false}, {LULL_FAULT_NOT_ALLOWED, true, false},
        {LULL_FAULT_ALARM, true, true},        {LULL_FAULT_PASSING, false, true},
        {LULL_FAULT_OWN, false, false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(lull_fault_ends_control(rows[i].fault), rows[i].ends_control);
        assert_int_equal(lull_fault_may_have_had_effect(rows[i].fault),
                         rows[i].may_have_had_effect);
    }
    assert_int_equal(lull_fault_of(-ENOMEM), LULL_FAULT_PASSING); /* nothing is known of it */
}

/* They double, of a GPU or driver that is gone from 1 s to 60 s, of other faults from 10 ms to 64
 * times that. */
static void test_f09_pauses_grow(void **state)
{
    static const int64_t gone_s[] = {1, 2, 4, 8, 16, 32, 60, 60};
    static const int64_t passing_ms[] = {10, 20, 40, 80, 160, 320, 640, 640};

    (void)state;
    for (uint32_t i = 0; i < 8; i++) {
        assert_int_equal(lull_fault_pause_ns(LULL_FAULT_GONE, i + 1), gone_s[i] * LULL_NS_PER_S);
        assert_int_equal(lull_fault_pause_ns(LULL_FAULT_PASSING, i + 1),
                         passing_ms[i] * LULL_NS_PER_MS);
    }
    assert_int_equal(lull_fault_pause_ns(LULL_FAULT_GONE, UINT32_MAX), 60 * LULL_NS_PER_S);
}

static void test_undocumented_codes_count_as_unknown(void **state)
{
    (void)state;
    assert_int_equal(lull_nvml_meaning(-7)->code, 999);
    assert_int_equal(lull_nvml_meaning(12345)->code, 999);
}

static void test_missing_library_is_no_device(void **state)
{
    struct lull_devices *devices;
    struct lull_error error = {0};

    (void)state;
    setenv("LULL_NVML", "/nonexistent/libnvidia-ml.so.1", 1);
    assert_int_equal(lull_devices_open(&devices, &error), LULL_E_NO_DEVICE);
    assert_int_equal(lull_error_exit_status(error.code), LULL_EXIT_UNSUPPORTED);
    assert_non_null(strstr(error.text, "/nonexistent/libnvidia-ml.so.1"));
    setenv("LULL_NVML", "libm.so.6", 1); /* a library, but not the driver's */
    assert_int_equal(lull_devices_open(&devices, &error), LULL_E_UNSUPPORTED);
    assert_null(strstr(error.text, "drives hardware"));
    setenv(LULL_EMULATED_NODE_VARIABLE, "/dev/shm/lull-node-x", 1); /* left over in a shell */
    assert_int_equal(lull_devices_open(&devices, &error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libm.so.6: drives hardware"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_documented_code_has_its_row),
        cmocka_unit_test(test_errors_follow_the_fault_table),
        cmocka_unit_test(test_f09_every_code_has_its_fault),
        cmocka_unit_test(test_f09_what_follows_from_a_fault),
        cmocka_unit_test(test_f09_pauses_grow),
        cmocka_unit_test(test_undocumented_codes_count_as_unknown),
        cmocka_unit_test(test_missing_library_is_no_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
