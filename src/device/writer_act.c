/*
 * The driver calls that set something, at most one a round, and what follows from each.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/fault.h"
#include "device/lock_state.h"
#include "device/driver_owner.h"

/* A raising that failed is tried again after pauses that double: to a second, or to a minute where
 * it would lower the clock to a cap, or where an earlier process has failed as well. The driver may
 * refuse those as long as it runs. */
#define RETRY_FIRST_NS (2 * LULL_NS_PER_MS)
#define RETRY_LAST_NS LULL_NS_PER_S
#define RETRY_LONG_LAST_NS (60 * LULL_NS_PER_S)
enum { MOST_DOUBLINGS = 15 };

/* Makes the driver call for sm_mhz and records its result; applied_mhz changes only on success. */
static int writer_act_set_point(struct lull_writer *writer, uint32_t index, uint32_t sm_mhz)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    /* A clock that the last write did not change still holds. */
    const uint32_t before_mhz = gpu->result.settle_ns == LULL_SETTLE_NOT_APPLIED
                                    ? gpu->clock.observation.before_mhz
                                    : gpu->clock.applied_mhz;
    struct lull_error error = {0};
    int64_t begin_ns = lull_now_ns();
    int status = sm_mhz == 0 ? lull_device_reset_sm(writer->devices, index, &error)
                             : lull_device_lock_sm(writer->devices, index, sm_mhz, sm_mhz, &error);
    int64_t end_ns = lull_now_ns();

    gpu->result.status = status;
    gpu->result.sm_mhz = sm_mhz;
    gpu->result.call_begin_ns = begin_ns;
    gpu->result.call_ns = end_ns - begin_ns;
    gpu->result.calls++;
    gpu->result.unread_us = lull_writer_unread_us(gpu, begin_ns);
    gpu->result.blocked_us =
        (uint32_t)lull_earlier_ns((end_ns - begin_ns) / LULL_NS_PER_US, UINT32_MAX);
    gpu->state.status = status;
    gpu->state.writes++;
    gpu->clock.is_seen_free = gpu->clock.is_seen_free && sm_mhz == 0;
    if (status == 0) {
        gpu->clock.applied_mhz = sm_mhz;
        lull_writer_gpu_handle(gpu, sm_mhz == 0 ? LULL_EVENT_RESET : LULL_EVENT_LOCKED);
        gpu->faults.is_logged = false;
        if (sm_mhz == 0 || (before_mhz != 0 && sm_mhz > before_mhz))
            lull_switch_budget_raise(&gpu->clock.budget, end_ns);
        else
            lull_switch_budget_lower(&gpu->clock.budget, begin_ns);
        lull_writer_begin_observation(gpu, before_mhz, end_ns);
    } else {
        if (lull_fault_may_have_had_effect(lull_fault_of(status)))
            lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_UNSURE);
        lull_writer_log_once(gpu, &error);
    }
    if (!lull_driver_owner_is_lost())
        lull_writer_note_result(writer, index, status, &error);
    return status;
}

/* Returns whether the clock is above the GPU's cap, by what was written. */
static bool is_above_cap(const struct lull_writer_gpu *gpu)
{
    return lull_writer_gpu_is_held(gpu) && gpu->lease.reference_mhz != 0 &&
           (gpu->clock.applied_mhz == 0 || gpu->clock.applied_mhz > gpu->lease.reference_mhz);
}

void lull_writer_plan_retry(struct lull_writer_gpu *gpu)
{
    const int64_t last_ns =
        is_above_cap(gpu) || gpu->is_left_over ? RETRY_LONG_LAST_NS : RETRY_LAST_NS;
    uint32_t shift = gpu->faults.raise_failures;

    if (shift > MOST_DOUBLINGS)
        shift = MOST_DOUBLINGS;
    gpu->clock.raise_ns = lull_now_ns() + lull_earlier_ns(RETRY_FIRST_NS << shift, last_ns);
    gpu->faults.raise_failures++;
    /* A GPU that is gone is raised by its return; asking for it all the time delays the others. */
    if (lull_fault_of(gpu->state.status) == LULL_FAULT_GONE)
        gpu->clock.raise_ns =
            lull_now_ns() + lull_fault_pause_ns(LULL_FAULT_GONE, gpu->faults.raise_failures);
}

