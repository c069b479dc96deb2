/*
 * Read-back: checks whether a clock follows what was written, and which program has set it between
 * writes. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <assert.h>
#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/switch_look.h"
#include "device/fault.h"
#include "device/lock_state.h"

/* Reading a clock back is given up after several times the slowest settling that was published (48
 * ms). */
#define OBSERVE_LIMIT_NS (300 * LULL_NS_PER_MS)

/* A clock on its way up from idle settles within 48 ms, so a lock is what stays for four looks. */
enum { READINGS_TO_ACCEPT = 4 };

uint32_t lull_writer_unread_us(const struct lull_writer_gpu *gpu, int64_t now_ns)
{
    return (uint32_t)lull_earlier_ns((now_ns - gpu->clock.observation.read_ns) / LULL_NS_PER_US,
                                     UINT32_MAX);
}

void lull_writer_begin_observation(struct lull_writer_gpu *gpu, uint32_t before_mhz,
                                   int64_t call_end_ns)
{
    assert(gpu->state.writes > 0);
    gpu->clock.observation = (struct lull_writer_observation){
        .is_running = true,
        .before_mhz = before_mhz,
        .call_end_ns = call_end_ns,
        .read_ns = call_end_ns,
        .next_ns =
            call_end_ns + lull_switch_first_look_ns(LULL_SWITCH_LOOK_NS, gpu->state.writes - 1),
        .changed_ns = call_end_ns,
    };
    gpu->result.settle_ns = LULL_SETTLE_UNKNOWN;
    gpu->result.observed_mhz = 0;
}

/* Leaves a clock alone that another program has locked. */
static void yield_clock(struct lull_writer_gpu *gpu, uint32_t index)
{
    lull_log(LULL_LOG_WARNING, "writer",
             "GPU %u: it runs at %u MHz, which Lull has not set, and no reason is reported: "
             "another program has locked its clock; Lull does not manage it until the lock is gone",
             index, gpu->watch.doubted_mhz);
    lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_TAKEN);
    gpu->clock.applied_mhz = 0;
    gpu->clock.raise_ns = LULL_WRITER_NEVER_NS;
    gpu->state.status = -EBUSY;
    if (gpu->request.is_pending)
        lull_writer_refuse(gpu, index, -EBUSY);
}

enum lull_lock_state lull_writer_judge(const struct lull_writer *writer, uint32_t index,
                                       const struct lull_device_reading *reading)
{
    const struct lull_journal_record *record = &writer->gpus[index].journal.record;
    const enum lull_lock_state lock_state = lull_lock_state_of_clock(
        lull_device_info(writer->devices, index), reading, &record->written);

    if (lock_state == LULL_LOCK_FOREIGN && record->is_blind != 0)
        return LULL_LOCK_OURS;
    return lock_state;
}

/* A reading has shown that the reset has had an effect. */
static void note_free(struct lull_writer_gpu *gpu)
{
    gpu->clock.is_seen_free = true;
    gpu->journal.proof = LULL_PROOF_SEEN;
}

enum lull_lock_state lull_writer_look(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();
    struct lull_device_reading reading;
    enum lull_lock_state lock_state;

    gpu->watch.next_ns = now_ns + LULL_WRITER_WATCH_NS;
    if (now_ns - gpu->journal.record.written.sm_at_ns < LULL_LOCK_STATE_SETTLING_NS)
        return LULL_LOCK_OURS;
    lull_device_read(writer->devices, index, LULL_LOCK_STATE_READINGS, &reading);
    lock_state = lull_writer_judge(writer, index, &reading);
    gpu->state.observed_mhz = reading.sm_mhz;
    if (reading.valid != 0)
        gpu->state.seen_ns = now_ns;
    if (lock_state == LULL_LOCK_FREE && gpu->clock.applied_mhz == 0)
        note_free(gpu);
    gpu->watch.is_checked = gpu->watch.is_checked || lock_state != LULL_LOCK_FOREIGN;
    if (lock_state == LULL_LOCK_FREE || lock_state == LULL_LOCK_OURS)
        lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_LEFT);
    if (lock_state != LULL_LOCK_FOREIGN || reading.sm_mhz != gpu->watch.doubted_mhz)
        gpu->watch.doubts = 0;
    if (lock_state == LULL_LOCK_FOREIGN) {
        gpu->watch.doubted_mhz = reading.sm_mhz;
        if (++gpu->watch.doubts == READINGS_TO_ACCEPT)
            yield_clock(gpu, index);
    }
    if (gpu->watch.doubts > 0)
        gpu->watch.next_ns = now_ns + LULL_WRITER_DOUBT_NS;
    return lock_state;
}

