/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/nvml.h"

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
        {9, LULL_E_NO_DEVICE},
        {18, LULL_E_NO_DEVICE},
        {15, LULL_E_NO_DEVICE},
        {3, LULL_E_UNSUPPORTED},
        {13, LULL_E_UNSUPPORTED},
        {4, -EPERM},
        {2, -EINVAL},
        {10, -EAGAIN},
        {999, -EAGAIN},
        {8, -EIO},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(lull_nvml_meaning(rows[i].code)->error, rows[i].error);
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_documented_code_has_its_row),
        cmocka_unit_test(test_errors_follow_the_fault_table),
        cmocka_unit_test(test_undocumented_codes_count_as_unknown),
        cmocka_unit_test(test_missing_library_is_no_device),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
