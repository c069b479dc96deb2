/* GPUs that a dead lulld left changed are restored. SPDX-License-Identifier: Apache-2.0 */
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

#define MS LULL_NS_PER_MS

static const struct lull_device_info info = {.sm_clock_count = 4,
                                             .sm_clocks_mhz = {1410, 1200, 900, 210}};

static enum lull_lock_state sight_of(uint32_t sm_mhz, uint64_t reasons, uint32_t last_mhz,
                                     uint32_t before_mhz)
{
    const struct lull_device_reading reading = {
        .valid = LULL_LOCK_STATE_READINGS, .sm_mhz = sm_mhz, .reasons = reasons};
    const struct lull_journal_written written = {.sm_mhz = {last_mhz, before_mhz}};

    return lull_lock_state_of_clock(&info, &reading, &written);
}

static void test_what_a_reading_tells(void **state)
{
    (void)state;
    assert_int_equal(sight_of(1410, 0, 900, 0), LULL_LOCK_FREE); /* the highest clock */
    assert_int_equal(sight_of(1411, LULL_CLOCK_REASON_IDLE, 900, 0), LULL_LOCK_FREE);
    assert_int_equal(sight_of(210, LULL_CLOCK_REASON_IDLE, 210, 0), LULL_LOCK_UNKNOWN);
    assert_int_equal(sight_of(900, 0, 900, 0), LULL_LOCK_OURS);
    assert_int_equal(sight_of(900, 0, 0, 900), LULL_LOCK_OURS);
    assert_int_equal(sight_of(901, 0, 900, 0), LULL_LOCK_OURS); /* readings are one step off */
    assert_int_equal(sight_of(899, 0, 900, 0), LULL_LOCK_OURS);
    assert_int_equal(sight_of(1201, 0, 210, 0), LULL_LOCK_FREE); /* the highest, one step off */
    assert_int_equal(sight_of(1199, 0, 210, 0), LULL_LOCK_FOREIGN);
    assert_int_equal(sight_of(209, 0, 900, 0), LULL_LOCK_FOREIGN);
    assert_int_equal(sight_of(900, 0, 0, 0), LULL_LOCK_FOREIGN);
    /* The cap, heat or application clocks hold it: where it is above Lull's lock, that is gone. */
    assert_int_equal(sight_of(900, LULL_CLOCK_REASON_POWER_CAP, 900, 0), LULL_LOCK_UNKNOWN);
    assert_int_equal(sight_of(900, LULL_CLOCK_REASON_SETTING, 0, 0), LULL_LOCK_UNKNOWN);
    assert_int_equal(sight_of(1201, LULL_CLOCK_REASON_POWER_CAP, 900, 0), LULL_LOCK_FREE);
    assert_int_equal(sight_of(1200, LULL_CLOCK_REASON_POWER_CAP, 900, 0), LULL_LOCK_UNKNOWN);
    assert_int_equal(sight_of(1201, LULL_CLOCK_REASON_POWER_CAP, 210, 1200), LULL_LOCK_UNKNOWN);
}

static void test_a_silent_device_tells_nothing(void **state)
{
    static const struct lull_device_info no_clocks = {0};
    static const struct lull_journal_written written = {.sm_mhz = {900, 0}};
    struct lull_device_reading reading = {.sm_mhz = 900};

    (void)state;
    assert_int_equal(lull_lock_state_of_clock(&info, &reading, &written), LULL_LOCK_UNKNOWN);
    reading.valid = LULL_READING_SM_CLOCK;
    assert_int_equal(lull_lock_state_of_clock(&info, &reading, &written), LULL_LOCK_UNKNOWN);
    reading.sm_mhz = 1201;
    assert_int_equal(lull_lock_state_of_clock(&info, &reading, &written), LULL_LOCK_FREE);
    reading.valid = LULL_READING_REASONS;
    assert_int_equal(lull_lock_state_of_clock(&info, &reading, &written), LULL_LOCK_UNKNOWN);
    reading.valid = LULL_LOCK_STATE_READINGS;
    assert_int_equal(lull_lock_state_of_clock(&no_clocks, &reading, &written), LULL_LOCK_UNKNOWN);
}