void lull_writer_reset_again(struct lull_writer_gpu *gpu)
{
    lull_writer_gpu_handle(gpu, LULL_EVENT_STILL_LOCKED);
    gpu->clock.applied_mhz = gpu->state.observed_mhz;
    lull_writer_plan_retry(gpu);
}

static bool writer_watch_is_settled(const struct lull_writer *writer, uint32_t index,
                                    uint32_t seen_mhz)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    if (gpu->clock.applied_mhz != 0)
        return seen_mhz == gpu->clock.applied_mhz;
    /* After a reset every clock is right but the one that was locked before, unless that is the
     * highest. */
    return seen_mhz != gpu->clock.observation.before_mhz || info->sm_clock_count == 0 ||
           seen_mhz >= info->sm_clocks_mhz[0];
}

/* The clock of a GPU that has nothing to do is below any lock, whatever was written. */
static bool writer_watch_is_idle(const struct lull_writer *writer, uint32_t index)
{
    struct lull_device_reading reading;

    lull_device_read(writer->devices, index, LULL_READING_REASONS, &reading);
    return lull_lock_state_is_idle(&reading);
}

/* Judges a clock that has not reached its target in time. A lock is an upper bound: an idle or
 * power-capped GPU is below it and obeys nevertheless. One that stays where it was locked before
 * does not, unless it is idle there. */
static bool is_applied(const struct lull_writer *writer, uint32_t index, uint32_t seen_mhz)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    if (gpu->clock.applied_mhz == 0) {
        struct lull_device_reading reading;

        /* The clock is still at the old lock. If something else holds it there, the reasons say so.
         */
        lull_device_read(writer->devices, index, LULL_READING_REASONS, &reading);
        if ((reading.valid & LULL_READING_REASONS) == 0)
            return true; /* the device reports no reasons, so the driver's success has to suffice */
        return (reading.reasons & ~(uint64_t)LULL_CLOCK_REASON_SETTING) != 0;
    }
    if (gpu->clock.observation.before_mhz != 0 && seen_mhz == gpu->clock.observation.before_mhz)
        return seen_mhz < gpu->clock.applied_mhz && writer_watch_is_idle(writer, index);
    return seen_mhz <= lull_lock_state_step_above(info, gpu->clock.applied_mhz);
}

/* Notes what the end of an observation shows of the clocks that the record names. The clock of an
 * idle GPU shows nothing: it may be the lowest one, which was locked. */
static void note_proof(struct lull_writer *writer, uint32_t index, uint32_t seen_mhz)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);
    const bool is_exact = seen_mhz == gpu->clock.applied_mhz;

    if (gpu->clock.applied_mhz == 0 || gpu->result.settle_ns == LULL_SETTLE_NOT_APPLIED ||
        gpu->clock.applied_mhz != gpu->journal.record.written.sm_mhz[0])
        return;
    if (is_exact && info->sm_clock_count > 0 &&
        seen_mhz > info->sm_clocks_mhz[info->sm_clock_count - 1])
        gpu->journal.proof = LULL_PROOF_SEEN;
    else if (!writer_watch_is_idle(writer, index))
        gpu->journal.proof = is_exact ? LULL_PROOF_SEEN : LULL_PROOF_CONSISTENT;
}

