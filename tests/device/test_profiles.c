/*
 * Workload power profiles and power smoothing of an emulated B200 behind lull_devices. Usage:
 * test_profiles BRANCH LIBRARY, a driver release and its library: 535 has no call for them, 570 one
 * to add and one to remove, 615 one for both. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "device/device.h"
#include "emulator/node.h"

enum { EIGHT = 0xff, FOREIGN = LULL_POWER_PROFILE_NETWORK, USER = 12345 };

static struct lull_node *node;
static struct lull_devices *devices;
static bool has_calls;
static bool has_capability;

static int start(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    struct lull_error error = {0};

    (void)state;
    if (lull_node_spec_parse("1xB200,1xH100", &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    if (lull_devices_open(&devices, &error) == 0)
        return 0;
    fprintf(stderr, "%s\n", error.text);
    return -1;
}

static int stop(void **state)
{
    (void)state;
    lull_devices_close(devices);
    lull_node_remove(node);
    return 0;
}

static uint32_t requested(void)
{
    struct lull_device_reading reading;

    lull_device_read(devices, 0, LULL_READING_PROFILES, &reading);
    assert_int_equal(reading.valid, LULL_READING_PROFILES);
    return reading.requested_profiles;
}

static void test_gpus_say_which_profiles_they_have(void **state)
{
    const struct lull_device_info *blackwell = lull_device_info(devices, 0);
    const struct lull_device_info *hopper = lull_device_info(devices, 1);

    (void)state;
    assert_int_equal(blackwell->power_profiles, has_calls ? EIGHT : 0);
    assert_int_equal((blackwell->capabilities & LULL_CAPABILITY_POWER_PROFILES) != 0, has_calls);
    assert_int_equal(hopper->power_profiles, 0);
    assert_int_equal(hopper->capabilities & LULL_CAPABILITY_POWER_PROFILES, 0);
}

static void test_requests_leave_those_of_others(void **state)
{
    struct lull_error error = {0};

    (void)state;
    if (!has_calls) {
        struct lull_device_reading reading;

        lull_device_read(devices, 0, LULL_READING_PROFILES, &reading);
        assert_int_equal(reading.valid, 0);
        assert_int_equal(lull_device_add_profiles(devices, 0, LULL_POWER_PROFILE_MAX_Q, &error),
                         LULL_E_UNSUPPORTED);
        assert_non_null(strstr(error.text, "cannot change the power profiles"));
        return;
    }
    lull_physics_request_profiles(lull_node_begin(node, 0), FOREIGN);
    lull_node_end(node, 0, true);
    assert_int_equal(lull_device_add_profiles(devices, 0, LULL_POWER_PROFILE_MAX_Q, &error), 0);
    assert_int_equal(requested(), FOREIGN | LULL_POWER_PROFILE_MAX_Q);
    assert_int_equal(lull_device_remove_profiles(devices, 0, LULL_POWER_PROFILE_MAX_Q, &error), 0);
    assert_int_equal(requested(), FOREIGN);
    assert_int_equal(lull_device_add_profiles(devices, 0, 1u << 20, &error), -EINVAL);
    assert_int_equal(lull_device_add_profiles(devices, 1, LULL_POWER_PROFILE_MAX_Q, &error),
                     LULL_E_UNSUPPORTED);
}

/* Its fields are as old as the calls for profiles. */
static void test_power_smoothing_is_read(void **state)
{
    struct lull_physics_smoothing smoothing;
    struct lull_device_reading reading;

    (void)state;
    if (!has_calls)
        return;
    lull_device_read(devices, 0, LULL_READING_SMOOTHING, &reading);
    assert_int_equal(reading.valid, LULL_READING_SMOOTHING);
    assert_false(reading.is_smoothing);
    smoothing = lull_node_begin(node, 0)->smoothing;
    lull_node_end(node, 0, false);
    smoothing.is_enabled = true;
    smoothing.presets[0].floor_ratio = 0.3;
    lull_physics_set_smoothing(lull_node_begin(node, 0), &smoothing);
    lull_node_end(node, 0, true);
    lull_device_read(devices, 0, LULL_READING_SMOOTHING, &reading);
    assert_true(reading.is_smoothing);
    assert_int_equal(reading.smoothing_floor_w, 300);
    lull_device_read(devices, 1, LULL_READING_SMOOTHING, &reading);
    assert_int_equal(reading.valid, 0);
}

