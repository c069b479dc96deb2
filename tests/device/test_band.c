/* The bands of a GPU that may be leased. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "device/device_state.h" /* to make up a list of GPUs */

static const struct lull_device_info full = {
    .uuid = "GPU-1",
    .capabilities = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT,
    .sm_clock_count = 3,
    .sm_clocks_mhz = {1410, 900, 210},
    .power_limit_min_mw = 100000,
    .power_limit_max_mw = 400000,
};

static void check(const struct lull_device_info *info, struct lull_band wanted, int result,
                  struct lull_band fitted)
{
    struct lull_error err = {0};

    assert_int_equal(lull_device_fit_band(info, &wanted, &err), result);
    assert_memory_equal(&wanted, &fitted, sizeof(fitted));
    assert_int_equal(err.code, result);
    assert_true(result == 0 || strstr(err.text, "GPU-1") != NULL);
}

#define REFUSE(info, result, ...)                                                                  \
    check(info, (struct lull_band){__VA_ARGS__}, result, (struct lull_band){__VA_ARGS__})

static void test_a_band_is_narrowed_to_what_the_gpu_has(void **state)
{
    (void)state;
    check(&full, (struct lull_band){300, 1000}, 0, (struct lull_band){300, 1000});
    check(&full, (struct lull_band){1, 5000}, 0, (struct lull_band){210, 1410});
    check(&full, (struct lull_band){1410, 1500}, 0, (struct lull_band){1410, 1410});
    check(&full, (struct lull_band){100, 210}, 0, (struct lull_band){210, 210});
    check(&full, (struct lull_band){210, 1410, 1, 900000}, 0,
          (struct lull_band){210, 1410, 100000, 400000});
    check(&full, (struct lull_band){210, 1410, 150000, 250000}, 0,
          (struct lull_band){210, 1410, 150000, 250000});
    check(&full, (struct lull_band){210, 1410, 400000, 400000}, 0,
          (struct lull_band){210, 1410, 400000, 400000});
    check(&full, (struct lull_band){210, 1410, 100000, 100000}, 0,
          (struct lull_band){210, 1410, 100000, 100000});
}

static void test_a_band_outside_is_refused_and_left_as_it_was(void **state)
{
    (void)state;
    REFUSE(&full, -EINVAL, 900, 800);
    REFUSE(&full, -EINVAL, 1411, 2000);
    REFUSE(&full, -EINVAL, 100, 209);
    REFUSE(&full, -EINVAL, 211, 899); /* between two clocks */
    REFUSE(&full, -EINVAL, 901, 1409);
    REFUSE(&full, -EINVAL, 1, 5000, 300000, 200000);
    REFUSE(&full, -EINVAL, 1, 5000, 400001, 500000);
    REFUSE(&full, -EINVAL, 1, 5000, 1000, 99999);
}

static void test_what_the_gpu_cannot_do_is_unsupported(void **state)
{
    struct lull_device_info info = full;

    (void)state;
    info.capabilities = LULL_CAPABILITY_SM_LOCK;
    REFUSE(&info, LULL_E_UNSUPPORTED, 210, 1410, 100000, 400000);
    check(&info, (struct lull_band){210, 1410}, 0, (struct lull_band){210, 1410});
    info.capabilities = LULL_CAPABILITY_POWER_LIMIT;
    REFUSE(&info, LULL_E_UNSUPPORTED, 210, 1410);
    info.capabilities = full.capabilities;
    info.sm_clock_count = 0;
    REFUSE(&info, LULL_E_UNSUPPORTED, 210, 1410);
}

static void test_the_refusal_names_both_ranges(void **state)
{
    struct lull_band band = {900, 800};
    struct lull_error err = {0};

    (void)state;
    lull_device_fit_band(&full, &band, &err);
    assert_non_null(strstr(err.text, "between 900 and 800 MHz, but from 210 to 1410 MHz"));
    band = (struct lull_band){1, 5000, 999000, 1000999};
    lull_device_fit_band(&full, &band, &err);
    assert_non_null(strstr(err.text, "between 999 and 1000 W, but from 100 to 400 W"));
}

static void test_a_gpu_is_found_by_its_uuid(void **state)
{
    struct lull_devices *devices = calloc(1, sizeof(*devices) + 3 * sizeof(devices->infos[0]));

    (void)state;
    assert_non_null(devices);
    devices->count = 2;
    memcpy(devices->infos[0].uuid, "GPU-a", sizeof("GPU-a"));
    memcpy(devices->infos[2].uuid, "GPU-c", sizeof("GPU-c")); /* beyond the last */
    assert_int_equal(lull_device_find(devices, "GPU-a"), 0);
    assert_int_equal(lull_device_find(devices, "GPU-c"), -ENODEV);
    assert_int_equal(lull_device_find(devices, ""), -ENODEV); /* although one reports none */
    memcpy(devices->infos[1].uuid, "GPU-b", sizeof("GPU-b"));
    assert_int_equal(lull_device_find(devices, "GPU-b"), 1);
    assert_int_equal(lull_devices_count(devices), 2);
    assert_ptr_equal(lull_device_info(devices, 1), &devices->infos[1]);
    free(devices);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_band_is_narrowed_to_what_the_gpu_has),
        cmocka_unit_test(test_a_band_outside_is_refused_and_left_as_it_was),
        cmocka_unit_test(test_the_refusal_names_both_ranges),
        cmocka_unit_test(test_a_gpu_is_found_by_its_uuid),
        cmocka_unit_test(test_what_the_gpu_cannot_do_is_unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