/* A reset is confirmed by the highest clock. It is also confirmed by a clock above every earlier
 * lock, if one is known or the GPU was busy, unless the GPU is idle or gives no reasons. */
static void test_what_confirms_a_reset(void **state)
{
    enum { KEPT = LULL_READING_SM_CLOCK | LULL_READING_REASONS };
    static const struct {
        enum lull_lock_state sight;
        uint32_t before_mhz, written_mhz[2];
        bool was_busy;
        uint32_t seen_mhz, valid;
        uint64_t reasons;
        bool is_confirmed;
    } rows[] = {
        {LULL_LOCK_FREE, 0, {0, 0}, false, 1410, KEPT, 0, true},
        {LULL_LOCK_OURS, 210, {900, 0}, true, 1200, KEPT, 0, false},
        /* Nothing is known of a lock, or of the clock before. */
        {LULL_LOCK_FOREIGN, 210, {0, 0}, false, 900, KEPT, 0, false},
        {LULL_LOCK_FOREIGN, 0, {210, 0}, false, 900, KEPT, 0, false},
        {LULL_LOCK_FOREIGN, 210, {210, 0}, false, 900, KEPT, 0, true},
        {LULL_LOCK_FOREIGN, 210, {0, 210}, false, 900, KEPT, 0, true},
        {LULL_LOCK_FOREIGN, 210, {0, 0}, true, 900, KEPT, 0, true},
        {LULL_LOCK_FOREIGN, 210, {900, 0}, true, 900, KEPT, 0, false},
        {LULL_LOCK_FOREIGN, 210, {0, 900}, true, 900, KEPT, 0, false},
        {LULL_LOCK_FOREIGN, 900, {210, 0}, true, 900, KEPT, 0, false},
        /* Power holds the clock, more than a step above the one before. */
        {LULL_LOCK_UNKNOWN, 210, {210, 0}, true, 901, KEPT, LULL_CLOCK_REASON_POWER_CAP, true},
        {LULL_LOCK_UNKNOWN, 210, {210, 0}, true, 900, KEPT, LULL_CLOCK_REASON_POWER_CAP, false},
        {LULL_LOCK_UNKNOWN, 210, {210, 0}, false, 901, KEPT, LULL_CLOCK_REASON_POWER_CAP, false},
        {LULL_LOCK_UNKNOWN, 210, {210, 0}, true, 901, KEPT, LULL_CLOCK_REASON_IDLE, false},
        {LULL_LOCK_UNKNOWN, 210, {210, 0}, true, 901, LULL_READING_SM_CLOCK, 0, false},
    };

    (void)state;
    fake_reset(1);
    fake.gpus[0].info = info;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        const struct lull_device_reading reading = {
            .valid = rows[i].valid, .sm_mhz = rows[i].seen_mhz, .reasons = rows[i].reasons};
        struct job job = {.before_mhz = rows[i].before_mhz, .was_busy = rows[i].was_busy};

        memcpy(job.record.written.sm_mhz, rows[i].written_mhz, sizeof(rows[i].written_mhz));
        if (is_confirmed(NULL, &job, rows[i].sight, &reading) != rows[i].is_confirmed)
            fail_msg("row %zu", i);
    }
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
        .driver_version = "550.54.15",
        .controls = controls,
        .power_limit_mw = 350000,
        /* Long enough ago that the clock has settled. */
        .written = {.sm_at_ns = LULL_NS_PER_S - LULL_LOCK_STATE_SETTLING_NS,
                    .sm_mhz = {900, 0},
                    .limit_mw = {200000, 0}}};

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
    assert_int_equal(report.unconfirmed + report.foreign, 0);
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

