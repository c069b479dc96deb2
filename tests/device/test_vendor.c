/*
 * Every vendor's GPUs behind lull_devices, by the same checks: reports agree with the true state of
 * the emulated node, settings take effect, failures have Lull's codes. Usage: test_vendor VENDOR
 * (nvidia, amd, amd-24, amd-25, amd-27, amd-module or intel). The library search path determines
 * which of the emulated libraries is loaded. SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <math.h>
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

#include "base/clock.h"
#include "device/device.h"
#include "emulator/node.h"

/* Differences between vendors. */
struct vendor {
    const char *argument;
    const char *spec;
    const char *abi;     /* of the emulated AMD SMI */
    const char *product; /* of GPU 0, a part of it */
    uint32_t capabilities;
    uint32_t highest_mhz;
    uint32_t lowest_mhz;
    uint32_t target_mhz; /* in its list */
    uint32_t highest_limit_mw;
    uint32_t codes[4];       /* not permitted, not supported, lost, busy */
    const uint32_t *passing; /* codes after which a GPU is waited for; ends with 0 */
    bool is_asleep_at_0;     /* tells a clock of 0 without work */
};

enum {
    SETS = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT | LULL_CAPABILITY_ENERGY_COUNTER,
    ALL = SETS | LULL_CAPABILITY_INSTANT_POWER,
};

enum { MAX_PASSING = 16 };

static const uint32_t passing_nvidia[MAX_PASSING] = {1,  10, 11, 15, 16, 17, 18,
                                                     19, 20, 21, 23, 27, 29, 999};
static const uint32_t passing_amd[MAX_PASSING] = {6, 7, 8, 9, 12, 14, 16, 30, 31, 34, 40, 43, 777};
static const uint32_t passing_intel[MAX_PASSING] = {1,          0x70000001, 0x70000002, 0x70000003,
                                                    0x70000006, 0x70000007, 0x70010001, 0x78000001,
                                                    0x78000006, 0x78000020, 0x7ffffffe};

static const struct vendor vendors[] = {
    {"nvidia",
     "2xA100-SXM4-40GB",
     "",
     "A100",
     ALL,
     1410,
     210,
     900,
     400000,
     {4, 3, 15, 23},
     passing_nvidia,
     false},
    {"amd",
     "2xMI300X",
     "26",
     "MI300X",
     ALL,
     2100,
     132,
     1000,
     750000,
     {10, 2, 31, 30},
     passing_amd,
     false},
    {"amd-27",
     "2xMI300X",
     "27",
     "MI300X",
     ALL,
     2100,
     132,
     1000,
     750000,
     {10, 2, 31, 30},
     passing_amd,
     false},
    {"amd-25",
     "2xMI300X",
     "25",
     "MI300X",
     ALL,
     2100,
     132,
     1000,
     750000,
     {10, 2, 31, 30},
     passing_amd,
     false},
    {"amd-24",
     "2xMI300X",
     "24",
     "MI300X",
     ALL,
     2100,
     132,
     1000,
     750000,
     {10, 2, 31, 30},
     passing_amd,
     false},
    {"amd-module",
     "2xMI250X",
     "26",
     "MI250X",
     SETS,
     1700,
     500,
     1000,
     560000,
     {10, 2, 31, 30},
     passing_amd,
     false},
    {"intel",
     "2xMax1550",
     "",
     "Max 1550",
     ALL,
     1600,
     300,
     900,
     600000,
     {0x70010000, 0x78000003, 0x70000001, 0x70010001},
     passing_intel,
     true},
};

static const struct vendor *vendor;
static struct lull_node *node;
static struct lull_devices *devices;

