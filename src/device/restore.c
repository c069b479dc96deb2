/* SPDX-License-Identifier: Apache-2.0 */
#include "device/restore.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

enum {
    ATTEMPTS = 3, /* how often a reset is tried that fails with -EAGAIN; chosen, not measured */
    /* How long the clock has to show the reset: longer than the slowest published settling (48 ms),
       so that the reading is refreshed several times. */
    CONFIRM_MS = 500,
    CONFIRM_STEP_MS = 5,
};

/* Each of these reasons explains a clock below the highest although no lock is left. */
static const uint64_t limiting_reasons = LULL_CLOCK_REASON_IDLE | LULL_CLOCK_REASON_POWER_CAP |
                                         LULL_CLOCK_REASON_THROTTLED |
                                         LULL_CLOCK_REASON_SYNC_BOOST | LULL_CLOCK_REASON_DISPLAY;

/* One GPU that is being restored. */
struct job {
    uint32_t gpu;
    uint32_t before_mhz;
    uint32_t power_limit_mw; /* 0: leave it */
    uint32_t controls;
    int result;
    bool is_set_aside;
    struct lull_error error;
};

bool lull_restore_is_free(const struct lull_device_info *info,
                          const struct lull_device_reading *reading, uint32_t before_mhz)
{
    const uint32_t needed = LULL_READING_SM_CLOCK | LULL_READING_REASONS;

    if ((reading->valid & needed) != needed || info->sm_clock_count == 0)
        return true; /* the device tells nothing, so the driver's success has to suffice */
    if (reading->sm_mhz >= info->sm_clocks_mhz[0] || (reading->reasons & limiting_reasons) != 0)
        return true;
    return before_mhz != 0 && reading->sm_mhz != before_mhz;
}

static int reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    int result = -EAGAIN;

    for (int attempt = 0; attempt < ATTEMPTS && result == -EAGAIN; attempt++) {
        /* A driver that is busy needs some time, and more each time. */
        if (attempt > 0)
            lull_sleep_until_ns(lull_now_ns() + (int64_t)attempt * 10 * LULL_NS_PER_MS);
        result = lull_device_reset_sm(devices, gpu, err);
    }
    return result;
}

static int restore_power_limit(struct lull_devices *devices, const struct job *job,
                               struct lull_error *err)
{
    struct lull_device_reading reading;
    int result = 0;

    lull_device_read(devices, job->gpu, LULL_READING_POWER_LIMIT, &reading);
    if ((reading.valid & LULL_READING_POWER_LIMIT) != 0 &&
        reading.power_limit_mw == job->power_limit_mw)
        return 0;
    result = lull_device_set_power_limit(devices, job->gpu, job->power_limit_mw, err);
    if (result < 0)
        return result;
    lull_device_read(devices, job->gpu, LULL_READING_POWER_LIMIT, &reading);
    if (reading.power_limit_mw != job->power_limit_mw)
        return lull_error_set(err, LULL_E_NOT_OBEYED, "GPU %u: the power limit stays at %u mW",
                              job->gpu, reading.power_limit_mw);
    return 0;
}

/* Undoes every control, even if an earlier one failed. The power limit comes before the clocks. */
static void undo(struct lull_devices *devices, struct job *job)
{
    const uint32_t capabilities = lull_device_info(devices, job->gpu)->capabilities;
    struct lull_device_reading before;
    int result;

    lull_device_read(devices, job->gpu, LULL_READING_SM_CLOCK, &before);
    job->before_mhz = before.sm_mhz;
    if ((job->controls & capabilities & LULL_CAPABILITY_POWER_LIMIT) != 0 &&
        job->power_limit_mw != 0) {
        result = restore_power_limit(devices, job, &job->error);
        job->result = job->result < 0 ? job->result : result;
    }
    if ((job->controls & LULL_CAPABILITY_SM_LOCK) != 0) {
        result = reset_sm(devices, job->gpu, &job->error);
        job->result = job->result < 0 ? job->result : result;
    }
    if ((job->controls & capabilities & LULL_CAPABILITY_MEMORY_LOCK) != 0) {
        result = lull_device_reset_memory(devices, job->gpu, &job->error);
        job->result = job->result < 0 ? job->result : result;
    }
}