/* Profiles that Lull may have added, of those that are requested; or all where that is forced. */
static void test_power_profiles_are_removed(void **state)
{
    const uint32_t both = LULL_POWER_PROFILE_MAX_Q | LULL_POWER_PROFILE_NETWORK;

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct lull_journal_record record =
            record_of(fake.gpus[i].info.uuid, i < 2 ? LULL_CAPABILITY_POWER_PROFILES : 0);

        record.written.profiles = LULL_POWER_PROFILE_MAX_Q;
        assert_int_equal(lull_journal_save(journal, &record, &error), 0);
        fake.gpus[i].info.capabilities |= LULL_CAPABILITY_POWER_PROFILES;
        fake.gpus[i].info.power_profiles = both;
        fake.gpus[i].requested_profiles = both;
    }
    fake.gpus[1].ignores_profiles = true;
    assert_int_equal(restore(), LULL_E_NOT_APPLIED);
    check_report(2, 1, 0, 1);
    assert_int_equal(fake.gpus[0].requested_profiles, LULL_POWER_PROFILE_NETWORK);
    assert_int_equal(fake.gpus[2].requested_profiles, both);
    fake.gpus[1].ignores_profiles = false;
    assert_int_equal(lull_restore_forced(NULL, journal, &report, &error), 0);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(fake.gpus[i].requested_profiles, 0);
}

/* Settings that Lull may have changed; or the switch alone where that is forced. */
static void test_power_smoothing_is_restored(void **state)
{
    static const uint32_t before[] = {0, 500000, 500000, 100, 0, 0};
    static const uint32_t written[] = {40, 8000000, 8000000, 300, 4, 1};

    (void)state;
    for (uint32_t i = 0; i < 3; i++) {
        struct lull_journal_record record =
            record_of(fake.gpus[i].info.uuid, LULL_CAPABILITY_POWER_SMOOTHING);

        record.written.has_smoothing = i < 2;
        memcpy(record.written.smoothing_before, before, sizeof(before));
        memcpy(record.written.smoothing, written, sizeof(written));
        assert_int_equal(lull_journal_save(journal, &record, &error), 0);
        fake.gpus[i].info.capabilities |= LULL_CAPABILITY_POWER_SMOOTHING;
        memcpy(fake.gpus[i].smoothing.items, written, sizeof(written));
    }
    fake.gpus[1].ignores_smoothing = true;
    assert_int_equal(restore(), LULL_E_NOT_APPLIED);
    check_report(2, 1, 0, 1);
    assert_memory_equal(fake.gpus[0].smoothing.items, before, sizeof(before));
    assert_memory_equal(fake.gpus[2].smoothing.items, written, sizeof(written));
    fake.gpus[1].ignores_smoothing = false;
    assert_int_equal(lull_restore_forced(NULL, journal, &report, &error), 0);
    assert_memory_equal(fake.gpus[1].smoothing.items, before, sizeof(before));
    assert_int_equal(fake.gpus[2].smoothing.items[LULL_SMOOTHING_STATE], 0);
}

/* Changes the boot that a record names, and its checksum (journal.c: FNV-1a). */
static void date_back(const char *uuid)
{
    unsigned char bytes[512];
    const size_t checked = 8 + 4 + 4 + 40 + sizeof(struct lull_journal_record);
    uint64_t hash = UINT64_C(14695981039346656037);
    char path[160];
    size_t size;
    FILE *file;

    snprintf(path, sizeof(path), "%s/saved/gpu-%s", directory, uuid);
    file = fopen(path, "r+");
    assert_non_null(file);
    size = fread(bytes, 1, sizeof(bytes), file);
    bytes[16] ^= 1; /* behind the magic number, the version and the size */
    for (size_t i = 0; i < checked; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(1099511628211);
    memcpy(bytes + checked, &hash, sizeof(hash));
    rewind(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

/* A boot has put everything back already. */
static void test_records_of_an_earlier_boot_are_dropped(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[1].locked_mhz = 900;
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
    assert_int_equal(restore(), LULL_E_NOT_APPLIED);
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
    assert_int_equal(restore(), LULL_E_NOT_APPLIED);
    assert_int_equal(fake.gpus[0].limit_calls, 1);
}

/* A failure that may pass is tried three times, 10 and 20 ms apart. */
static void test_passing_failures_are_repeated(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].status = -EAGAIN;
    fake.gpus[0].failures = 2;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.call_count, 3);
    assert_int_equal(fake.calls[1].begin_ns - fake.calls[0].begin_ns,
                     FAKE_CALL_NS + 10 * LULL_NS_PER_MS);
    assert_int_equal(fake.calls[2].begin_ns - fake.calls[1].begin_ns,
                     FAKE_CALL_NS + 20 * LULL_NS_PER_MS);
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].failures = 3;
    assert_int_equal(restore(), -EAGAIN);
    assert_int_equal(fake.call_count, 6);
    check_report(0, 1, 0, 1);
    fake.gpus[0].status = -EIO;
    fake.gpus[0].failures = 1;
    assert_int_equal(restore(), -EIO); /* this one does not pass */
    assert_int_equal(fake.call_count, 7);
}