static void writer_watch_end_observation(struct lull_writer *writer, uint32_t index,
                                         uint32_t seen_mhz, int64_t settle_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    gpu->clock.observation.is_running = false;
    gpu->result.settle_ns = settle_ns;
    if (settle_ns == LULL_SETTLE_NOT_APPLIED) {
        gpu->state.disobeyed++;
        gpu->watch.next_ns = lull_now_ns();
    }
    note_proof(writer, index, seen_mhz);
}

/* Returns whether a reading after a reset shows that it has had an effect. */
static bool is_seen_free(const struct lull_writer *writer, uint32_t index,
                         const struct lull_device_reading *reading)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    return gpu->clock.applied_mhz == 0 && reading->valid != 0 &&
           lull_lock_state_is_high(info, reading->sm_mhz);
}

static void writer_watch_observe(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_writer_observation *observation = &gpu->clock.observation;
    struct lull_device_reading reading;
    int64_t now_ns;

    lull_device_read(writer->devices, index, LULL_READING_SM_CLOCK, &reading);
    now_ns = lull_now_ns();
    if (gpu->result.observed_mhz != reading.sm_mhz)
        observation->changed_ns = now_ns;
    gpu->result.observed_mhz = reading.sm_mhz;
    gpu->state.observed_mhz = reading.sm_mhz;
    if (reading.valid != 0)
        gpu->state.seen_ns = now_ns;
    if (is_seen_free(writer, index, &reading))
        note_free(gpu);
    observation->next_ns = now_ns + LULL_SWITCH_LOOK_NS;
    if (reading.valid != 0 && writer_watch_is_settled(writer, index, reading.sm_mhz))
        writer_watch_end_observation(writer, index, reading.sm_mhz,
                                     (observation->read_ns + now_ns) / 2 -
                                         observation->call_end_ns);
    else if (now_ns >= observation->call_end_ns + OBSERVE_LIMIT_NS)
        writer_watch_end_observation(writer, index, reading.sm_mhz,
                                     is_applied(writer, index, reading.sm_mhz)
                                         ? observation->changed_ns - observation->call_end_ns
                                         : LULL_SETTLE_NOT_APPLIED);
    if (!observation->is_running)
        gpu->result.unread_us = lull_writer_unread_us(gpu, now_ns);
    observation->read_ns = now_ns;
    if (!observation->is_running || observation->changed_ns == now_ns) {
        lull_writer_publish(gpu, index);
        lull_writer_show_state(writer, index);
    }
}

bool lull_writer_observe_one(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_observation *observation = &writer->gpus[i].clock.observation;

        if (!lull_writer_is_out(writer, i) && observation->is_running &&
            observation->next_ns <= now_ns) {
            writer_watch_observe(writer, i);
            return true;
        }
    }
    return false;
}

/* Returns whether a reading shows that the clock of the cap is not in force. A lock is an upper
 * bound, whatever else limits the clock; a clock of Lull's below it is one that was not left. A
 * reading may be off by one step, unless the clock did not move at all. */
static bool is_cap_missed(const struct lull_writer *writer, uint32_t index,
                          enum lull_lock_state lock_state)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);
    const uint32_t cap_mhz = gpu->lease.reference_mhz;
    const uint32_t seen_mhz = gpu->state.observed_mhz;
    const bool is_low = lock_state == LULL_LOCK_OURS && gpu->clock.applied_mhz == cap_mhz;

    if (gpu->result.settle_ns == LULL_SETTLE_NOT_APPLIED)
        return seen_mhz > cap_mhz || (is_low && seen_mhz < cap_mhz);
    return seen_mhz > lull_lock_state_step_above(info, cap_mhz) ||
           (is_low && lull_lock_state_step_above(info, seen_mhz) < cap_mhz);
}

static void note_cap_follows(struct lull_writer_gpu *gpu, uint32_t index)
{
    if (gpu->cap.failures > 1) {
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: its clock follows its cap again", index);
        gpu->state.status = 0;
    }
    gpu->cap.failures = 0;
}