static void test_power_smoothing_is_set(void **state)
{
    static const uint32_t wanted[] = {40, 8000000, 7000500, 300, 4, 1};
    const struct lull_device_info *blackwell = lull_device_info(devices, 0);
    struct lull_smoothing_settings now;
    struct lull_error error = {0};

    (void)state;
    assert_int_equal((blackwell->capabilities & LULL_CAPABILITY_POWER_SMOOTHING) != 0, has_calls);
    assert_int_equal(lull_device_info(devices, 1)->capabilities & LULL_CAPABILITY_POWER_SMOOTHING,
                     0);
    assert_int_equal(lull_device_set_smoothing(devices, 1, LULL_SMOOTHING_STATE, 1, &error),
                     LULL_E_UNSUPPORTED);
    if (!has_calls) {
        assert_int_equal(lull_device_set_smoothing(devices, 0, LULL_SMOOTHING_STATE, 1, &error),
                         LULL_E_UNSUPPORTED);
        assert_non_null(strstr(error.text, "cannot set power smoothing"));
        return;
    }
    assert_int_equal(blackwell->smoothing_floor_percent, 90);
    assert_int_equal(blackwell->smoothing_preset, 4);
    for (int i = 0; i < LULL_SMOOTHING_ITEMS; i++)
        assert_int_equal(
            lull_device_set_smoothing(devices, 0, (enum lull_smoothing_item)i, wanted[i], &error),
            0);
    assert_int_equal(lull_device_read_smoothing(devices, 0, &now, &error), 0);
    assert_memory_equal(now.items, wanted, sizeof(wanted));
    assert_int_equal(now.floor_w, 400);
    assert_false(now.is_overridden);
    assert_int_equal(lull_device_set_smoothing(devices, 0, LULL_SMOOTHING_FLOOR, 95, &error),
                     -EINVAL);
}

static void test_a_right_is_needed(void **state)
{
    struct lull_error error = {0};

    (void)state;
    if (!has_calls)
        return;
    lull_node_set_fault(node, 0, LULL_FAULT_NO_PERMISSION, &(struct lull_fault){0, 1, 0});
    assert_int_equal(lull_device_add_profiles(devices, 0, LULL_POWER_PROFILE_MAX_Q, &error),
                     -EPERM);
}

/* The child loses root and reports the result of a request without profiles in its exit status. */
static int request_as_user(void)
{
    int status;
    const pid_t child = fork();

    if (child == 0) {
        if (geteuid() == 0 && setuid(USER) < 0)
            _exit(1);
        _exit(-lull_device_add_profiles(devices, 0, 0, NULL) & 0x7f);
    }
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return -WEXITSTATUS(status);
}

static void test_a_capability_replaces_root(void **state)
{
    (void)state;
    if (!has_calls)
        return;
    assert_int_equal(request_as_user(), -EPERM);
    lull_node_set_fault(node, 0, LULL_FAULT_WPPS, &(struct lull_fault){1, LULL_FAULT_ALWAYS, 0});
    assert_int_equal(request_as_user(), has_capability ? 0 : -EPERM);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_gpus_say_which_profiles_they_have, start, stop),
        cmocka_unit_test_setup_teardown(test_requests_leave_those_of_others, start, stop),
        cmocka_unit_test_setup_teardown(test_power_smoothing_is_read, start, stop),
        cmocka_unit_test_setup_teardown(test_power_smoothing_is_set, start, stop),
        cmocka_unit_test_setup_teardown(test_a_right_is_needed, start, stop),
        cmocka_unit_test_setup_teardown(test_a_capability_replaces_root, start, stop),
    };

    if (argc != 3)
        return 99;
    has_calls = strcmp(argv[1], "535") != 0;
    has_capability = strcmp(argv[1], "615") == 0;
    setenv("LULL_NVML", argv[2], 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