static int start(void **state)
{
    struct lull_node_spec spec = {.seed = 0, .time_scale = 1};
    struct lull_error error = {0};

    (void)state;
    if (lull_node_spec_parse(vendor->spec, &spec, NULL) < 0 ||
        lull_node_create(&spec, &node, NULL) < 0)
        return -1;
    setenv(LULL_EMULATED_NODE_VARIABLE, lull_node_path(node), 1);
    setenv("LULL_EMULATED_AMD_SMI", vendor->abi, 1);
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

/* A job, so that clocks are those of work. */
static void open_contexts(void)
{
    for (uint32_t i = 0; i < 2; i++) {
        lull_physics_open(lull_node_begin(node, i), getpid(), 0);
        lull_node_end(node, i, true);
    }
}

static struct lull_device_reading read_gpu(uint32_t gpu, uint32_t wanted)
{
    struct lull_device_reading reading;

    lull_device_read(devices, gpu, wanted, &reading);
    assert_int_equal(reading.valid & wanted, wanted);
    return reading;
}

/* Opens the devices again, with GPU 0 in a fault that lasts. */
static void reopen_with(enum lull_fault_kind kind, double value, int32_t times)
{
    struct lull_error error = {0};

    lull_devices_close(devices);
    devices = NULL;
    lull_node_set_fault(node, 0, kind, &(struct lull_fault){value, times, 0});
    assert_int_equal(lull_devices_open(&devices, &error), 0);
}

/* GPU 0 is named as not open, and nothing of it can be called; GPU 1 is what it was. */
static void check_first_is_away(const struct lull_device_info before[2])
{
    struct lull_device_reading reading;
    struct lull_device_update update;
    struct lull_error error = {0};

    assert_int_equal(lull_devices_count(devices), 2);
    assert_true(lull_device_info(devices, 0)->status < 0);
    assert_string_equal(lull_device_info(devices, 0)->uuid, "");
    assert_memory_equal(lull_device_info(devices, 0)->name, "not opened: ", 12);
    assert_int_equal(lull_device_info(devices, 0)->capabilities, 0);
    assert_string_equal(lull_device_info(devices, 1)->uuid, before[1].uuid);
    assert_int_equal(lull_device_info(devices, 1)->sm_clock_count, before[1].sm_clock_count);
    assert_true(lull_devices_driver_version(devices)[0] != '\0');
    lull_device_read(devices, 0, LULL_READING_ALL, &reading);
    assert_int_equal(reading.valid, 0);
    assert_int_equal(lull_device_lock_sm(devices, 0, 1, 5000, &error), LULL_E_NO_DEVICE);
    assert_int_equal(lull_device_check(devices, 0, &update, &error), LULL_E_NO_DEVICE);
    assert_non_null(strstr(error.text, "the driver does not open it: "));
    read_gpu(1, LULL_READING_SM_CLOCK);
}

/* GPU 0 is described like before. */
static void check_first_is_back(const struct lull_device_info *before)
{
    const struct lull_device_info *now = lull_device_info(devices, 0);

    assert_int_equal(now->status, 0);
    assert_string_equal(now->uuid, before->uuid);
    assert_string_equal(now->name, before->name);
    assert_string_equal(now->pci_bus_id, before->pci_bus_id);
    assert_int_equal(now->sm_clock_count, before->sm_clock_count);
    assert_int_equal(now->capabilities, before->capabilities);
    assert_int_equal(lull_device_find(devices, before->uuid), 0);
    read_gpu(0, LULL_READING_POWER_LIMIT);
}

/* Until the clock is as wanted; settling takes some 10 ms, a busy machine may take longer. */
static void wait_for_clock(uint32_t gpu, uint32_t mhz)
{
    const int64_t until_ns = lull_now_ns() + 10 * LULL_NS_PER_S;
    uint32_t seen_mhz = 0;

    while (seen_mhz != mhz && lull_now_ns() < until_ns) {
        usleep(5000);
        seen_mhz = read_gpu(gpu, LULL_READING_SM_CLOCK).sm_mhz;
    }
    assert_int_equal(seen_mhz, mhz);
}

static void set_fault(enum lull_fault_kind kind, uint32_t value)
{
    lull_node_set_fault(node, 0, kind, &(struct lull_fault){value, 1, 0});
}

static void test_gpus_are_listed_and_named(void **state)
{
    const struct lull_device_info *first = lull_device_info(devices, 0);
    const struct lull_device_info *second = lull_device_info(devices, 1);

    (void)state;
    assert_int_equal(lull_devices_count(devices), 2);
    assert_non_null(strstr(first->name, vendor->product));
    assert_true(strlen(first->uuid) >= 36);
    assert_string_not_equal(first->uuid, second->uuid);
    assert_string_not_equal(first->pci_bus_id, second->pci_bus_id);
    assert_int_equal(strlen(first->pci_bus_id), 14 + 2);
    assert_int_equal(lull_device_find(devices, second->uuid), 1);
    assert_true(lull_devices_driver_version(devices)[0] != '\0');
    assert_int_equal(first->capabilities, vendor->capabilities);
}

static void test_a_gpu_that_does_not_answer_at_first_is_waited_for(void **state)
{
    const struct lull_device_info before[2] = {*lull_device_info(devices, 0),
                                               *lull_device_info(devices, 1)};

    (void)state;
    for (uint32_t i = 0; i < MAX_PASSING && vendor->passing[i] != 0; i++) {
        struct lull_device_update update;
        struct lull_error error = {0};

        reopen_with(LULL_FAULT_GET_CODE, vendor->passing[i], LULL_FAULT_ALWAYS);
        /* The emulated NVML knows the UUIDs of GPUs whose other readings fail. */
        if (strcmp(vendor->argument, "nvidia") == 0)
            assert_true(lull_device_info(devices, 0)->status < 0);
        else
            check_first_is_away(before);
        lull_node_set_fault(node, 0, LULL_FAULT_GET_CODE, &(struct lull_fault){0, 0, 0});
        assert_int_equal(lull_device_check(devices, 0, &update, &error), 0);
        check_first_is_back(&before[0]);
    }
}

/* A driver that is only busy when it is opened is called again before the GPU is given up. */
static void test_a_gpu_that_is_busy_for_a_moment_is_served_at_once(void **state)
{
    const struct lull_device_info before = *lull_device_info(devices, 0);

    (void)state;
    for (int32_t calls = 1; calls <= 3; calls++) {
        reopen_with(LULL_FAULT_GET_CODE, vendor->codes[3], calls);
        check_first_is_back(&before);
    }
}

static void test_a_gpu_that_is_lost_at_first_is_found_later(void **state)
{
    const struct lull_device_info before[2] = {*lull_device_info(devices, 0),
                                               *lull_device_info(devices, 1)};
    const int64_t until_ns = lull_now_ns() + 60 * LULL_NS_PER_S;
    const double lost_ms = 2000;
    const int64_t begin_ns = lull_now_ns();
    struct lull_device_update update;
    struct lull_error error = {0};

    (void)state;
    reopen_with(LULL_FAULT_LOST_MS, lost_ms, 1);
    if (lull_now_ns() - begin_ns < lull_ns_from_ms(lost_ms / 2))
        check_first_is_away(before);
    while (lull_device_check(devices, 0, &update, &error) < 0 && lull_now_ns() < until_ns)
        usleep(20000);
    assert_int_equal(lull_device_info(devices, 0)->status, 0);
    assert_string_equal(lull_device_info(devices, 0)->uuid, before[0].uuid);
    assert_int_equal(lull_device_info(devices, 0)->sm_clock_count, before[0].sm_clock_count);
}

static void test_clocks_are_listed_from_the_highest(void **state)
{
    const struct lull_device_info *info = lull_device_info(devices, 0);
    bool has_target = false;

    (void)state;
    assert_true(info->sm_clock_count > 10);
    assert_int_equal(info->sm_clocks_mhz[0], vendor->highest_mhz);
    assert_int_equal(info->sm_clocks_mhz[info->sm_clock_count - 1], vendor->lowest_mhz);
    for (uint32_t i = 1; i < info->sm_clock_count; i++) {
        assert_true(info->sm_clocks_mhz[i] < info->sm_clocks_mhz[i - 1]);
        has_target = has_target || info->sm_clocks_mhz[i] == vendor->target_mhz;
    }
    assert_true(has_target);
    assert_int_equal(info->memory_clock_count, 1);
}

static double truth_j(uint32_t gpus)
{
    struct lull_node_truth truth;
    double sum_j = 0;

    for (uint32_t i = 0; i < gpus; i++) {
        lull_node_read_truth(node, i, &truth);
        sum_j += truth.energy_j;
    }
    return sum_j;
}

/* Both GPUs together: dies of a module share a counter. Unit of the counters, not their accuracy.
 */
static void test_energy_and_power_are_what_is_drawn(void **state)
{
    const uint32_t wanted = LULL_READING_ENERGY;
    const struct lull_gpu_profile work = {"work", 200, 20, 0};
    uint64_t before_mj = 0;
    uint64_t after_mj = 0;
    double drawn_j;

    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const int context = lull_physics_open(lull_node_begin(node, i), getpid(), 0);

        lull_node_end(node, i, true);
        lull_physics_launch(lull_node_begin(node, i), context, 60, &work);
        lull_node_end(node, i, true);
    }
    usleep(250000); /* counters refresh every 100 ms at most */
    drawn_j = truth_j(2);
    for (uint32_t i = 0; i < 2; i++)
        before_mj += read_gpu(i, wanted).energy_mj;
    read_gpu(0, LULL_READING_TEMPERATURE);
    for (uint32_t i = 0; i < 2; i++) { /* the first one begins where power is a rate */
        struct lull_device_reading ignored;

        lull_device_read(devices, i, LULL_READING_POWER | LULL_READING_UTILIZATION, &ignored);
    }
    usleep(1000000);
    drawn_j = truth_j(2) - drawn_j;
    for (uint32_t i = 0; i < 2; i++)
        after_mj += read_gpu(i, wanted).energy_mj;
    assert_true(fabs((double)(after_mj - before_mj) * 1e-3 - drawn_j) < 0.15 * drawn_j);
    for (uint32_t i = 0; i < 2; i++) {
        struct lull_node_truth truth;
        const struct lull_device_reading now =
            read_gpu(i, LULL_READING_POWER | LULL_READING_UTILIZATION);

        lull_node_read_truth(node, i, &truth);
        assert_true(fabs(now.power_mw * 1e-3 - truth.power_w) < 0.1 * truth.power_w);
        assert_true(now.utilization_percent > 50);
    }
}