/* Each control is undone even if the one before failed, and the first failure is reported. */
static void test_the_first_failure_is_told(void **state)
{
    (void)state;
    fake.gpus[0].info.capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    fake.gpus[0].limit_mw = 200000;
    fake.gpus[0].locked_mhz = 900;
    save("GPU-0",
         LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    fake.gpus[0].status = -EIO;
    fake.gpus[0].failures = 1;
    assert_int_equal(restore(), -EIO);
    assert_int_equal(fake.call_count, 1);
    assert_int_equal(fake.gpus[0].memory_resets, 1);
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].failures = 2; /* the limit and the clock */
    assert_int_equal(restore(), -EIO);
    fake.gpus[0].limit_mw = 350000;
    fake.gpus[0].failures = 1; /* the clock alone */
    assert_int_equal(restore(), -EIO);
    assert_int_equal(restore(), 0);
    /* Of several GPUs the first one's. */
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].locked_mhz = fake.gpus[1].locked_mhz = 900;
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
    assert_int_equal(restore(), LULL_E_NOT_APPLIED);
    assert_non_null(strstr(error.text, "900 MHz"));
    check_report(1, 1, 0, 1);
    /* Both are waited for at once, for half a second after the last reset. */
    assert_int_equal(fake_time_ns - begin_ns, 2 * FAKE_CALL_NS + 500 * LULL_NS_PER_MS);
}

static void damage(uint32_t gpu)
{
    char path[128];
    FILE *file;

    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-%u", directory, gpu);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("damaged", file);
    fclose(file);
}

