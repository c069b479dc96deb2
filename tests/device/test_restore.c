/* What a dead lulld has left is put back. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_devices.h"

#include "device/restore.c"

static const struct lull_device_info info = {.sm_clock_count = 2, .sm_clocks_mhz = {1410, 210}};

static bool is_free(uint32_t sm_mhz, uint64_t reasons, uint32_t before_mhz)
{
    const struct lull_device_reading reading = {
        .valid = LULL_READING_SM_CLOCK | LULL_READING_REASONS,
        .sm_mhz = sm_mhz,
        .reasons = reasons,
    };

    return lull_restore_is_free(&info, &reading, before_mhz);
}

static void test_what_counts_as_free(void **state)
{
    (void)state;
    assert_true(is_free(1410, 0, 1410)); /* the highest clock */
    assert_true(is_free(1411, 0, 1411));
    assert_true(is_free(1200, 0, 900));                          /* it has moved */
    assert_true(is_free(900, LULL_CLOCK_REASON_POWER_CAP, 900)); /* the power cap holds it */
    assert_true(is_free(210, LULL_CLOCK_REASON_IDLE, 210));      /* idle */
    assert_false(is_free(900, 0, 900));                          /* nothing says why it is low */
    /* Application clocks are somebody's doing. */
    assert_false(is_free(900, LULL_CLOCK_REASON_SETTING, 900));
    assert_false(is_free(900, 0, 0));
}

static void test_a_silent_device_is_believed(void **state)
{
    static const struct lull_device_info no_clocks = {0};
    struct lull_device_reading reading = {.sm_mhz = 900};

    (void)state;
    assert_true(lull_restore_is_free(&info, &reading, 900));
    reading.valid = LULL_READING_SM_CLOCK;
    assert_true(lull_restore_is_free(&info, &reading, 900));
    reading.valid = LULL_READING_REASONS;
    assert_true(lull_restore_is_free(&info, &reading, 900));
    reading.valid |= LULL_READING_SM_CLOCK;
    assert_false(lull_restore_is_free(&info, &reading, 900));
    assert_true(lull_restore_is_free(&no_clocks, &reading, 900));
}

/* --- all of it --- */

static char directory[64];
static struct lull_journal *journal;
static struct lull_restore_report report;
static struct lull_error error;

static int setup(void **state)
{
    (void)state;
    fake_reset(3);
    error = (struct lull_error){0};
    snprintf(directory, sizeof(directory), "/tmp/lull-restore-XXXXXX");
    return mkdtemp(directory) == NULL ? -1 : lull_journal_open(directory, &journal, NULL);
}

static int teardown(void **state)
{
    char command[96];

    (void)state;
    lull_journal_close(journal);
    snprintf(command, sizeof(command), "rm -rf %s", directory);
    return system(command);
}

static struct lull_journal_record record_of(const char *uuid, uint32_t controls)
{
    struct lull_journal_record record = {
        .driver_version = "550.54.15", .controls = controls, .power_limit_mw = 350000};

    snprintf(record.uuid, sizeof(record.uuid), "%s", uuid);
    return record;
}

static void save(const char *uuid, uint32_t controls)
{
    const struct lull_journal_record record = record_of(uuid, controls);

    assert_int_equal(lull_journal_save(journal, &record, &error), 0);
}

static void check_report(uint32_t restored, uint32_t failed, uint32_t dropped, int left)
{
    char uuids[4][96];

    assert_int_equal(report.restored, restored);
    assert_int_equal(report.failed, failed);
    assert_int_equal(report.dropped, dropped);
    assert_int_equal(lull_journal_list(journal, uuids, 4, &error), left);
}

static int restore(void)
{
    memset(&report, 0xff, sizeof(report));
    return lull_restore_all(NULL, journal, &report, &error);
}

static void test_nothing_to_do(void **state)
{
    (void)state;
    assert_int_equal(restore(), 0);
    check_report(0, 0, 0, 0);
    assert_int_equal(fake.call_count, 0);
}