/* Returns whether a GPU without a lease is to be looked at again before it is reset: another
 * program may have locked it. */
static bool is_doubtful(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (lull_writer_gpu_is_held(gpu) || gpu->states.clock == LULL_CLOCK_UNSURE ||
        gpu->faults.raise_failures > 0)
        return false;
    if (lull_writer_look(writer, index) != LULL_LOCK_FOREIGN)
        return false;
    if (gpu->states.clock != LULL_CLOCK_FOREIGN)
        gpu->clock.raise_ns = lull_now_ns() + LULL_WRITER_DOUBT_NS;
    return true;
}

/* Returns whether the first lowering of a lease has to wait for another look, since another program
 * seems to hold the clock: a reset would undo their lock. */
static bool is_held(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    return !gpu->watch.is_checked && gpu->clock.applied_mhz == 0 &&
           lull_writer_look(writer, index) == LULL_LOCK_FOREIGN;
}

/* Names the clock of a cap in the record. A lock at the cap is not the state without Lull, so
 * unlike a reset it waits for a journal that fails. */
static int note_cap(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const int result = lull_writer_note_clock(writer, index, gpu->lease.reference_mhz, err);

    if (result < 0) /* the file may be gone: it is written again */
        lull_writer_gpu_handle(gpu, LULL_EVENT_RECORD_FAILED);
    return result;
}

/* Reports the end of a lease whose clock cannot be undone for long. */
static void report_if_failing(struct lull_writer *writer, uint32_t index, int status)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (lull_writer_gpu_is_awaited(gpu) &&
        gpu->faults.raise_failures == LULL_WRITER_FAILURES_TO_REPORT)
        lull_writer_report_end(writer, index, status);
}

/* Returns whether a GPU may be locked at its cap now. If not, it is tried again later, unless
 * another program holds the clock, and a request for it is refused. */
static bool may_lock_at_cap(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error = {.code = -EBUSY};
    bool is_others = false;
    int result = 0;

    if (gpu->states.record != LULL_RECORD_KEPT)
        result = lull_writer_record(writer, index, &error);
    if (result == 0)
        is_others = is_held(writer, index);
    if (result == 0 && !is_others)
        result = note_cap(writer, index, &error);
    if (result == 0 && !is_others)
        return true;
    if (result < 0) {
        lull_writer_log_once(gpu, &error);
        lull_writer_plan_retry(gpu);
        gpu->clock.raise_ns = lull_earlier_ns(gpu->clock.raise_ns, lull_now_ns() + RETRY_LAST_NS);
        report_if_failing(writer, index, result);
    } else if (gpu->states.clock != LULL_CLOCK_FOREIGN) {
        gpu->clock.raise_ns = gpu->watch.next_ns;
    }
    if (gpu->request.is_pending)
        lull_writer_refuse(gpu, index, error.code);
    lull_writer_show_state(writer, index);
    return false;
}

/* After a cap has changed the GPU is looked at so soon, when its clock has followed: what it draws
 * from then on is of the new cap. Chosen by the slowest settling that was published, 48 ms. */
#define LOOK_AFTER_CAP_NS (100 * LULL_NS_PER_MS)

static void writer_act_wake(struct lull_writer_gpu *gpu)
{
    if (gpu->power.cap_mhz == gpu->lease.cap.max_mhz ||
        gpu->alive.check_ns == LULL_WRITER_NEVER_NS || gpu->states.presence == LULL_PRESENCE_LOST)
        return;
    gpu->power.settled_ns = lull_now_ns() + LOOK_AFTER_CAP_NS;
    gpu->alive.check_ns = gpu->power.settled_ns;
    gpu->power.seek_ns = LULL_WRITER_NEVER_NS; /* earlier measurements are not of the new cap */
    gpu->power.seek_begin_ns = 0;
}

