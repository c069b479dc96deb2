/* SPDX-License-Identifier: Apache-2.0 */
#include "device/restore.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/fault.h"
#include "device/lock_state.h"
#include "device/smoothing_control.h"

enum {
    ATTEMPTS = 3, /* attempts at a reset whose failure may pass; */
    /* Time for the clock to show the reset: longer than the slowest published settling (48 ms), so
       that the reading is refreshed several times. */
    CONFIRM_MS = 500,
    CONFIRM_STEP_MS = 5,
    /* A clock on its way up from idle settles within 48 ms; a lock stays for four looks. */
    LOOKS = 4,
    LOOK_STEP_MS = 50,
};

/* One GPU that is being restored. */
struct job {
    uint32_t gpu;
    bool is_forced;      /* other programs' settings are reset as well */
    bool is_set_aside;   /* its record cannot be used */
    bool was_deferred;   /* it was reset before */
    bool is_foreign;     /* another program's setting was found */
    bool is_resetting;   /* its clock was reset and is to be seen free */
    bool is_unseen;      /* and could not be seen */
    bool is_idle;        /* because the GPU is idle... */
    bool is_untold;      /* ...or for a reason that its driver does not give */
    uint32_t before_mhz; /* the clock before the reset; 0 unknown */
    bool was_busy;       /* and the GPU was not idle then */
    struct lull_journal_record record;
    int result;
    struct lull_error error;
};

/* Keeps the first failure of a job. */
static void take_failure(struct job *job, int result, const struct lull_error *error)
{
    if (result >= 0 || job->result < 0)
        return;
    job->result = result;
    job->error = *error;
}

static int reset_sm(struct lull_devices *devices, uint32_t gpu, struct lull_error *err)
{
    int result = -EAGAIN;

    for (int attempt = 0; attempt < ATTEMPTS && lull_fault_of(result) == LULL_FAULT_PASSING;
         attempt++) {
        /* A driver that is busy needs some time, and more each time. */
        if (attempt > 0)
            lull_sleep_until_ns(lull_now_ns() + (int64_t)attempt * 10 * LULL_NS_PER_MS);
        result = lull_device_reset_sm(devices, gpu, err);
    }
    return result;
}

/* --- power limit --- */

static uint32_t restore_read_limit_mw(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_device_reading reading;

    lull_device_read(devices, gpu, LULL_READING_POWER_LIMIT, &reading);
    return (reading.valid & LULL_READING_POWER_LIMIT) != 0 ? reading.power_limit_mw : 0;
}

static int restore_set_limit(struct lull_devices *devices, uint32_t gpu, uint32_t limit_mw,
                             struct lull_error *err)
{
    uint32_t seen_mw = restore_read_limit_mw(devices, gpu);
    int result;

    if (seen_mw == limit_mw)
        return 0;
    result = lull_device_set_power_limit(devices, gpu, limit_mw, err);
    if (result < 0)
        return result;
    seen_mw = restore_read_limit_mw(devices, gpu);
    if (seen_mw == 0)
        return lull_error_set(err, LULL_E_NOT_APPLIED,
                              "GPU %u: a power limit of %u mW was set, but it cannot be read back",
                              gpu, limit_mw);
    if (seen_mw != limit_mw)
        return lull_error_set(err, LULL_E_NOT_APPLIED, "GPU %u: the power limit stays at %u mW",
                              gpu, seen_mw);
    return 0;
}

static int reset_limit(struct lull_devices *devices, const struct job *job, struct lull_error *err)
{
    const uint32_t default_mw = lull_device_info(devices, job->gpu)->power_limit_default_mw;

    if (default_mw == 0)
        return lull_error_set(err, LULL_E_UNSUPPORTED,
                              "GPU %u: its driver reports no default power limit; set it yourself",
                              job->gpu);
    return restore_set_limit(devices, job->gpu, default_mw, err);
}

/* The previous limit cannot be known. The default may be above an administrator's cap, so only an
 * administrator may set it. */
static int judge_lost_limit(struct lull_devices *devices, const struct job *job,
                            struct lull_error *err)
{
    const uint32_t default_mw = lull_device_info(devices, job->gpu)->power_limit_default_mw;
    const uint32_t present_mw = restore_read_limit_mw(devices, job->gpu);