static void test_records_that_cannot_be_used(void **state)
{
    struct lull_journal_record other = record_of("GPU-0", LULL_CAPABILITY_POWER_LIMIT);
    char path[128];

    (void)state;
    snprintf(other.driver_version, sizeof(other.driver_version), "1");
    assert_int_equal(lull_journal_save(journal, &other, &error), 0);
    fake.gpus[0].limit_mw = 400000; /* another driver's record, which has set the default */
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[1].limit_mw = 400000;
    damage(1);
    fake.gpus[1].locked_mhz = 900;
    fake.gpus[1].info.capabilities |= LULL_CAPABILITY_MEMORY_LOCK;
    assert_int_equal(restore(), 0);
    check_report(2, 0, 0, 0);
    assert_int_equal(fake.gpus[0].limit_calls + fake.gpus[1].limit_calls, 0);
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

/* --- F45: what another program has set stays --- */

static void test_f45_a_limit_of_somebody_else_stays(void **state)
{
    static const struct {
        uint32_t last_mw, before_mw, present_mw, left_mw;
    } rows[] = {
        {200000, 0, 200000, 350000},      {200000, 250000, 250000, 350000},
        {0, 250000, 250000, 350000},      {200000, 250000, 350000, 350000},
        {200000, 250000, 300000, 300000}, {200000, 250000, 150000, 150000},
        {200000, 250000, 400000, 400000}, {0, 0, 200000, 200000},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_journal_record record = record_of("GPU-0", LULL_CAPABILITY_POWER_LIMIT);
        const bool is_foreign = rows[i].present_mw == rows[i].left_mw &&
                                rows[i].present_mw != 350000 && rows[i].before_mw != 0;

        record.written.limit_mw[0] = rows[i].last_mw;
        record.written.limit_mw[1] = rows[i].before_mw;
        assert_int_equal(lull_journal_save(journal, &record, &error), 0);
        fake.gpus[0].limit_mw = rows[i].present_mw;
        assert_int_equal(restore(), 0);
        assert_int_equal(fake.gpus[0].limit_mw, rows[i].left_mw);
        assert_int_equal(report.foreign, is_foreign ? 1 : 0);
        assert_int_equal(report.restored, is_foreign ? 0 : 1);
    }
}

static void test_f45_a_lock_of_somebody_else_stays(void **state)
{
    static const struct {
        uint32_t last_mhz, before_mhz, present_mhz, left_mhz;
    } rows[] = {
        {900, 0, 900, 0},   {0, 900, 900, 0},      {600, 900, 900, 0},
        {200, 0, 900, 900}, {1200, 900, 200, 200}, {0, 0, 900, 900},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct lull_journal_record record = record_of("GPU-0", LULL_CAPABILITY_SM_LOCK);

        fake_reset(1);
        record.written.sm_mhz[0] = rows[i].last_mhz;
        record.written.sm_mhz[1] = rows[i].before_mhz;
        assert_int_equal(lull_journal_save(journal, &record, &error), 0);
        fake.gpus[0].locked_mhz = rows[i].present_mhz;
        assert_int_equal(restore(), 0);
        assert_int_equal(fake.gpus[0].locked_mhz, rows[i].left_mhz);
        assert_int_equal(report.foreign, i == 3 || i == 4 ? 1 : 0);
        assert_int_equal(fake.call_count, rows[i].left_mhz == 0 ? 1 : 0);
    }
}

/* Just after a writing the clock may still be on its way, and its reading is old. */
static void test_f45_a_clock_on_its_way_is_not_judged(void **state)
{
    struct lull_journal_record record = record_of("GPU-0", LULL_CAPABILITY_SM_LOCK);

    (void)state;
    record.written.sm_at_ns = fake_time_ns - LULL_LOCK_STATE_SETTLING_NS + 1;
    assert_int_equal(lull_journal_save(journal, &record, &error), 0);
    fake.gpus[0].old_mhz = 1400; /* the reading says that nothing is locked */
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].effect_ns = fake_time_ns + MS;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    /* Long after it, a free clock has to be reset no more: it might be held at its highest. */
    save("GPU-1", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[1].locked_mhz = 1400;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[1].locked_mhz, 1400);
    check_report(1, 0, 0, 0);
}

/* A clock that comes up from idle is no lock: it is looked at until it stays. */
static void test_f45_a_clock_that_moves_is_nobodys(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].old_mhz = 200;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].effect_ns = fake_time_ns + 20 * MS;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    check_report(1, 0, 0, 0);
}

/* --- F46: success is said only when it is seen --- */

static bool is_deferred(const char *uuid)
{
    struct lull_journal_record record;

    return lull_journal_load_deferred(journal, uuid, &record, NULL) == 0;
}

static void test_f46_an_idle_gpu_stays_unconfirmed_until_it_is_busy(void **state)
{
    char uuids[1][96];

    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].free_mhz = 200;
    fake.gpus[0].reasons = LULL_CLOCK_REASON_IDLE;
    fake.gpus[0].ineffective = 1;
    assert_int_equal(restore(), 0);
    assert_int_equal(report.unconfirmed, 1);
    assert_int_equal(report.restored, 0);
    assert_true(fake_time_ns < LULL_NS_PER_S + 10 * MS); /* nothing is waited for */
    assert_int_equal(lull_journal_list(journal, uuids, 1, &error), 0);
    assert_true(is_deferred("GPU-0"));
    /* As long as it is idle another reset shows no more, and could undo another program's lock. */
    assert_int_equal(restore(), 0);
    assert_int_equal(report.unconfirmed, 1);
    assert_int_equal(fake.call_count, 1);
    assert_true(is_deferred("GPU-0"));
    fake.gpus[0].free_mhz = 1400;
    fake.gpus[0].reasons = 0;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.call_count, 2);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    check_report(1, 0, 0, 0);
    assert_false(is_deferred("GPU-0"));
}

