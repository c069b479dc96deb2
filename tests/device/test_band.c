/* What may be leased of a GPU. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/device.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_band_is_narrowed_to_what_the_gpu_has),
        cmocka_unit_test(test_a_band_outside_is_refused_and_left_as_it_was),
        cmocka_unit_test(test_what_the_gpu_cannot_do_is_unsupported),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