    if (present_mw == 0 || present_mw == default_mw)
        return 0;
    return lull_error_set(
        err, -ENODATA,
        "GPU %u: its journal cannot be used, and its power limit is %u W instead of the default %u "
        "W; if that is not intended, `lull restore --force` sets the default",
        job->gpu, present_mw / 1000, default_mw / 1000);
}

static int put_limit_back(struct lull_devices *devices, struct job *job, struct lull_error *err)
{
    const uint32_t before_mw = job->record.power_limit_mw;
    const uint32_t *const written_mw = job->record.written.limit_mw;
    const uint32_t present_mw = restore_read_limit_mw(devices, job->gpu);

    if (before_mw == 0 || (written_mw[0] == 0 && written_mw[1] == 0))
        return 0;
    if (present_mw == 0 || present_mw == before_mw || present_mw == written_mw[0] ||
        present_mw == written_mw[1])
        return restore_set_limit(devices, job->gpu, before_mw, err);
    job->is_foreign = true;
    lull_log(
        LULL_LOG_WARNING, "restore",
        "GPU %u: its power limit is %u W, which Lull has not set: it stays (it was %u W before "
        "Lull)",
        job->gpu, present_mw / 1000, before_mw / 1000);
    return 0;
}

static void restore_limit(struct lull_devices *devices, struct job *job)
{
    struct lull_error error = {0};
    int result = 0;

    if ((lull_device_info(devices, job->gpu)->capabilities & LULL_CAPABILITY_POWER_LIMIT) == 0)
        return;
    if (job->is_forced)
        result = reset_limit(devices, job, &error);
    else if (job->is_set_aside)
        result = judge_lost_limit(devices, job, &error);
    else if ((job->record.controls & LULL_CAPABILITY_POWER_LIMIT) != 0)
        result = put_limit_back(devices, job, &error);
    take_failure(job, result, &error);
}

/* --- power profiles --- */

static void restore_profiles(struct lull_devices *devices, struct job *job)
{
    struct lull_device_reading reading;
    struct lull_error error = {0};
    uint32_t profiles = 0;
    int result;

    if ((lull_device_info(devices, job->gpu)->capabilities & LULL_CAPABILITY_POWER_PROFILES) == 0)
        return;
    if (job->is_forced)
        profiles = lull_device_info(devices, job->gpu)->power_profiles;
    else if ((job->record.controls & LULL_CAPABILITY_POWER_PROFILES) != 0)
        profiles = job->record.written.profiles;
    lull_device_read(devices, job->gpu, LULL_READING_PROFILES, &reading);
    if ((reading.valid & LULL_READING_PROFILES) != 0)
        profiles &= reading.requested_profiles;
    if (profiles == 0)
        return;
    result = lull_device_remove_profiles(devices, job->gpu, profiles, &error);
    lull_device_read(devices, job->gpu, LULL_READING_PROFILES, &reading);
    if (result == 0 && ((reading.valid & LULL_READING_PROFILES) == 0 ||
                        (reading.requested_profiles & profiles) != 0))
        result = lull_error_set(
            &error, LULL_E_NOT_APPLIED,
            "GPU %u: power profiles 0x%x were removed, but the driver does not confirm it",
            job->gpu, profiles);
    take_failure(job, result, &error);
}

/* --- power smoothing --- */

/* Restores the settings that the record names, one driver call at a time. */
static int restore_settings(struct lull_devices *devices, const struct job *job,
                            struct lull_error *err)
{
    const struct lull_journal_written *written = &job->record.written;
    struct lull_smoothing_control control = {0};
    int result = 0;

    lull_smoothing_control_inherit(&control, written->smoothing_before, written->smoothing);
    while (result == 0 && control.is_own) {
        result = lull_smoothing_control_look(&control, devices, job->gpu, err);
        if (result == 0 && control.is_own)
            result = lull_smoothing_control_act(&control, devices, job->gpu, err);
    }
    return result;
}