static void set_energy_fault(enum lull_fault_kind kind, double value, int32_t times)
{
    lull_node_set_fault(node, 0, kind, &(struct lull_fault){value, times, 0});
}

static void test_faults_of_the_energy_counter_act(void **state)
{
    const uint64_t dies = strcmp(vendor->product, "MI250X") == 0 ? 2 : 1; /* of one counter */
    uint64_t mj;

    (void)state;
    set_energy_fault(LULL_FAULT_ENERGY_STUCK_J, 5000, LULL_FAULT_ALWAYS);
    mj = dies * read_gpu(0, LULL_READING_ENERGY).energy_mj;
    assert_true(mj > 4999000 && mj <= 5000000);
    set_energy_fault(LULL_FAULT_ENERGY_STUCK_J, 0, 0);
    set_energy_fault(LULL_FAULT_ENERGY_WRAP_J, 7, LULL_FAULT_ALWAYS);
    assert_true(read_gpu(0, LULL_READING_ENERGY).energy_mj <= 7000);
    set_energy_fault(LULL_FAULT_ENERGY_WRAP_J, 0, 0);
}

static void test_readings_are_near_the_truth(void **state)
{
    struct lull_node_truth truth;
    struct lull_device_reading now;

    (void)state;
    now = read_gpu(0, LULL_READING_TEMPERATURE | LULL_READING_SM_CLOCK | LULL_READING_MEMORY_CLOCK |
                          LULL_READING_POWER_LIMIT);
    lull_node_read_truth(node, 0, &truth);
    assert_true(fabs(now.temperature_c - truth.temperature_c) <= 1.0);
    assert_int_equal(now.sm_mhz, vendor->is_asleep_at_0 ? 0 : vendor->lowest_mhz);
    assert_int_equal(now.memory_mhz, lull_device_info(devices, 0)->memory_clocks_mhz[0]);
    assert_int_equal(now.power_limit_mw, vendor->highest_limit_mw);
    assert_int_equal(lull_device_info(devices, 0)->power_limit_max_mw, vendor->highest_limit_mw);
    assert_int_equal(lull_device_info(devices, 0)->power_limit_default_mw,
                     vendor->highest_limit_mw);
    assert_true(lull_device_info(devices, 0)->power_limit_min_mw > 0);
}