/* Sets the clock of a cap again that the driver has accepted without effect, or that another
 * program has lifted, and logs it once. */
static void watch_cap(struct lull_writer *writer, uint32_t index, enum lull_lock_state lock_state)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();

    if (lock_state == LULL_LOCK_FOREIGN || gpu->states.clock == LULL_CLOCK_FOREIGN)
        return;
    if (!is_cap_missed(writer, index, lock_state)) {
        if (lock_state == LULL_LOCK_OURS)
            note_cap_follows(gpu, index);
        return;
    }
    if (gpu->cap.retry_ns > now_ns)
        return;
    gpu->cap.failures++;
    gpu->cap.retry_ns = now_ns + lull_fault_pause_ns(LULL_FAULT_GONE, gpu->cap.failures);
    if (gpu->cap.failures == 2)
        lull_log(LULL_LOG_WARNING, "writer",
                 "GPU %u: it runs at %u MHz although the driver has accepted the clock of its cap, "
                 "%u MHz; that is set again after pauses up to a minute",
                 index, gpu->state.observed_mhz, gpu->lease.reference_mhz);
    if (gpu->clock.applied_mhz == gpu->lease.reference_mhz)
        gpu->clock.raise_ns = now_ns;
    else
        lull_writer_undo_lowering(gpu, index, now_ns);
}

/* Looks at a GPU that nothing is written to: whether another program has locked it, and, where its
 * reset was not seen to have an effect, whether it has had one. */
static void writer_watch_gpu(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    const bool is_settled =
        gpu->journal.record.written.sm_at_ns + LULL_LOCK_STATE_SETTLING_NS <= lull_now_ns();
    const enum lull_lock_state lock_state = lull_writer_look(writer, index);
    const bool is_over = gpu->states.record == LULL_RECORD_DEFERRED &&
                         (lock_state == LULL_LOCK_FREE || gpu->states.clock == LULL_CLOCK_FOREIGN);
    struct lull_error error;
    int result = 0;

    if (is_over) {
        result = lull_journal_remove_deferred(writer->journal, uuid, &error);
        if (result == 0)
            lull_writer_gpu_handle(gpu, LULL_EVENT_DEFERRED_PROVEN);
        lull_writer_forget_clocks(gpu);
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: busy again: its reset is confirmed", index);
    } else if (gpu->states.record == LULL_RECORD_DEFERRED && lock_state == LULL_LOCK_OURS) {
        result = lull_journal_resume(writer->journal, uuid, &error);
        if (result == 0)
            lull_writer_gpu_handle(gpu, LULL_EVENT_DEFERRED_FAILED);
        lull_writer_reset_again(gpu);
    } else if (lull_writer_gpu_is_held(gpu) && is_settled && gpu->clock.applied_mhz == 0 &&
               lock_state == LULL_LOCK_OURS) {
        lull_writer_reset_again(gpu);
    } else if (lull_writer_gpu_is_held(gpu) && is_settled && gpu->lease.reference_mhz != 0) {
        watch_cap(writer, index, lock_state);
    }
    if (result < 0)
        lull_writer_log_once(gpu, &error);
    lull_writer_show_state(writer, index);
}

bool lull_writer_is_watched(const struct lull_writer_gpu *gpu)
{
    const bool is_watched =
        lull_writer_gpu_is_held(gpu)
            ? gpu->states.record == LULL_RECORD_KEPT || lull_writer_needs_proof(gpu)
            : gpu->states.record == LULL_RECORD_DEFERRED;

    return is_watched && !gpu->clock.observation.is_running &&
           gpu->clock.raise_ns == LULL_WRITER_NEVER_NS;
}

bool lull_writer_watch_one(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (!lull_writer_is_out(writer, i) && lull_writer_is_watched(gpu) &&
            gpu->watch.next_ns <= now_ns) {
            writer_watch_gpu(writer, i);
            return true;
        }
    }
    return false;
}