static void restore_smoothing(struct lull_devices *devices, struct job *job)
{
    struct lull_device_reading reading;
    struct lull_error error = {0};
    int result = 0;

    if ((lull_device_info(devices, job->gpu)->capabilities & LULL_CAPABILITY_POWER_SMOOTHING) == 0)
        return;
    if ((job->record.controls & LULL_CAPABILITY_POWER_SMOOTHING) != 0 &&
        job->record.written.has_smoothing != 0)
        result = restore_settings(devices, job, &error);
    lull_device_read(devices, job->gpu, LULL_READING_SMOOTHING, &reading);
    if (result == 0 && job->is_forced && reading.is_smoothing)
        result = lull_device_set_smoothing(devices, job->gpu, LULL_SMOOTHING_STATE, 0, &error);
    take_failure(job, result, &error);
}

/* --- clock --- */

static enum lull_lock_state restore_read_device(struct lull_devices *devices, struct job *job,
                                                struct lull_device_reading *reading_out)
{
    lull_device_read(devices, job->gpu, LULL_LOCK_STATE_READINGS, reading_out);
    return lull_lock_state_of_clock(lull_device_info(devices, job->gpu), reading_out,
                                    &job->record.written);
}

/* Reads until it is clear which program has set the clock. */
static enum lull_lock_state find_owner(struct lull_devices *devices, struct job *job,
                                       struct lull_device_reading *reading_out)
{
    const int64_t since_ns = lull_now_ns() - job->record.written.sm_at_ns;
    enum lull_lock_state lock_state = restore_read_device(devices, job, reading_out);
    uint32_t seen_mhz = reading_out->sm_mhz;

    if (since_ns < LULL_LOCK_STATE_SETTLING_NS && !job->was_deferred)
        return LULL_LOCK_OURS; /* the clock may still be on its way to what was written last */
    for (int i = 1; i < LOOKS && lock_state == LULL_LOCK_FOREIGN; i++) {
        lull_sleep_until_ns(lull_now_ns() + LOOK_STEP_MS * LULL_NS_PER_MS);
        lock_state = restore_read_device(devices, job, reading_out);
        if (lock_state == LULL_LOCK_FOREIGN && reading_out->sm_mhz != seen_mhz)
            lock_state = LULL_LOCK_UNKNOWN; /* a clock that moves is held by no lock */
    }
    return lock_state;
}

/* Notes why the effect of a reset is not seen. */
static void note_unseen(struct lull_devices *devices, struct job *job)
{
    struct lull_device_reading reading;

    lull_device_read(devices, job->gpu, LULL_LOCK_STATE_IDLE_READINGS, &reading);
    job->is_unseen = true;
    job->is_idle = lull_lock_state_seems_idle(&reading);
    job->is_untold = !job->is_idle && (reading.valid & LULL_READING_REASONS) == 0;
}

/* Returns whether the clock is to be reset. */
static bool wants_reset(struct lull_devices *devices, struct job *job)
{
    const struct lull_device_info *info = lull_device_info(devices, job->gpu);
    struct lull_device_reading reading;
    enum lull_lock_state lock_state;

    if (job->is_forced || job->is_set_aside)
        return true;
    if ((job->record.controls & LULL_CAPABILITY_SM_LOCK) == 0)
        return false;
    if (job->record.is_blind == 0 && job->record.written.sm_mhz[0] == 0 &&
        job->record.written.sm_mhz[1] == 0)
        return false; /* it was never lowered */
    lock_state = find_owner(devices, job, &reading);
    /* A reading may be off by one step, so a lock this high cannot be distinguished from none. */
    if (lock_state == LULL_LOCK_FREE &&
        (lull_lock_state_is_high(info, job->record.written.sm_mhz[0]) ||
         lull_lock_state_is_high(info, job->record.written.sm_mhz[1])))
        return true;
    if (lock_state == LULL_LOCK_UNKNOWN && job->was_deferred) {
        /* It was reset before. Another reset would show no more, and might undo what an
         * administrator has set since. */
        note_unseen(devices, job);
        return false;
    }
    if (lock_state == LULL_LOCK_FOREIGN && job->record.is_blind == 0) {
        job->is_foreign = true;
        lull_log(LULL_LOG_WARNING, "restore",
                 "GPU %u: it runs at %u MHz, which Lull has not set, and no reason is reported: "
                 "another program's setting, which stays",
                 job->gpu, reading.sm_mhz);
        return false;
    }
    return lock_state != LULL_LOCK_FREE;
}

