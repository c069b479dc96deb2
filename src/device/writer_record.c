/*
 * Journal entries that the writer adds before it changes a GPU, and their removal.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/driver_owner.h"
#include "device/lock_state.h"

/* Fills in the settings that the GPU has now, which are what will be restored. */
static void fill_record(struct lull_writer *writer, uint32_t index,
                        struct lull_journal_record *record)
{
    const struct lull_device_info *info = lull_device_info(writer->devices, index);
    struct lull_device_reading reading;

    lull_device_read(writer->devices, index, LULL_READING_POWER_LIMIT, &reading);
    *record = (struct lull_journal_record){.power_limit_mw = reading.power_limit_mw,
                                           .power_limit_default_mw = info->power_limit_default_mw};
    memcpy(record->uuid, info->uuid, sizeof(record->uuid));
    snprintf(record->driver_version, sizeof(record->driver_version), "%s",
             lull_devices_driver_version(writer->devices));
}

/* Loads the record of a GPU that could not be restored yet: it says what there was before Lull, so
 * it is kept and extended. The power limit of one that was deferred had been restored, so it may
 * have been set by others since. True: it has to be saved. */
static bool load_record(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    const bool was_deferred = lull_journal_resume(writer->journal, uuid, NULL) == 0;
    struct lull_journal_record fresh;
    int result = lull_journal_load(writer->journal, uuid, &gpu->journal.record, NULL);

    if (result == 0 && !was_deferred)
        return false;
    fill_record(writer, index, &fresh);
    /* The keeper may have removed the first record of this lease. */
    if (result < 0 && gpu->limit.before_mw != 0)
        fresh.power_limit_mw = gpu->limit.before_mw;
    /* Without the file, memory still names the clocks that may be locked. */
    fresh.is_blind = gpu->journal.record.is_blind;
    fresh.written.sm_at_ns = gpu->journal.record.written.sm_at_ns;
    memcpy(fresh.written.sm_mhz, gpu->journal.record.written.sm_mhz, sizeof(fresh.written.sm_mhz));
    fresh.written.profiles = gpu->profiles.own;
    lull_writer_name_smoothing(&gpu->smoothing, &fresh.written);
    if (result == LULL_E_FORMAT && lull_journal_set_aside(writer->journal, uuid, NULL) == 0)
        lull_log(LULL_LOG_WARNING, "writer", "GPU %u: its journal is damaged; file renamed", index);
    gpu->journal.record = fresh;
    return true;
}

/* Returns whether a power limit may have to be set during this lease. */
static bool needs_limit(const struct lull_writer_gpu *gpu)
{
    return gpu->lease.band.max_limit_mw > 0 || gpu->limit.cap_mw > 0;
}

int lull_writer_record(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    uint32_t controls = LULL_CAPABILITY_SM_LOCK;
    bool is_new;
    int result = 0;

    lull_journal_forget_file(&gpu->journal.file); /* the record may be set aside or brought back */
    is_new = load_record(writer, index);
    if (needs_limit(gpu))
        controls |= LULL_CAPABILITY_POWER_LIMIT;
    if (gpu->lease.band.profiles != 0)
        controls |= LULL_CAPABILITY_POWER_PROFILES;
    if (gpu->lease.band.smoothing)
        controls |= LULL_CAPABILITY_POWER_SMOOTHING;
    if (is_new || (gpu->journal.record.controls & controls) != controls) {
        gpu->journal.record.controls |= controls;
        result = lull_journal_save(writer->journal, &gpu->journal.record, err);
    }
    lull_writer_gpu_handle(gpu, result == 0 ? LULL_EVENT_RECORDED : LULL_EVENT_RECORD_FAILED);
    gpu->journal.proof = LULL_PROOF_NONE;
    if (result == 0 && !is_new)
        lull_limit_control_inherit(&gpu->limit, gpu->journal.record.power_limit_mw,
                                   gpu->journal.record.written.limit_mw);
    if (result == 0 && !is_new) {
        lull_profile_control_inherit(&gpu->profiles, gpu->journal.record.written.profiles);
        lull_writer_inherit_smoothing(gpu);
    }
    if (result == 0 && needs_limit(gpu))
        gpu->limit.before_mw = gpu->journal.record.power_limit_mw;
    if (gpu->journal.record.power_limit_mw ==
        0) /* a limit that cannot be restored must not be changed */
        gpu->lease.band.max_limit_mw = gpu->limit.max_mw = gpu->limit.cap_mw = 0;
    return result;
}