static void test_f46_a_lock_set_while_unconfirmed_stays(void **state)
{
    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK);
    fake.gpus[0].reasons = LULL_CLOCK_REASON_IDLE;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].free_mhz = 200;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    fake.gpus[0].locked_mhz = 200;
    fake.gpus[0].free_mhz = 1400;
    fake.gpus[0].reasons = 0;
    assert_int_equal(restore(), 0);
    assert_int_equal(report.foreign, 1);
    assert_int_equal(fake.gpus[0].locked_mhz, 200);
    assert_false(is_deferred("GPU-0"));
}

static void test_f46_a_damaged_journal_is_not_success(void **state)
{
    char path[128];

    (void)state;
    save("GPU-0", LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_POWER_LIMIT);
    damage(0);
    fake.gpus[0].limit_mw = 150000;
    fake.gpus[0].locked_mhz = 900;
    assert_int_equal(restore(), -ENODATA);
    assert_non_null(strstr(error.text, "150 W"));
    assert_non_null(strstr(error.text, "--force"));
    check_report(0, 1, 0, 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 150000); /* it may be an administrator's */
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0.aside", directory);
    assert_int_equal(access(path, F_OK), 0);
    damage(0); /* the second one does not replace the first */
    assert_int_equal(restore(), -ENODATA);
    assert_int_equal(access(path, F_OK), 0);
    snprintf(path, sizeof(path), "%s/saved/gpu-GPU-0.aside2", directory);
    assert_int_equal(access(path, F_OK), 0);
    /* On an idle GPU its reset is to be seen as well. */
    damage(0);
    fake.gpus[0].limit_mw = 400000;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].free_mhz = 200;
    fake.gpus[0].reasons = LULL_CLOCK_REASON_IDLE;
    fake.gpus[0].ineffective = 1;
    assert_int_equal(restore(), 0);
    assert_int_equal(report.unconfirmed, 1);
    fake.gpus[0].reasons = 0;
    fake.gpus[0].free_mhz = 1400;
    assert_int_equal(restore(), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    check_report(1, 0, 0, 0);
}

/* A busy GPU that power holds below its highest clock: without a record that can be read, the clock
 * before the reset says what a rise has to exceed, and it does not count as idle. */
static void test_f46_a_busy_gpu_with_a_damaged_journal_is_not_called_idle(void **state)
{
    (void)state;
    damage(0);
    damage(1);
    damage(2);
    for (int i = 0; i < 3; i++) {
        fake.gpus[i].limit_mw = 400000;
        fake.gpus[i].locked_mhz = 900;
        fake.gpus[i].reasons = LULL_CLOCK_REASON_POWER_CAP;
    }
    fake.gpus[0].free_mhz = 1300;
    fake.gpus[1].free_mhz =
        lull_lock_state_step_above(&fake.gpus[1].info, 900); /* a reading's error */
    fake.gpus[2].free_mhz = 1300;
    fake.gpus[2].ineffective = 1;
    assert_int_equal(restore(), 0);
    assert_int_equal(report.restored, 1);
    assert_int_equal(report.unconfirmed, 2);
    assert_int_equal(report.idle, 0);
    assert_false(is_deferred("GPU-0"));
    assert_true(is_deferred("GPU-1"));
    assert_true(is_deferred("GPU-2"));
    fake.gpus[1].reasons |= LULL_CLOCK_REASON_IDLE;
    assert_int_equal(restore(), 0);
    assert_int_equal(report.unconfirmed, 2);
    assert_int_equal(report.idle, 1);
}

static int force(void)
{
    memset(&report, 0xff, sizeof(report));
    return lull_restore_forced(NULL, journal, &report, &error);
}