static void restore_clocks(struct lull_devices *devices, struct job *job)
{
    const uint32_t capabilities = lull_device_info(devices, job->gpu)->capabilities;
    const bool is_any = job->is_forced || job->is_set_aside;
    struct lull_device_reading before;
    struct lull_error error = {0};

    if (wants_reset(devices, job)) {
        lull_device_read(devices, job->gpu, LULL_LOCK_STATE_READINGS, &before);
        job->before_mhz = before.sm_mhz;
        job->was_busy =
            (before.valid & LULL_READING_REASONS) != 0 && !lull_lock_state_is_idle(&before);
        take_failure(job, reset_sm(devices, job->gpu, &error), &error);
        job->is_resetting = job->result == 0;
    }
    if ((capabilities & LULL_CAPABILITY_MEMORY_LOCK) != 0 &&
        (is_any || (job->record.controls & LULL_CAPABILITY_MEMORY_LOCK) != 0))
        take_failure(job, lull_device_reset_memory(devices, job->gpu, &error), &error);
}

/* Returns whether a reading after the reset shows that it has had an effect: the clock is not at
 * its highest, but above every lock that was. If no record names the lock, the clock that the GPU
 * had while it was busy bounds it, also where power or heat hold the clock now. */
static bool is_confirmed(const struct lull_devices *devices, const struct job *job,
                         enum lull_lock_state lock_state, const struct lull_device_reading *reading)
{
    const uint32_t *const written_mhz = job->record.written.sm_mhz;
    const bool is_known = written_mhz[0] != 0 || written_mhz[1] != 0 || job->was_busy;

    if (lock_state == LULL_LOCK_FREE)
        return true;
    if (job->before_mhz == 0 || !is_known || reading->sm_mhz <= written_mhz[0] ||
        reading->sm_mhz <= written_mhz[1])
        return false;
    if (lock_state == LULL_LOCK_FOREIGN)
        return reading->sm_mhz > job->before_mhz;
    return lock_state == LULL_LOCK_UNKNOWN && job->was_busy &&
           (reading->valid & LULL_READING_REASONS) != 0 && !lull_lock_state_is_idle(reading) &&
           reading->sm_mhz >
               lull_lock_state_step_above(lull_device_info(devices, job->gpu), job->before_mhz);
}

/* Waits until the clock shows the reset. An idle GPU will not, so nothing is waited for there. */
static void restore_confirm(struct lull_devices *devices, struct job *job, int64_t until_ns)
{
    struct lull_device_reading reading;
    enum lull_lock_state lock_state;

    for (;;) {
        lock_state = restore_read_device(devices, job, &reading);
        if (is_confirmed(devices, job, lock_state, &reading))
            return;
        if (lull_lock_state_is_idle(&reading) || lull_now_ns() >= until_ns)
            break;
        lull_sleep_until_ns(lull_now_ns() + CONFIRM_STEP_MS * LULL_NS_PER_MS);
    }
    if (lock_state == LULL_LOCK_UNKNOWN)
        note_unseen(devices, job);
    else
        job->result =
            lull_error_set(&job->error, LULL_E_NOT_APPLIED,
                           "GPU %u: still at %u MHz after the reset, and names no reason; "
                           "another program may hold its clock",
                           job->gpu, reading.sm_mhz);
}

/* --- records --- */