static void test_a_lock_takes_effect_and_a_reset_undoes_it(void **state)
{
    struct lull_error error = {0};
    struct lull_node_truth truth;

    (void)state;
    open_contexts();
    wait_for_clock(0, vendor->highest_mhz);
    assert_int_equal(
        lull_device_lock_sm(devices, 0, vendor->target_mhz, vendor->target_mhz, &error), 0);
    wait_for_clock(0, vendor->target_mhz);
    assert_int_equal(read_gpu(1, LULL_READING_SM_CLOCK).sm_mhz, vendor->highest_mhz);
    /* Down and up again: neither end stands in the other's way. */
    assert_int_equal(
        lull_device_lock_sm(devices, 0, vendor->lowest_mhz, vendor->lowest_mhz, &error), 0);
    wait_for_clock(0, vendor->lowest_mhz);
    assert_int_equal(
        lull_device_lock_sm(devices, 0, vendor->target_mhz, vendor->target_mhz, &error), 0);
    wait_for_clock(0, vendor->target_mhz);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), 0);
    wait_for_clock(0, vendor->highest_mhz);
    lull_node_read_truth(node, 0, &truth);
    assert_false(truth.is_locked);
}

/* A lowered limit must not be mistaken for the GPU's capability. */
/* A power that the board cannot draw is no reading, and is distinguished from none. */
static void test_a_power_that_cannot_be_is_refused(void **state)
{
    static const uint32_t watts[] = {3700000, 0, 1500};
    struct lull_device_reading reading;

    (void)state;
    if (strcmp(vendor->argument, "intel") == 0)
        return; /* its power is the growth of its counter */
    for (size_t i = 0; i < sizeof(watts) / sizeof(watts[0]); i++) {
        set_fault(LULL_FAULT_POWER_W, watts[i]);
        lull_device_read(devices, 0, LULL_READING_POWER | LULL_READING_ENERGY, &reading);
        assert_int_equal(reading.valid, LULL_READING_ENERGY);
        assert_int_equal(reading.refused, watts[i] == 0 && strncmp(vendor->argument, "amd", 3) == 0
                                              ? 0 /* to AMD SMI 0 is a value that is not known */
                                              : LULL_READING_POWER);
    }
    lull_device_read(devices, 0, LULL_READING_POWER, &reading);
    assert_int_equal(reading.valid, LULL_READING_POWER);
    assert_int_equal(reading.refused, 0);
}