static void test_f46_force_needs_no_journal(void **state)
{
    (void)state;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].limit_mw = 150000;
    fake.gpus[1].locked_mhz = 1200;
    fake.gpus[1].info.capabilities = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK;
    save("GPU-1", LULL_CAPABILITY_SM_LOCK); /* the lock is none of Lull's: it is reset even so */
    damage(2);
    fake.gpus[2].limit_mw = 300000;
    assert_int_equal(force(), 0);
    check_report(3, 0, 0, 0);
    assert_int_equal(fake.gpus[0].locked_mhz + fake.gpus[1].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 400000);
    assert_int_equal(fake.gpus[1].limit_mw, 350000);
    assert_int_equal(fake.gpus[1].memory_resets, 1);
    assert_int_equal(fake.gpus[2].limit_mw, 400000);
    /* Only a record that could not be read is kept aside. */
    for (int i = 0; i < 3; i++) {
        char path[128];

        snprintf(path, sizeof(path), "%s/saved/gpu-GPU-%d.aside", directory, i);
        assert_int_equal(access(path, F_OK) == 0, i == 2);
    }
    /* It says what it cannot do, and what it cannot see. */
    fake.gpus[0].info.power_limit_default_mw = 0;
    fake.gpus[1].reasons = LULL_CLOCK_REASON_IDLE;
    fake.gpus[1].free_mhz = 200;
    assert_int_equal(force(), LULL_E_UNSUPPORTED);
    assert_int_equal(report.failed, 1);
    assert_int_equal(report.unconfirmed, 1);
    assert_int_equal(report.restored, 1);
    assert_true(is_deferred("GPU-1"));
}

/* A GPU that could not be reset has a record, so that the writer and the next start try again. */
static void test_a_failed_reset_leaves_a_record(void **state)
{
    struct lull_journal_record record;

    (void)state;
    fake.gpus[0].locked_mhz = 900;
    fake.gpus[0].limit_mw = 150000;
    fake.gpus[0].failures = UINT32_MAX;
    fake.gpus[0].status = -EIO;
    assert_int_equal(force(), -EIO);
    assert_int_equal(report.failed, 1);
    assert_int_equal(lull_journal_load(journal, "GPU-0", &record, NULL), 0);
    assert_int_equal(record.is_blind, 1);
    assert_int_equal(record.power_limit_mw, 400000);
    assert_int_equal(lull_journal_load(journal, "GPU-1", &record, NULL), -ENOENT);
    fake.gpus[0].failures = 0;
    assert_int_equal(lull_restore_all(NULL, journal, &report, NULL), 0);
    assert_int_equal(fake.gpus[0].locked_mhz, 0);
    assert_int_equal(fake.gpus[0].limit_mw, 400000);
    assert_int_equal(lull_journal_load(journal, "GPU-0", &record, NULL), -ENOENT);
}

#define CASE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_a_reading_tells),
        cmocka_unit_test(test_what_confirms_a_reset),
        cmocka_unit_test(test_a_silent_device_tells_nothing),
        CASE(test_nothing_to_do),
        CASE(test_only_what_the_record_names_is_touched),
        CASE(test_power_profiles_are_removed),
        CASE(test_power_smoothing_is_restored),
        CASE(test_records_of_an_earlier_boot_are_dropped),
        CASE(test_what_the_gpu_cannot_do_is_not_tried),
        CASE(test_a_limit_is_written_only_if_it_differs),
        CASE(test_an_unreadable_limit_is_written),
        CASE(test_passing_failures_are_repeated),
        CASE(test_the_first_failure_is_told),
        CASE(test_a_clock_that_does_not_rise_is_told),
        CASE(test_records_that_cannot_be_used),
        CASE(test_f45_a_limit_of_somebody_else_stays),
        CASE(test_f45_a_lock_of_somebody_else_stays),
        CASE(test_f45_a_clock_on_its_way_is_not_judged),
        CASE(test_f45_a_clock_that_moves_is_nobodys),
        CASE(test_f46_an_idle_gpu_stays_unconfirmed_until_it_is_busy),
        CASE(test_f46_a_lock_set_while_unconfirmed_stays),
        CASE(test_f46_a_damaged_journal_is_not_success),
        CASE(test_f46_a_busy_gpu_with_a_damaged_journal_is_not_called_idle),
        CASE(test_f46_force_needs_no_journal),
        CASE(test_a_failed_reset_leaves_a_record),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