static void test_only_what_the_record_names_is_touched(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        fake.gpus[i].locked_mhz = 900;
        fake.gpus[i].limit_mw = 200000;
        fake.gpus[i].info.capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    }
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    save("GPU-2", LULL_CAPABILITY_MEMORY_LOCK);
    fake.gpus[2].locked_mhz = 0;
    assert_int_equal(restore(), 0);
    check_report(3, 0, 0, 0);
    assert_int_equal(fake.call_count, 2);
    assert_int_equal(fake.gpus[0].locked_mhz + fake.gpus[1].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(fake.gpus[1].limit_mw, 350000);
    assert_int_equal(fake.gpus[2].limit_mw, 200000);
    assert_int_equal(fake.gpus[0].memory_resets + fake.gpus[1].memory_resets, 0);
    assert_int_equal(fake.gpus[2].memory_resets, 1);
    assert_int_equal(restore(), 0);
    check_report(0, 0, 0, 0);
}

/* Changes the boot that a record names, and its checksum (journal.c: FNV-1a). */
static void date_back(const char *uuid)
{
    unsigned char bytes[512];
    uint64_t hash = UINT64_C(14695981039346656037);
    char path[160];
    size_t size;
    FILE *file;

    snprintf(path, sizeof(path), "%s/saved/gpu-%s", directory, uuid);
    file = fopen(path, "r+");
    assert_non_null(file);
    size = fread(bytes, 1, sizeof(bytes), file) - sizeof(hash);
    bytes[16] ^= 1; /* behind the magic number, the version and the size */
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    memcpy(bytes + size, &hash, sizeof(hash));
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, size + sizeof(hash), file), size + sizeof(hash));
    fclose(file);
}

/* A boot has put everything back already. */
static void test_records_of_an_earlier_boot_are_dropped(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    date_back("GPU-0");
    assert_int_equal(restore(), 0);
    check_report(1, 0, 1, 0);
    assert_int_equal(fake.call_count, 1);
    assert_int_equal(fake.calls[0].gpu, 1);
}

static void test_what_the_gpu_cannot_do_is_not_tried(void **state)
{
    (void)state;
    fake.gpus[0].info.capabilities = LULL_CAPABILITY_SM_LOCK;
    fake.gpus[0].limit_mw = 200000;
    save("GPU-0",
         LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[0].limit_calls, 0);
    assert_int_equal(fake.gpus[0].memory_resets, 0);
    check_report(1, 0, 0, 0);
}

static void test_a_limit_is_written_only_if_it_differs(void **state)
{
    struct lull_journal_record unknown = record_of("GPU-1", LULL_CAPABILITY_POWER_LIMIT);

    (void)state;
    save("GPU-0", LULL_CAPABILITY_POWER_LIMIT);
    unknown.power_limit_mw = 0; /* it is left */
    assert_int_equal(lull_journal_save(journal, &unknown, &error), 0);
    fake.gpus[1].limit_mw = 200000;
    save("GPU-2", LULL_CAPABILITY_POWER_LIMIT);
    fake.gpus[2].limit_mw = 200000;
    fake.gpus[2].least_limit_mw = 360000;
    assert_int_equal(restore(), LULL_E_NOT_OBEYED);
    assert_non_null(strstr(error.text, "360000 mW"));
    check_report(2, 1, 0, 1);
    assert_int_equal(fake.gpus[0].limit_calls, 0);
    assert_int_equal(fake.gpus[1].limit_calls, 0);
    assert_int_equal(fake.gpus[2].limit_calls, 1);
}

static void test_an_unreadable_limit_is_written(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_POWER_LIMIT);
    fake.gpus[0].unreadable = LULL_READING_POWER_LIMIT;
    assert_int_equal(restore(), LULL_E_NOT_OBEYED);
    assert_int_equal(fake.gpus[0].limit_calls, 1);
}

/* A failure that may pass is tried three times, 10 and 20 ms apart. */
static void test_passing_failures_are_repeated(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].status = -EAGAIN;
    fake.gpus[0].failures = 2;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.call_count, 3);
    assert_int_equal(fake.calls[1].begin_ns - fake.calls[0].begin_ns,
                     FAKE_CALL_NS + 10 * LULL_NS_PER_MS);
    assert_int_equal(fake.calls[2].begin_ns - fake.calls[1].begin_ns,
                     FAKE_CALL_NS + 20 * LULL_NS_PER_MS);
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].failures = 3;
    assert_int_equal(restore(), -EAGAIN);
    assert_int_equal(fake.call_count, 6);
    check_report(0, 1, 0, 1);
    fake.gpus[0].status = -EIO;
    fake.gpus[0].failures = 1;
    assert_int_equal(restore(), -EIO); /* this one does not pass */
    assert_int_equal(fake.call_count, 7);
}