/* Puts the clock to the reference point, because the client or the writer itself wants it. */
static void raise_gpu(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const uint32_t reference_mhz = gpu->lease.reference_mhz;
    const bool is_own = gpu->clock.raise_ns != LULL_WRITER_NEVER_NS;
    const int32_t reason = gpu->result.status;
    struct lull_error error;
    int status;

    if (is_doubtful(writer, index) || (reference_mhz != 0 && !may_lock_at_cap(writer, index)))
        return;
    /* A reset does not wait for a journal that fails. */
    if (reference_mhz == 0 && gpu->states.record == LULL_RECORD_KEPT &&
        lull_writer_note_clock(writer, index, 0, &error) < 0)
        lull_writer_log_once(gpu, &error);
    if (gpu->request.is_pending && gpu->request.pending.sm_mhz == reference_mhz) {
        gpu->result.sequence = gpu->request.pending.sequence;
        gpu->request.is_pending = false;
    }
    gpu->clock.raise_ns = LULL_WRITER_NEVER_NS; /* a GPU that the call finds again sets it */
    status = writer_act_set_point(writer, index, reference_mhz);
    if (status < 0) {
        lull_writer_plan_retry(gpu);
        report_if_failing(writer, index, status);
    } else if (lull_writer_gpu_is_held(gpu)) {
        if (gpu->states.lease != LULL_LEASE_CAPPING) /* else the clock is to be seen first */
            gpu->faults.raise_failures = 0;
        writer_act_wake(gpu);
        if (is_own && reason == LULL_E_STALE)
            gpu->result.status = LULL_E_STALE; /* the client must see that its clock was undone */
    }
    lull_writer_publish(gpu, index);
    lull_writer_show_state(writer, index);
}

/* Draws the conclusions from a write. True: the lowering is to be tried again. */
static bool follow_up(struct lull_writer_gpu *gpu, bool is_lowering, int status)
{
    const enum lull_device_fault fault = lull_fault_of(status);

    gpu->faults.failures = fault == LULL_FAULT_NONE ? 0 : gpu->faults.failures + 1;
    if (fault == LULL_FAULT_NONE)
        return false;
    if (lull_fault_ends_control(fault))
        gpu->faults.off_status = status;
    gpu->faults.retry_ns = lull_now_ns() + lull_fault_pause_ns(fault, gpu->faults.failures);
    return is_lowering && fault == LULL_FAULT_PASSING && gpu->faults.failures <= LULL_FAULT_RETRIES;
}

static void writer_act_on_gpu(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error;
    const bool is_lowering = !lull_writer_is_raising(gpu);
    int result =
        gpu->states.record == LULL_RECORD_KEPT ? 0 : lull_writer_record(writer, index, &error);

    if (result == 0 && is_held(writer, index)) {
        lull_writer_show_state(writer, index);
        return;
    }
    if (result == 0)
        result = lull_writer_note_clock(writer, index, gpu->request.pending.sm_mhz, &error);
    if (result < 0) {
        lull_writer_log_once(gpu, &error);
        lull_writer_refuse(gpu, index, error.code);
        lull_writer_show_state(writer, index);
        return;
    }
    if (lull_driver_owner_is_lost())
        return; /* recording hung, and the request may be void by now */
    gpu->clock.valid_until_ns = gpu->request.pending.valid_until_ns;
    gpu->request.is_pending = follow_up(
        gpu, is_lowering, writer_act_set_point(writer, index, gpu->request.pending.sm_mhz));
    if (!gpu->request.is_pending) {
        gpu->result.sequence = gpu->request.pending.sequence;
        lull_writer_publish(gpu, index);
    }
    if (gpu->lease.reference_mhz != 0 && gpu->result.status == 0 && !is_above_cap(gpu))
        gpu->clock.raise_ns = LULL_WRITER_NEVER_NS; /* the cap holds now */
    lull_writer_show_state(writer, index);
}