/* If the driver refuses to reset a clock, a lock of its whole range has the same effect. */
static void test_a_reset_that_is_refused_is_a_lock_of_the_whole_range(void **state)
{
    struct lull_error error = {0};

    (void)state;
    open_contexts();
    set_fault(LULL_FAULT_RESET_CODE, vendor->codes[1]);
    assert_int_equal(
        lull_device_lock_sm(devices, 0, vendor->target_mhz, vendor->target_mhz, &error), 0);
    wait_for_clock(0, vendor->target_mhz);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), 0);
    wait_for_clock(0, vendor->highest_mhz);
}

/* Other refusals are reported: the clock stays. */
static void test_a_reset_that_is_not_permitted_fails(void **state)
{
    struct lull_error error = {0};

    (void)state;
    set_fault(LULL_FAULT_RESET_CODE, vendor->codes[0]);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), -EPERM);
}

static void test_a_lowered_gpu_is_still_known(void **state)
{
    struct lull_devices *again;
    struct lull_error error = {0};

    (void)state;
    assert_int_equal(
        lull_device_lock_sm(devices, 0, vendor->target_mhz, vendor->target_mhz, &error), 0);
    assert_int_equal(lull_devices_open(&again, &error), 0);
    assert_int_equal(lull_device_info(again, 0)->sm_clocks_mhz[0], vendor->highest_mhz);
    lull_devices_close(again);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), 0);
}

static void test_a_power_limit_is_set_within_its_range(void **state)
{
    const struct lull_device_info *info = lull_device_info(devices, 0);
    const uint32_t lower_mw = vendor->highest_limit_mw * 3 / 4;
    struct lull_error error = {0};

    (void)state;
    assert_int_equal(lull_device_set_power_limit(devices, 0, lower_mw, &error), 0);
    assert_int_equal(read_gpu(0, LULL_READING_POWER_LIMIT).power_limit_mw, lower_mw);
    assert_int_equal(
        lull_device_set_power_limit(devices, 0, info->power_limit_max_mw + 1000, &error), -EINVAL);
    assert_int_equal(lull_device_set_power_limit(devices, 0, 1000, &error), -EINVAL);
    assert_int_equal(read_gpu(0, LULL_READING_POWER_LIMIT).power_limit_mw, lower_mw);
    assert_int_equal(lull_device_set_power_limit(devices, 0, info->power_limit_default_mw, &error),
                     0);
}