static void confirm(struct lull_devices *devices, struct job *job, int64_t until_ns)
{
    const struct lull_device_info *info = lull_device_info(devices, job->gpu);
    struct lull_device_reading reading;

    for (;;) {
        lull_device_read(devices, job->gpu, LULL_READING_SM_CLOCK | LULL_READING_REASONS, &reading);
        if (lull_restore_is_free(info, &reading, job->before_mhz))
            return;
        if (lull_now_ns() >= until_ns)
            break;
        lull_sleep_until_ns(lull_now_ns() + CONFIRM_STEP_MS * LULL_NS_PER_MS);
    }
    job->result = lull_error_set(&job->error, LULL_E_NOT_OBEYED,
                                 "GPU %u: still at %u MHz after the reset, and names no reason; "
                                 "another program may hold its clock",
                                 job->gpu, reading.sm_mhz);
}

/* Fills the job from its record; false: there is nothing to do on the device. */
static bool prepare(struct lull_devices *devices, struct lull_journal *journal, const char *uuid,
                    struct job *job, struct lull_restore_report *report)
{
    struct lull_journal_record record = {0};
    int found = lull_device_find(devices, uuid);
    int result = lull_journal_load(journal, uuid, &record, &job->error);

    if (result == LULL_E_STALE) {
        lull_journal_remove(journal, uuid, NULL);
        report->dropped++;
        return false;
    }
    if (found < 0) {
        job->result = lull_error_set(
            &job->error, LULL_E_NO_DEVICE,
            "GPU %s: its journal says what to restore, but the GPU is not there", uuid);
        return false;
    }
    job->gpu = (uint32_t)found;
    if (result < 0 || strcmp(record.driver_version, lull_devices_driver_version(devices)) != 0) {
        /* What the GPU had before cannot be known: its clocks are reset, its power limit is left
         * alone, and the file is kept for the administrator. */
        lull_log(LULL_LOG_WARNING, "restore",
                 "GPU %s: journal unreadable or of another driver; "
                 "resetting its clocks, file kept aside",
                 uuid);
        job->is_set_aside = true;
        job->controls = LULL_CAPABILITY_SM_LOCK | LULL_CAPABILITY_MEMORY_LOCK;
        return true;
    }
    job->controls = record.controls;
    job->power_limit_mw = record.power_limit_mw;
    return true;
}

static void finish(struct lull_journal *journal, const char *uuid, struct job *job,
                   struct lull_restore_report *report)
{
    if (job->result == 0)
        job->result = job->is_set_aside ? lull_journal_set_aside(journal, uuid, &job->error)
                                        : lull_journal_remove(journal, uuid, &job->error);
    if (job->result == 0) {
        report->restored++;
        lull_log(LULL_LOG_INFO, "restore", "GPU %u: restored (uuid=%s)", job->gpu, uuid);
    } else {
        report->failed++;
        lull_log(LULL_LOG_ERROR, "restore", "%s", job->error.text);
    }
}

int lull_restore_all(struct lull_devices *devices, struct lull_journal *journal,
                     struct lull_restore_report *report_out, struct lull_error *err)
{
    char uuids[LULL_DEVICE_MAX_GPUS][96];
    struct job jobs[LULL_DEVICE_MAX_GPUS] = {0};
    bool is_pending[LULL_DEVICE_MAX_GPUS] = {0};
    struct lull_restore_report report = {0};
    int result = 0;
    int count = lull_journal_list(journal, uuids, LULL_DEVICE_MAX_GPUS, err);
    int64_t until_ns;

    if (count < 0)
        return count;
    if (count > LULL_DEVICE_MAX_GPUS)
        count = LULL_DEVICE_MAX_GPUS;
    /* All resets come before the read-backs, so that the GPUs settle at the same time. */
    for (int i = 0; i < count; i++) {
        is_pending[i] = prepare(devices, journal, uuids[i], &jobs[i], &report);
        if (is_pending[i])
            undo(devices, &jobs[i]);
    }
    until_ns = lull_now_ns() + CONFIRM_MS * LULL_NS_PER_MS;
    for (int i = 0; i < count; i++) {
        if (is_pending[i] && jobs[i].result == 0)
            confirm(devices, &jobs[i], until_ns);
        if (is_pending[i] || jobs[i].result < 0)
            finish(journal, uuids[i], &jobs[i], &report);
        if (jobs[i].result < 0 && result == 0)
            result = lull_error_set(err, jobs[i].result, "%s", jobs[i].error.text);
    }
    *report_out = report;
    return result;
}
