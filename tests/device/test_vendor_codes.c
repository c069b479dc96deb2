/*
 * Translation of AMD SMI's and Level Zero's codes to Lull's, and the choice of the vendor.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/levelzero.h"
#include "device/amdsmi.h"
#include "emulator/node.h"

struct row {
    int code;
    int error;
};

static void test_codes_of_amd_smi(void **state)
{
    static const struct row rows[] = {
        {0, 0},
        {1, -EINVAL},
        {2, LULL_E_UNSUPPORTED},
        {10, -EPERM},
        {30, -EAGAIN},
        {31, LULL_E_NO_DEVICE},
        {34, LULL_E_NO_DEVICE},
        {55, LULL_E_UNSUPPORTED},
        {-1, LULL_E_DRIVER},  /* unknown error */
        {-2, LULL_E_DRIVER},  /* not mapped */
        {777, LULL_E_DRIVER}, /* not documented */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(lull_amdsmi_meaning(rows[i].code)->error, rows[i].error);
        assert_true(lull_amdsmi_meaning(rows[i].code)->text[0] != '\0');
    }
}

static void test_codes_of_level_zero(void **state)
{
    static const struct row rows[] = {
        {0, 0},
        {1, -EAGAIN},
        {0x70000001, LULL_E_NO_DEVICE},
        {0x70000006, LULL_E_NO_DEVICE},
        {0x70010000, -EPERM},
        {0x70010001, -EAGAIN},
        {0x78000001, LULL_E_NO_DEVICE},
        {0x78000003, LULL_E_UNSUPPORTED},
        {0x78000004, -EINVAL},
        {0x7ffffffe, LULL_E_DRIVER},
        {777, LULL_E_DRIVER},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_int_equal(lull_levelzero_meaning(rows[i].code)->error, rows[i].error);
        assert_true(lull_levelzero_meaning(rows[i].code)->text[0] != '\0');
    }
}

/* Opens a node of those models. Returns the number of its GPUs and the name of the first, or the
 * code and "" if none is found. */
static int open_node(const char *models, char name_out[96], struct lull_error *error)
{
    struct lull_node_spec spec = {.time_scale = 1};
    struct lull_devices *devices;
    struct lull_node *node;
    int result;

    assert_int_equal(lull_node_spec_parse(models, &spec, NULL), 0);
    assert_int_equal(lull_node_create(&spec, &node, NULL), 0);
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    name_out[0] = '\0';
    result = lull_devices_open(&devices, error);
    if (result == 0) {
        memcpy(name_out, lull_device_info(devices, 0)->name, 96);
        result = (int)lull_devices_count(devices);
        lull_devices_close(devices);
    }
    lull_node_remove(node);
    return result;
}

static void test_a_mixed_node_is_its_first_vendors(void **state)
{
    struct lull_error error = {0};
    char name[96];

    (void)state;
    unsetenv("LULL_VENDOR");
    assert_int_equal(open_node("Max1550,2xMI300X,3xA100", name, &error), 3);
    assert_non_null(strstr(name, "A100"));
    assert_int_equal(open_node("Max1550,2xMI300X", name, &error), 2);
    assert_non_null(strstr(name, "MI300X"));
    assert_int_equal(open_node("Max1550", name, &error), 1);
    assert_non_null(strstr(name, "Max 1550"));
}

static void test_the_user_may_choose(void **state)
{
    struct lull_error error = {0};
    char name[96];

    (void)state;
    setenv("LULL_VENDOR", "intel", 1);
    assert_int_equal(open_node("Max1550,2xMI300X,3xA100", name, &error), 1);
    setenv("LULL_VENDOR", "amd", 1);
    assert_int_equal(open_node("Max1550,2xMI300X,3xA100", name, &error), 2);
    assert_int_equal(open_node("A100", name, &error), LULL_E_NO_DEVICE);
    assert_non_null(strstr(error.text, "libamd_smi"));
    setenv("LULL_VENDOR", "3dfx", 1);
    assert_int_equal(open_node("A100", name, &error), -EINVAL);
    assert_non_null(strstr(error.text, "nvidia, amd or intel"));
    unsetenv("LULL_VENDOR");
}

/* Opens what there is besides emulated nodes. */
static int open_hardware(struct lull_error *error)
{
    struct lull_devices *devices = NULL;

    unsetenv(LULL_EMULATED_NODE_VARIABLE);
    return lull_devices_open(&devices, error);
}

/* A driver that fails is reported, not skipped. */
static void test_a_failing_driver_ends_the_search(void **state)
{
    struct lull_error error = {0};
    char name[96];

    (void)state;
    setenv("LULL_NVML", "libm.so.6", 1);
    assert_int_equal(open_node("MI300X", name, &error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libm.so.6"));
    setenv("LULL_NVML", "/nonexistent/nvml.so", 1);
    assert_int_equal(open_node("MI300X", name, &error), 1);
    setenv("LULL_AMD_SMI", "libm.so.6", 1);
    assert_int_equal(open_node("MI300X", name, &error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libm.so.6: drives hardware"));
    assert_int_equal(open_hardware(&error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "ROCm"));
    setenv("LULL_AMD_SMI", "/nonexistent/amd.so", 1);
    setenv("LULL_LEVEL_ZERO", "libm.so.6", 1);
    assert_int_equal(open_node("Max1550", name, &error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "libm.so.6: drives hardware"));
    assert_int_equal(open_hardware(&error), LULL_E_UNSUPPORTED);
    assert_non_null(strstr(error.text, "Sysman"));
    setenv("LULL_LEVEL_ZERO", "/nonexistent/ze.so", 1);
    assert_int_equal(open_node("Max1550", name, &error), LULL_E_NO_DEVICE);
    assert_non_null(strstr(error.text, "/nonexistent/nvml.so"));
    unsetenv("LULL_NVML");
    unsetenv("LULL_AMD_SMI");
    unsetenv("LULL_LEVEL_ZERO");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_of_amd_smi),
        cmocka_unit_test(test_codes_of_level_zero),
        cmocka_unit_test(test_a_mixed_node_is_its_first_vendors),
        cmocka_unit_test(test_the_user_may_choose),
        cmocka_unit_test(test_a_failing_driver_ends_the_search),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