static void test_failures_have_lulls_codes(void **state)
{
    static const int wanted[] = {-EPERM, LULL_E_UNSUPPORTED, LULL_E_NO_DEVICE, -EAGAIN};
    struct lull_error error = {0};

    (void)state;
    for (uint32_t i = 0; i < 4; i++) {
        char code[16];

        set_fault(LULL_FAULT_SET_CODE, vendor->codes[i]);
        assert_int_equal(
            lull_device_lock_sm(devices, 0, vendor->target_mhz, vendor->target_mhz, &error),
            wanted[i]);
        snprintf(code, sizeof(code), vendor->codes[i] > 999 ? "%x" : "%u", vendor->codes[i]);
        assert_non_null(strstr(error.text, "GPU 0"));
        assert_non_null(strstr(error.text, code));
        set_fault(LULL_FAULT_SET_CODE, vendor->codes[i]);
        assert_int_equal(lull_device_set_power_limit(devices, 0, vendor->highest_limit_mw, &error),
                         wanted[i]);
    }
    set_fault(LULL_FAULT_SET_CODE, 12345); /* not documented: may pass */
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), LULL_E_DRIVER);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), 0);
    assert_int_equal(lull_device_reset_memory(devices, 0, &error), LULL_E_UNSUPPORTED);
}

static void test_a_missing_reading_is_not_zero(void **state)
{
    struct lull_device_reading reading;

    (void)state;
    set_fault(LULL_FAULT_GET_CODE, vendor->codes[3]);
    lull_device_read(devices, 0, LULL_READING_SM_CLOCK, &reading);
    assert_int_equal(reading.valid, 0);
    set_fault(LULL_FAULT_NO_ENERGY, 0);
    lull_device_read(devices, 0, LULL_READING_ENERGY, &reading);
    assert_int_equal(reading.valid, 0);
    read_gpu(0, LULL_READING_SM_CLOCK | LULL_READING_ENERGY);
}

static void test_only_root_may_set(void **state)
{
    struct lull_error error = {0};
    int status;

    (void)state;
    if (fork() == 0) {
        const int result = seteuid(65534) != 0 ? 0
                                               : lull_device_lock_sm(devices, 0, vendor->target_mhz,
                                                                     vendor->target_mhz, &error);

        _exit(result == -EPERM ? 0 : 1);
    }
    wait(&status);
    assert_int_equal(status, 0);
    set_fault(LULL_FAULT_NO_PERMISSION, 1);
    assert_int_equal(lull_device_reset_sm(devices, 0, &error), -EPERM);
    assert_int_equal(lull_error_exit_status(error.code), LULL_EXIT_NOT_PERMITTED);
}

#define WITH_NODE(test) cmocka_unit_test_setup_teardown(test, start, stop)

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        WITH_NODE(test_gpus_are_listed_and_named),
        WITH_NODE(test_a_gpu_that_does_not_answer_at_first_is_waited_for),
        WITH_NODE(test_a_gpu_that_is_busy_for_a_moment_is_served_at_once),
        WITH_NODE(test_a_gpu_that_is_lost_at_first_is_found_later),
        WITH_NODE(test_clocks_are_listed_from_the_highest),
        WITH_NODE(test_readings_are_near_the_truth),
        WITH_NODE(test_energy_and_power_are_what_is_drawn),
        WITH_NODE(test_faults_of_the_energy_counter_act),
        WITH_NODE(test_a_lock_takes_effect_and_a_reset_undoes_it),
        WITH_NODE(test_a_power_that_cannot_be_is_refused),
        WITH_NODE(test_a_reset_that_is_refused_is_a_lock_of_the_whole_range),
        WITH_NODE(test_a_reset_that_is_not_permitted_fails),
        WITH_NODE(test_a_lowered_gpu_is_still_known),
        WITH_NODE(test_a_power_limit_is_set_within_its_range),
        WITH_NODE(test_failures_have_lulls_codes),
        WITH_NODE(test_a_missing_reading_is_not_zero),
        WITH_NODE(test_only_root_may_set),
    };

    for (size_t i = 0; argc == 2 && i < sizeof(vendors) / sizeof(vendors[0]); i++)
        if (strcmp(argv[1], vendors[i].argument) == 0)
            vendor = &vendors[i];
    if (vendor == NULL) {
        fprintf(stderr, "usage: test_vendor VENDOR\n");
        return 2;
    }
    if (geteuid() != 0) {
        printf("SKIP: only root may set clocks, on the emulated node too\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