/* Puts a clock before those that may be locked at present. Of more than two, the highest is kept:
 * a clock above it shows that none of them is locked. */
static void name_clock(struct lull_writer_journal *journal, uint32_t sm_mhz)
{
    uint32_t *const named_mhz = journal->record.written.sm_mhz;
    const uint32_t last_mhz = named_mhz[0];

    if (journal->proof == LULL_PROOF_SEEN)
        journal->record.is_blind = 0;
    if (last_mhz == sm_mhz)
        return;
    if (journal->proof == LULL_PROOF_NONE && named_mhz[1] != 0 && named_mhz[1] != sm_mhz) {
        journal->record.is_blind = 1;
        named_mhz[1] = named_mhz[1] > last_mhz ? named_mhz[1] : last_mhz;
    } else {
        named_mhz[1] = last_mhz;
    }
    named_mhz[0] = sm_mhz;
}

int lull_writer_note_clock(struct lull_writer *writer, uint32_t index, uint32_t sm_mhz,
                           struct lull_error *err)
{
    struct lull_writer_journal *journal = &writer->gpus[index].journal;
    const struct lull_journal_record before = journal->record;
    int result;

    /* A reset may have no effect, and then the clocks before it may still hold. */
    if (sm_mhz != 0)
        name_clock(journal, sm_mhz);
    journal->record.written.sm_at_ns = lull_now_ns();
    if (journal->record.is_blind != before.is_blind)
        result = lull_journal_save(writer->journal, &journal->record, err);
    else
        result = lull_journal_note(writer->journal, journal->record.uuid, &journal->file,
                                   &journal->record.written, err);
    if (result < 0 && sm_mhz != 0) /* the clock will not be written */
        journal->record = before;
    else if (sm_mhz != 0)
        journal->proof = LULL_PROOF_NONE;
    return result;
}

int lull_writer_note_limit(struct lull_writer *writer, uint32_t index, bool is_foreign,
                           struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    uint32_t *written_mw = gpu->journal.record.written.limit_mw;

    if (is_foreign) {
        lull_log(LULL_LOG_WARNING, "writer",
                 "GPU %u: another program has set its power limit to %u W; it stays, and leases do "
                 "not exceed it",
                 index, gpu->limit.before_mw / 1000);
        gpu->journal.record.power_limit_mw = gpu->limit.before_mw;
    }
    /* The last write may have had no effect, so the limit that was read is noted as well. */
    if (gpu->limit.target_mw != 0 && gpu->limit.wanted_mw != 0 &&
        written_mw[0] != gpu->limit.target_mw) {
        written_mw[1] = written_mw[0];
        if (gpu->limit.present_mw != 0 && gpu->limit.present_mw != gpu->limit.before_mw)
            written_mw[1] = gpu->limit.present_mw;
        written_mw[0] = gpu->limit.target_mw;
    }
    if (is_foreign)
        return lull_journal_save(writer->journal, &gpu->journal.record, err);
    return lull_journal_note(writer->journal, gpu->journal.record.uuid, &gpu->journal.file,
                             &gpu->journal.record.written, err);
}

/* Loads the record of a GPU that the start could not restore. One that cannot be used is set aside
 * for the administrator: every lock may be Lull's then, and the power limit stays. */
static int load_left_over(struct lull_writer *writer, uint32_t index)
{
    struct lull_journal_record *record = &writer->gpus[index].journal.record;
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    const int result = lull_journal_load(writer->journal, uuid, record, NULL);
    const bool is_usable = result == 0 && strcmp(record->driver_version,
                                                 lull_devices_driver_version(writer->devices)) == 0;

    if (is_usable || (result < 0 && result != LULL_E_FORMAT))
        return result;
    fill_record(writer, index, record);
    record->power_limit_mw = 0;
    record->controls = LULL_CAPABILITY_SM_LOCK;
    record->is_blind = 1;
    lull_journal_set_aside(writer->journal, uuid, NULL);
    return lull_journal_save(writer->journal, record, NULL);
}

