/* F29: the GPUs that a job sees, for all variables and orders.
 * SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../device/fake_devices.h"
#include "governor/run/visible_gpus.c"

static const char *vendor;

const char *lull_devices_vendor(const struct lull_devices *devices)
{
    (void)devices;
    return vendor;
}

static int set_up(void **state)
{
    static const char *const uuids[] = {"GPU-8f6d1b2a", "GPU-8f6d77aa", "GPU-8f", "GPU-11223344"};
    static const char *const variables[] = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
                                            "HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK"};

    (void)state;
    vendor = "nvidia";
    fake_reset(4);
    for (uint32_t i = 0; i < 4; i++) {
        snprintf(fake.gpus[i].info.uuid, sizeof(fake.gpus[i].info.uuid), "%s", uuids[i]);
        unsetenv(variables[i]);
    }
    return 0;
}

/* Compares what is seen with "3 1", the indices of this node. */
static void check(const char *expected)
{
    struct lull_visible_gpus visible;
    char seen[256] = "";
    size_t length = 0;

    lull_visible_gpus(NULL, &visible);
    for (uint32_t i = 0; i < visible.count; i++)
        length += (size_t)snprintf(seen + length, sizeof(seen) - length, i > 0 ? " %u" : "%u",
                                   visible.gpus[i]);
    assert_string_equal(seen, expected);
}

static void test_f29_names_of_nvidia(void **state)
{
    static const char *const cases[][2] = {
        {"3,1", "3 1"},                     /* another order */
        {"GPU-11223344,0", "3"},            /* a number is no UUID */
        {"0,GPU-11223344", "0"},            /* nor the reverse */
        {"1x,2", "1 2"},                    /* numbers as strtoul() reads them */
        {"0,,1", "0"},                      /* an empty word names none */
        {"0, 1", "0 1"},                    /* with spaces */
        {"GPU-11", "3"},                    /* the start of a UUID */
        {"GPU-8f6d1", "0"},                 /* one that is long enough */
        {"GPU-11,GPU-8f6d,GPU-8f6d1", "3"}, /* two GPUs begin so: the list ends */
        {"GPU-8f", "2"},                    /* a whole UUID that others begin with */
        {"GPU-", ""},                       /* all do */
        {"0,MIG-GPU-8f6d1b2a/1/0,1", "0"},  /* a slice */
        {"MIG-8f6d1b2a-1111", ""},          /* a slice, in the newer way */
        {"0,9,1", "0"},                     /* none there */
        {"2,2,1", ""},                      /* a GPU named twice hides all */
        {"GPU-11,GPU-112", ""},             /* also by its UUID */
        {"-1", ""},                         /* hidden on purpose */
        {"", ""},                           /* all are hidden */
        {"gpu-11", ""},                     /* no such name */
    };

    (void)state;
    check("0 1 2 3");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        setenv("CUDA_VISIBLE_DEVICES", cases[i][0], 1);
        check(cases[i][1]);
    }
}

static void test_f29_other_vendors(void **state)
{
    (void)state;
    vendor = "amd";
    setenv("ROCR_VISIBLE_DEVICES", "3,2,1", 1);
    setenv("CUDA_VISIBLE_DEVICES", "0", 1);
    check("3");
    setenv("HIP_VISIBLE_DEVICES", "2,1", 1);
    check("1 2");
    vendor = "intel";
    setenv("ZE_AFFINITY_MASK", "2.0,2.1,0", 1);
    check("2 0");
}

/* Lists of numbers and ranges, among the visible GPUs. */
static void test_choice(void **state)
{
    static const char *const wrong[] = {"",      "3",   "0-3", "1-0", "x",   "0,0",
                                        "0-1,1", "0;1", "-1",  "1-",  "0,,1"};
    uint32_t gpus[LULL_DEVICE_MAX_GPUS];
    uint32_t count = 0;
    struct lull_error err;

    (void)state;
    setenv("CUDA_VISIBLE_DEVICES", "3,1,0", 1);
    assert_int_equal(lull_visible_gpus_choose(NULL, NULL, gpus, &count, &err), 0);
    assert_int_equal(count, 3);
    assert_int_equal(gpus[0], 3);
    assert_int_equal(lull_visible_gpus_choose(NULL, "1-2", gpus, &count, &err), 0);
    assert_int_equal(count, 2);
    assert_int_equal(gpus[0], 1);
    assert_int_equal(gpus[1], 0);
    assert_int_equal(lull_visible_gpus_choose(NULL, "2,0", gpus, &count, &err), 0);
    assert_int_equal(gpus[0], 0);
    assert_int_equal(gpus[1], 3);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
        assert_int_equal(lull_visible_gpus_choose(NULL, wrong[i], gpus, &count, &err), -EINVAL);
    assert_int_equal(count, 2);
    setenv("CUDA_VISIBLE_DEVICES", "", 1);
    assert_int_equal(lull_visible_gpus_choose(NULL, NULL, gpus, &count, &err), LULL_E_NO_DEVICE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_f29_names_of_nvidia, set_up),
        cmocka_unit_test_setup(test_f29_other_vendors, set_up),
        cmocka_unit_test_setup(test_choice, set_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