/* Logs the first failure of a limit; a cap may be refused as long as the driver runs. */
static void log_limit(struct lull_writer_gpu *gpu, const struct lull_error *error)
{
    if (gpu->limit.failures > 1)
        lull_writer_count_failure(gpu, error);
    else
        lull_writer_log_once(gpu, error);
}

static void report_if_limit_fails(struct lull_writer *writer, uint32_t index, int status)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (lull_writer_gpu_is_awaited(gpu) && gpu->limit.failures == LULL_WRITER_FAILURES_TO_REPORT)
        lull_writer_report_end(writer, index, status);
}

/* Returns whether a GPU's limit may be set now. No client repeats a cap, so a record that failed is
 * written again for it. */
static bool may_write_limit(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error;

    if (!lull_writer_gpu_is_held(gpu) || gpu->states.record == LULL_RECORD_KEPT)
        return true;
    if (lull_writer_is_keeper_at_work(writer)) { /* it would remove the new record */
        lull_limit_control_postpone(&gpu->limit);
        return false;
    }
    if (lull_writer_record(writer, index, &error) == 0)
        return true;
    lull_limit_control_postpone(&gpu->limit);
    log_limit(gpu, &error);
    report_if_limit_fails(writer, index, error.code);
    return false;
}

static void write_limit_of(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error = {0};
    bool is_foreign;
    int result = 0;

    if (!may_write_limit(writer, index))
        return;
    is_foreign = lull_limit_control_look(&gpu->limit, writer->devices, index);
    if (is_foreign || (gpu->limit.target_mw != 0 && gpu->limit.wanted_mw != 0))
        result = lull_writer_note_limit(writer, index, is_foreign, &error);
    /* Putting a limit back does not wait for a journal that fails. */
    lull_limit_control_act(&gpu->limit, writer->devices, index,
                           gpu->limit.wanted_mw != 0 ? result : 0, &error);
    if (gpu->limit.target_mw != 0 && (result == 0 || gpu->limit.wanted_mw == 0))
        gpu->state.writes++;
    if (gpu->limit.result.status < 0 || result < 0)
        log_limit(gpu, &error);
    if (gpu->limit.result.status < 0 && !lull_driver_owner_is_lost())
        lull_writer_note_result(writer, index, gpu->limit.result.status, &error);
    report_if_limit_fails(writer, index, gpu->limit.result.status);
    lull_writer_publish_limit(gpu, index);
    lull_writer_show_state(writer, index);
}

int64_t lull_writer_limit_due_ns(const struct lull_writer_gpu *gpu)
{
    if (lull_writer_gpu_is_held(gpu) && gpu->states.record != LULL_RECORD_KEPT)
        return gpu->limit.cap_mw > 0 ? gpu->limit.next_ns : LULL_WRITER_NEVER_NS;
    return lull_limit_control_due_ns(&gpu->limit);
}

/* A power limit waits until no clock needs the driver. */
static bool act_on_limit(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_out(writer, i) || lull_writer_limit_due_ns(gpu) > now_ns)
            continue;
        write_limit_of(writer, i);
        return true;
    }
    return false;
}

bool lull_writer_act(struct lull_writer *writer, int64_t now_ns)
{
    int index = lull_writer_find_raising(writer, now_ns);

    if (index >= 0) {
        const struct lull_writer_gpu *gpu = &writer->gpus[index];

        if (gpu->clock.raise_ns <= now_ns ||
            gpu->request.pending.sm_mhz == gpu->lease.reference_mhz)
            raise_gpu(writer, (uint32_t)index);
        else
            writer_act_on_gpu(writer, (uint32_t)index);
        return true;
    }
    index = lull_writer_find_lowering(writer, now_ns);
    if (index >= 0)
        writer_act_on_gpu(writer, (uint32_t)index);
    return index >= 0 || act_on_limit(writer, now_ns) ||
           lull_writer_act_on_profiles(writer, now_ns) ||
           lull_writer_act_on_smoothing(writer, now_ns);
}