/* Fills the job from its record; false: there is nothing to do on the device. */
static bool restore_prepare(struct lull_devices *devices, struct lull_journal *journal,
                            const char *uuid, struct job *job, struct lull_restore_report *report)
{
    int found = lull_device_find(devices, uuid);
    int result = lull_journal_load(journal, uuid, &job->record, &job->error);

    if (result == LULL_E_STALE) {
        lull_journal_remove(journal, uuid, NULL);
        lull_log(LULL_LOG_INFO, "restore",
                 "GPU %s: its record is of an earlier boot, which has undone it; dropped", uuid);
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
    if (result < 0 ||
        strcmp(job->record.driver_version, lull_devices_driver_version(devices)) != 0) {
        /* The GPU's previous settings cannot be known: its clocks are reset, its power limit is
         * left unchanged, and the file is kept for the administrator. */
        lull_log(LULL_LOG_WARNING, "restore",
                 "GPU %s: journal unreadable or of another version or driver; resetting its "
                 "clocks, file renamed",
                 uuid);
        job->is_set_aside = true;
        job->record = (struct lull_journal_record){0};
    }
    return true;
}

/* Returns a record that says no more than that any clock may be locked. */
static struct lull_journal_record blind_record(struct lull_devices *devices, uint32_t gpu)
{
    struct lull_journal_record record = {.controls = LULL_CAPABILITY_SM_LOCK, .is_blind = 1};

    memcpy(record.uuid, lull_device_info(devices, gpu)->uuid, sizeof(record.uuid));
    snprintf(record.driver_version, sizeof(record.driver_version), "%s",
             lull_devices_driver_version(devices));
    return record;
}

/* Replaces the record by one that says no more than that the clock was reset. */
static int save_blind(struct lull_devices *devices, struct lull_journal *journal,
                      const struct job *job, struct lull_error *err)
{
    const struct lull_journal_record record = blind_record(devices, job->gpu);

    return lull_journal_save(journal, &record, err);
}

/* Records what a GPU without a record is to be reset to, because that has failed: the device writer
 * and the next start try again. */
static void save_unreset(struct lull_devices *devices, struct lull_journal *journal,
                         const struct job *job)
{
    const uint32_t default_mw = lull_device_info(devices, job->gpu)->power_limit_default_mw;
    const uint32_t present_mw = restore_read_limit_mw(devices, job->gpu);
    struct lull_journal_record record = blind_record(devices, job->gpu);
    struct lull_error error;

    if (default_mw != 0 && present_mw != default_mw) {
        record.controls |= LULL_CAPABILITY_POWER_LIMIT;
        record.power_limit_mw = record.power_limit_default_mw = default_mw;
        record.written.limit_mw[0] = present_mw;
    }
    if (lull_journal_save(journal, &record, &error) < 0)
        lull_log(LULL_LOG_ERROR, "restore", "%s", error.text);
}

static const char *why_unseen(const struct job *job)
{
    if (job->is_idle)
        return "it is idle";
    return job->is_untold ? "its driver gives no reason for the low clock"
                          : "its driver names something else that holds it";
}

/* Removes, defers or keeps the record, as the device has shown itself. */
static void settle_record(struct lull_devices *devices, struct lull_journal *journal,
                          const char *uuid, struct job *job)
{
    struct lull_error error = {0};
    int result = 0;

    if (job->is_set_aside && (job->result == 0 || job->result == -ENODATA)) {
        result = lull_journal_set_aside(journal, uuid, &error);
        take_failure(job, result < 0 && result != -ENOENT ? result : 0, &error);
    }
    if (job->result < 0 && job->result != -ENODATA) {
        if (job->is_forced && !job->is_set_aside && job->record.uuid[0] == '\0')
            save_unreset(devices, journal, job);
        return;
    }
    if (!job->is_unseen) {
        take_failure(job, lull_journal_remove(journal, uuid, &error), &error);
        return;
    }
    if (job->is_set_aside || job->is_forced)
        result = save_blind(devices, journal, job, &error);
    if (result == 0)
        result = lull_journal_defer(journal, uuid, &error);
    take_failure(job, result, &error);
}

static void restore_finish(struct lull_devices *devices, struct lull_journal *journal,
                           const char *uuid, struct job *job, struct lull_restore_report *report)
{
    settle_record(devices, journal, uuid, job);
    if (job->result < 0) {
        report->failed++;
        lull_log(LULL_LOG_ERROR, "restore", "%s", job->error.text);
    } else if (job->is_unseen) {
        report->unconfirmed++;
        report->idle += job->is_idle;
        report->untold += job->is_untold;
        lull_log(LULL_LOG_INFO, "restore",
                 "GPU %u: its clock was reset; it will be verified when the GPU is next busy: %s "
                 "(uuid=%s)",
                 job->gpu, why_unseen(job), uuid);
    } else if (job->is_foreign) {
        report->foreign++;
    } else {
        report->restored++;
        lull_log(LULL_LOG_INFO, "restore", "GPU %u: restored (uuid=%s)", job->gpu, uuid);
    }
}

/* Brings the records of GPUs that were reset before back among the others. Those that have a newer
 * record need the old one no more. */
static void resume_deferred(struct lull_devices *devices, struct lull_journal *journal,
                            bool *was_deferred)
{
    for (uint32_t gpu = 0; gpu < lull_devices_count(devices); gpu++) {
        const char *uuid = lull_device_info(devices, gpu)->uuid;
        int result = lull_journal_resume(journal, uuid, NULL);

        was_deferred[gpu] = result == 0;
        if (result == -EEXIST)
            lull_journal_remove_deferred(journal, uuid, NULL);
    }
}

/* Lists the GPUs to restore: those with a record, or all. */
static int restore_list_records(struct lull_devices *devices, struct lull_journal *journal,
                                bool is_forced, char (*uuids_out)[96], struct lull_error *err)
{
    int count = lull_journal_list(journal, uuids_out, LULL_DEVICE_MAX_GPUS, err);

    if (is_forced && count >= 0) {
        count = (int)lull_devices_count(devices);
        for (int i = 0; i < count; i++)
            memcpy(uuids_out[i], lull_device_info(devices, (uint32_t)i)->uuid,
                   sizeof(uuids_out[i]));
    }
    return count < LULL_DEVICE_MAX_GPUS ? count : LULL_DEVICE_MAX_GPUS;
}

/* Begins with one GPU; false: there is nothing to do on the device. */
static bool restore_begin(struct lull_devices *devices, struct lull_journal *journal,
                          const char *uuid, bool is_forced, const bool *was_deferred,
                          struct job *job, struct lull_restore_report *report)
{
    if (is_forced) {
        struct lull_error error;
        int result = lull_journal_load(journal, uuid, &job->record, &error);

        job->is_set_aside = result < 0 && result != -ENOENT && result != LULL_E_STALE;
        job->is_forced = true;
        job->gpu = (uint32_t)lull_device_find(devices, uuid);
    } else if (!restore_prepare(devices, journal, uuid, job, report)) {
        return false;
    }
    job->was_deferred = was_deferred[job->gpu];
    restore_limit(devices, job);
    restore_profiles(devices, job);
    restore_smoothing(devices, job);
    restore_clocks(devices, job);
    return true;
}

static int restore_gpus(struct lull_devices *devices, struct lull_journal *journal, bool is_forced,
                        struct lull_restore_report *report_out, struct lull_error *err)
{
    char uuids[LULL_DEVICE_MAX_GPUS][96];
    struct job jobs[LULL_DEVICE_MAX_GPUS] = {0};
    bool is_pending[LULL_DEVICE_MAX_GPUS] = {0};
    bool was_deferred[LULL_DEVICE_MAX_GPUS] = {0};
    struct lull_restore_report report = {0};
    int result = lull_journal_claim(journal, devices, err);
    int count;
    int64_t until_ns;

    *report_out = report;
    if (result < 0)
        return result;
    resume_deferred(devices, journal, was_deferred);
    count = restore_list_records(devices, journal, is_forced, uuids, err);
    if (count < 0)
        return count;
    /* All resets come before the read-backs, so that the GPUs settle at the same time. */
    for (int i = 0; i < count; i++)
        is_pending[i] =
            restore_begin(devices, journal, uuids[i], is_forced, was_deferred, &jobs[i], &report);
    until_ns = lull_now_ns() + CONFIRM_MS * LULL_NS_PER_MS;
    for (int i = 0; i < count; i++) {
        if (jobs[i].is_resetting)
            restore_confirm(devices, &jobs[i], until_ns);
        if (is_pending[i] || jobs[i].result < 0)
            restore_finish(devices, journal, uuids[i], &jobs[i], &report);
        if (jobs[i].result < 0 && result == 0)
            result = lull_error_set(err, jobs[i].result, "%s", jobs[i].error.text);
    }
    *report_out = report;
    return result;
}

int lull_restore_all(struct lull_devices *devices, struct lull_journal *journal,
                     struct lull_restore_report *report_out, struct lull_error *err)
{
    return restore_gpus(devices, journal, false, report_out, err);
}

int lull_restore_forced(struct lull_devices *devices, struct lull_journal *journal,
                        struct lull_restore_report *report_out, struct lull_error *err)
{
    return restore_gpus(devices, journal, true, report_out, err);
}