static void take_over_left(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    gpu->is_left_over = true;
    lull_writer_gpu_handle(gpu, LULL_EVENT_RECORDED);
    lull_limit_control_inherit(&gpu->limit, gpu->journal.record.power_limit_mw,
                               gpu->journal.record.written.limit_mw);
    lull_profile_control_inherit(&gpu->profiles, gpu->journal.record.written.profiles);
    lull_writer_inherit_smoothing(gpu);
    if (lull_writer_needs_proof(gpu)) {
        lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_UNSURE);
        gpu->clock.applied_mhz = gpu->journal.record.written.sm_mhz[0];
        gpu->clock.raise_ns = lull_now_ns();
    }
    lull_log(LULL_LOG_WARNING, "writer",
             "GPU %u: not restored yet: it is not leased until it is; tried again after growing "
             "pauses",
             index);
    lull_writer_show_state(writer, index);
}

void lull_writer_take_over(struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_journal_load_deferred(writer->journal, lull_device_info(writer->devices, i)->uuid,
                                       &gpu->journal.record, NULL) == 0) {
            lull_writer_gpu_handle(gpu, LULL_EVENT_DEFERRED_FOUND);
            gpu->watch.next_ns = lull_now_ns() + LULL_WRITER_WATCH_NS;
        }
        if (load_left_over(writer, i) == 0)
            take_over_left(writer, i);
    }
}

bool lull_writer_record_one(struct lull_writer *writer)
{
    if (lull_writer_is_keeper_at_work(writer)) /* it would remove the new record */
        return false;
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct lull_writer_gpu *gpu = &writer->gpus[i];
        struct lull_error error;

        if (lull_writer_is_out(writer, i) || !lull_writer_gpu_is_held(gpu) ||
            gpu->faults.is_logged ||
            (gpu->states.record == LULL_RECORD_KEPT &&
             (!needs_limit(gpu) || gpu->limit.before_mw != 0)))
            continue;
        if (lull_writer_record(writer, i, &error) < 0)
            lull_writer_log_once(gpu, &error);
        return true;
    }
    return false;
}

bool lull_writer_needs_proof(const struct lull_writer_gpu *gpu)
{
    const struct lull_journal_record *record = &gpu->journal.record;

    return !gpu->clock.is_seen_free && gpu->states.clock != LULL_CLOCK_FOREIGN &&
           (record->written.sm_mhz[0] != 0 || record->written.sm_mhz[1] != 0 ||
            record->is_blind != 0);
}

void lull_writer_forget_clocks(struct lull_writer_gpu *gpu)
{
    gpu->journal.record.is_blind = 0;
    gpu->journal.record.written = (struct lull_journal_written){0};
    gpu->journal.proof = LULL_PROOF_NONE;
}

/* Puts the record of an idle GPU aside until its clock is seen. The keeper may have removed it. */
static int writer_record_defer(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    int result;

    lull_log(
        LULL_LOG_INFO, "writer",
        "GPU %u: its clock was reset; it will be verified when the GPU is next busy, because it "
        "is idle or limited otherwise",
        index);
    lull_writer_gpu_handle(gpu, LULL_EVENT_RECORD_DEFERRED);
    gpu->watch.next_ns = lull_now_ns() + LULL_WRITER_WATCH_NS;
    result =
        lull_journal_defer(writer->journal, lull_device_info(writer->devices, index)->uuid, err);
    return result == -ENOENT ? 0 : result;
}

/* Removes the record of a GPU that was raised: from the journal if its clock was seen, else it is
 * deferred until it is. Returns -EAGAIN if the GPU has to be reset first, or if the reading took so
 * long that another thread owns the driver: the clock is read again when the GPU is back. */