/* Each control is undone even if the one before failed, and the first failure is told. */
static void test_the_first_failure_is_told(void **state)
{
    (void)state;
    fake.gpus[0].info.capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    fake.gpus[0].limit_mw = 200000;
    save("GPU-0",
         LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    fake.gpus[0].status = -EIO;
    fake.gpus[0].failures = 1;
    assert_int_equal(restore(), -EIO);
    assert_int_equal(fake.call_count, 1);
    assert_int_equal(fake.gpus[0].memory_resets, 1);
    fake.gpus[0].failures = 2; /* the limit and the clock */
    assert_int_equal(restore(), -EIO);
    fake.gpus[0].limit_mw = 350000;
    fake.gpus[0].failures = 1; /* the clock alone */
    assert_int_equal(restore(), -EIO);
    assert_int_equal(restore(), 0);
    /* Of several GPUs the first one's. */
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].failures = fake.gpus[1].failures = 1;
    fake.gpus[1].status = -EPERM;
    assert_int_not_equal(restore(), 0);
    check_report(0, 2, 0, 2);
    assert_int_equal(restore(), 0);
}

static void test_a_clock_that_does_not_rise_is_told(void **state)
{
    int64_t begin_ns;

    (void)state;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].settling_ns = LULL_NS_PER_S;
    fake.gpus[1].locked_mhz = 900;
    fake.gpus[1].settling_ns = 400 * LULL_NS_PER_MS;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    begin_ns = fake_time_ns;
    assert_int_equal(restore(), LULL_E_NOT_OBEYED);
    assert_non_null(strstr(error.text, "900 MHz"));
    check_report(1, 1, 0, 1);
    /* Both are waited for at once, for half a second after the last reset. */
    assert_int_equal(fake_time_ns - begin_ns, 2 * FAKE_CALL_NS + 500 * LULL_NS_PER_MS);
}

static void test_records_that_cannot_be_used(void **state)
{
    struct lull_journal_record other = record_of("GPU-0", LULL_CAPABILITY_POWER_LIMIT);
    char path[128];
    FILE *file;

    (void)state;
    snprintf(other.driver_version, sizeof(other.driver_version), "1");
    assert_int_equal(lull_journal_save(journal, &other, &error), 0);
    fake.gpus[0].limit_mw = 200000; /* another driver's record: the limit is left */
    fake.gpus[0].locked_mhz = 900;
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-1", directory);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("damaged", file);
    fclose(file);
    fake.gpus[1].locked_mhz = 900;
    fake.gpus[1].info.capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    assert_int_equal(restore(), 0);
    check_report(2, 0, 0, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 200000);
    assert_int_equal(fake.gpus[0].locked_mhz + fake.gpus[1].locked_mhz, 0);
    assert_int_equal(fake.gpus[1].memory_resets, 1);
    for (int i = 0; i < 2; i++) { /* both are kept for a person to look at */
        snprintf(path, sizeof(path), "%s/saved/gpu-GPU-%d.aside", directory, i);
        assert_int_equal(access(path, F_OK), 0);
    }
    save("GPU-gone", LULL_CAPABILITY_SM_LOCK);
    assert_int_equal(restore(), LULL_E_NO_DEVICE);
    assert_non_null(strstr(error.text, "GPU-gone"));
    check_report(0, 1, 0, 1);
    assert_int_equal(fake.call_count, 2);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_counts_as_free),
        cmocka_unit_test(test_a_silent_device_is_believed),
        CASE(test_nothing_to_do),
        CASE(test_only_what_the_record_names_is_touched),
        CASE(test_records_of_an_earlier_boot_are_dropped),
        CASE(test_what_the_gpu_cannot_do_is_not_tried),
        CASE(test_a_limit_is_written_only_if_it_differs),
        CASE(test_an_unreadable_limit_is_written),
        CASE(test_passing_failures_are_repeated),
        CASE(test_the_first_failure_is_told),
        CASE(test_a_clock_that_does_not_rise_is_told),
        CASE(test_records_that_cannot_be_used),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