static int clear_record(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    struct lull_device_reading reading;
    enum lull_lock_state lock_state = LULL_LOCK_FREE;

    if (lull_writer_needs_proof(gpu)) {
        lull_device_read(writer->devices, index, LULL_LOCK_STATE_READINGS, &reading);
        lock_state = lull_writer_judge(writer, index, &reading);
        gpu->state.observed_mhz = reading.sm_mhz;
        if (lull_driver_owner_is_lost())
            return -EAGAIN;
    }
    if (lock_state == LULL_LOCK_OURS) {
        lull_writer_reset_again(gpu);
        if (lull_writer_gpu_is_ending(gpu) &&
            gpu->faults.raise_failures == LULL_WRITER_FAILURES_TO_REPORT)
            lull_writer_report_end(writer, index, LULL_E_NOT_APPLIED);
        return -EAGAIN;
    }
    lull_journal_forget_file(&gpu->journal.file);
    gpu->faults.raise_failures = 0;
    if (lock_state == LULL_LOCK_UNKNOWN)
        return writer_record_defer(writer, index, err);
    lull_writer_gpu_handle(gpu, LULL_EVENT_RECORD_REMOVED);
    lull_writer_forget_clocks(gpu);
    return lull_journal_remove(writer->journal, uuid, err);
}

static void end_left_over(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (!gpu->is_left_over)
        return;
    gpu->is_left_over = false;
    lull_log(LULL_LOG_INFO, "writer", "GPU %u: restored; it can be leased", index);
    lull_writer_show_state(writer, index);
}

/* Finishes with a GPU that has no lease any more and was raised and read back: its record is not
 * needed any more. */
static void writer_record_finish(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error = {0};
    int result;

    if (gpu->result.settle_ns == LULL_SETTLE_NOT_APPLIED) {
        result = lull_error_set(&error, LULL_E_NOT_APPLIED,
                                "GPU %u: the clock does not rise after the reset", index);
        lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_UNSURE);
        lull_writer_plan_retry(gpu);
    } else {
        result = clear_record(writer, index, &error);
        if (result == -EAGAIN)
            return;
    }
    if (result < 0)
        lull_writer_log_once(gpu, &error);
    else
        end_left_over(writer, index);
    if (lull_writer_gpu_is_ending(gpu))
        lull_writer_report_end(writer, index, result);
}

/* Reports the end of a lease whose GPU is as its cap says. */
static void writer_record_finish_capped(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const bool is_applied = gpu->result.settle_ns != LULL_SETTLE_NOT_APPLIED;

    if (!is_applied) {
        lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_UNSURE);
        lull_writer_plan_retry(gpu);
    }
    if (is_applied || gpu->faults.raise_failures >= LULL_WRITER_FAILURES_TO_REPORT)
        lull_writer_report_end(writer, index, is_applied ? 0 : LULL_E_NOT_APPLIED);
}

/* Returns whether a power limit is as its cap says, or as before the lease, and no profile or
 * smoothing of Lull is left. */
static bool is_power_settled(const struct lull_writer_gpu *gpu)
{
    if (!lull_profile_control_is_restored(&gpu->profiles) ||
        !lull_smoothing_control_is_restored(&gpu->smoothing))
        return false;
    if (lull_writer_gpu_is_held(gpu) && gpu->limit.cap_mw > 0)
        return !gpu->limit.has_pending;
    return lull_limit_control_is_restored(&gpu->limit);
}

void lull_writer_finish_all(struct lull_writer *writer)
{
    /* A thread that loses the driver in a reading keeps that GPU only: the others belong to the
     * thread that has taken over. */
    for (uint32_t i = 0; i < writer->gpu_count && !lull_driver_owner_is_lost(); i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_out(writer, i) || gpu->clock.raise_ns != LULL_WRITER_NEVER_NS ||
            gpu->clock.observation.is_running || !is_power_settled(gpu))
            continue;
        if (gpu->states.lease == LULL_LEASE_CAPPING)
            writer_record_finish_capped(writer, i);
        else if (!lull_writer_gpu_is_held(gpu) &&
                 (lull_writer_gpu_is_ending(gpu) || gpu->states.record == LULL_RECORD_KEPT))
            writer_record_finish(writer, i);
    }
}
