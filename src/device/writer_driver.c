/*
 * Handles GPUs and drivers that go away and come back, and those that are to be released.
 *
 * A GPU that is lost is looked for by its UUID after 1, 2, 4 to 60 s. A driver that is gone is
 * closed as a whole, because its handles are void, and opened again after the same pauses. When
 * either is back, what was set before counts as unknown: it is undone, and the holder of a lease
 * that is still alive requests its clock again. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/fault.h"
#include "device/restore.h"

/* A thread that is still inside the driver comes out within some 20 ms, or hangs. */
#define RELEASE_STEP_NS (20 * LULL_NS_PER_MS)

bool lull_writer_is_out(const struct lull_writer *writer, uint32_t index)
{
    return !writer->is_driver_open ||
           writer->gpus[index].states.presence == LULL_PRESENCE_QUIESCED ||
           lull_writer_is_away(writer, index);
}

/* --- one GPU --- */

static void writer_request_revocation(struct lull_writer *writer, uint32_t index,
                                      enum lull_writer_revocation why)
{
    if (lull_writer_gpu_is_held(&writer->gpus[index]) && writer->options.revoke != NULL)
        writer->options.revoke(writer->options.context, index, why);
}

static void plan_check(struct lull_writer *writer, struct lull_writer_gpu *gpu)
{
    int64_t pause_ns = writer->options.check_ns;

    gpu->alive.checks_failed =
        gpu->states.presence == LULL_PRESENCE_LOST ? gpu->alive.checks_failed + 1 : 0;
    if (gpu->states.presence == LULL_PRESENCE_LOST)
        pause_ns = lull_fault_pause_ns(LULL_FAULT_GONE, gpu->alive.checks_failed);
    gpu->alive.check_ns =
        writer->options.check_ns != 0 ? lull_now_ns() + pause_ns : LULL_WRITER_NEVER_NS;
}

static void writer_mark_gpu_lost(struct lull_writer *writer, uint32_t index,
                                 const struct lull_error *error)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (gpu->states.presence == LULL_PRESENCE_LOST)
        return;
    lull_writer_gpu_handle(gpu, LULL_EVENT_LOST);
    gpu->alive.checks_failed = 0;
    plan_check(writer, gpu);
    lull_log(LULL_LOG_ERROR, "writer",
             "%s; the GPU counts as lost and is looked for after 1, 2, 4 to 60 s, the others are "
             "served",
             error->text);
    writer_request_revocation(writer, index, LULL_WRITER_GPU_LOST);
    lull_writer_show_state(writer, index);
}

/* Handles the return of a lost GPU. Its settings may or may not have survived the loss. */
static void writer_driver_find_gpu(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();
    struct lull_error error;

    if (gpu->states.presence != LULL_PRESENCE_LOST)
        return;
    lull_writer_gpu_handle(gpu, LULL_EVENT_FOUND);
    gpu->faults.is_logged = false;
    gpu->state.status = 0;
    lull_writer_retry_cap(gpu, now_ns);
    lull_writer_distrust(gpu, index, now_ns);
    plan_check(writer, gpu);
    /* One that was never there has not been claimed yet. */
    if (lull_journal_claim(writer->journal, writer->devices, &error) < 0)
        lull_log(LULL_LOG_ERROR, "writer", "%s", error.text);
    lull_log(LULL_LOG_INFO, "writer", "GPU %u: found again", index);
    lull_writer_show_state(writer, index);
}

/* --- the driver --- */

static void set_driver_error(struct lull_writer *writer, int code, const char *text)
{
    const bool is_new = code == LULL_E_NO_DRIVER && strcmp(writer->driver_error.text, text) != 0;

    pthread_mutex_lock(&writer->mailbox_lock);
    lull_error_set(&writer->driver_error, code, "%s", text);
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (is_new)
        lull_log(LULL_LOG_WARNING, "writer",
                 "%s; the driver is closed and opened again after 1, 2, 4 to 60 s", text);
}

static void show_all(struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (!lull_writer_is_away(writer, i))
            lull_writer_show_state(writer, i);
}

static void writer_mark_driver_lost(struct lull_writer *writer, const struct lull_error *error)
{
    if (!writer->is_driver_open)
        return;
    writer->is_driver_open = false;
    writer->driver_failures = 0;
    writer->driver_ns = lull_now_ns();
    set_driver_error(writer, LULL_E_NO_DRIVER, error->text);
    show_all(writer);
}

void lull_writer_note_result(struct lull_writer *writer, uint32_t index, int result,
                             const struct lull_error *error)
{
    if (result == LULL_E_NO_DRIVER) {
        writer_mark_driver_lost(writer, error);
        return;
    }
    if (result == LULL_E_NO_DEVICE) {
        writer_mark_gpu_lost(writer, index, error);
        return;
    }
    writer->gpus[index].state.seen_ns = lull_now_ns();
    if (result == 0)
        writer_driver_find_gpu(writer, index);
}

/* Restores what an earlier process has left on GPUs that are seen for the first time, before they
 * can be leased. */
static int admit_gpus(struct lull_writer *writer, struct lull_error *err)
{
    struct lull_restore_report report;
    int result = lull_journal_claim(writer->journal, writer->devices, err);

    if (result < 0)
        return result;
    if (writer->options.is_resetting)
        lull_restore_forced(writer->devices, writer->journal, &report, NULL);
    else
        lull_restore_all(writer->devices, writer->journal, &report, NULL);
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->gpu_count = writer->shown_gpus = lull_devices_count(writer->devices);
    pthread_mutex_unlock(&writer->mailbox_lock);
    lull_writer_take_over(writer);
    lull_log(LULL_LOG_INFO, "writer", "the driver is there: serving %u GPUs", writer->gpu_count);
    return 0;
}

static void writer_readmit_gpu(struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    gpu->alive.check_ns = writer->options.check_ns != 0 ? now_ns : LULL_WRITER_NEVER_NS;
    if (gpu->states.presence == LULL_PRESENCE_QUIESCED) {
        lull_device_release(writer->devices, index);
        return;
    }
    gpu->faults.is_logged = false;
    gpu->state.status = 0;
    lull_writer_retry_cap(gpu, now_ns);
    lull_writer_distrust(gpu, index, now_ns);
}

static int writer_driver_open(struct lull_writer *writer, int64_t now_ns, struct lull_error *err)
{
    int result = lull_devices_attach(writer->devices, err);

    if (result == 0 && writer->gpu_count == 0) {
        result = admit_gpus(writer, err);
        if (result < 0)
            lull_devices_release(writer->devices);
    }
    if (result < 0)
        return result;
    writer->is_driver_open = true;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        writer_readmit_gpu(writer, i, now_ns);
    set_driver_error(writer, 0, "");
    show_all(writer);
    return 0;
}

/* Takes the step that is due: the library is closed, then opened again. */
static void step_driver(struct lull_writer *writer, int64_t now_ns)
{
    struct lull_error error;

    if (lull_devices_release(writer->devices) < 0) {
        writer->driver_ns = now_ns + RELEASE_STEP_NS;
        return;
    }
    writer->driver_ns = LULL_WRITER_NEVER_NS;
    if (writer->is_driver_unwanted) {
        set_driver_error(writer, -EBUSY, "every GPU is quiesced; `lull resume` opens the driver");
        lull_log(LULL_LOG_INFO, "writer", "every GPU is quiesced: the driver is closed");
        show_all(writer);
    } else if (writer_driver_open(writer, now_ns, &error) < 0) {
        set_driver_error(writer, LULL_E_NO_DRIVER, error.text);
        writer->driver_failures++;
        writer->driver_ns =
            lull_now_ns() + lull_fault_pause_ns(LULL_FAULT_GONE, writer->driver_failures);
    } else if (writer->driver_failures > 0) {
        lull_log(LULL_LOG_INFO, "writer", "the driver is there again");
    }
}

/* --- quiesce and resume --- */

static bool is_wanted_quiet(const struct lull_writer *writer, uint32_t index)
{
    return (writer->to_quiesce_seen >> index & 1) != 0;
}

/* Returns whether nothing is left to do on a GPU. What cannot be called cannot be restored either,
 * and its record stays. */
static bool may_release(const struct lull_writer *writer, uint32_t index)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (gpu->states.lease != LULL_LEASE_FREE || lull_writer_is_away(writer, index))
        return false;
    if (gpu->states.presence == LULL_PRESENCE_LOST || !writer->is_driver_open)
        return true;
    return gpu->clock.raise_ns == LULL_WRITER_NEVER_NS && gpu->states.record != LULL_RECORD_KEPT &&
           !gpu->clock.observation.is_running && lull_writer_gpu_is_power_restored(gpu);
}

/* True: it has changed. */
static bool quiesce_or_resume(struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    if ((gpu->states.presence == LULL_PRESENCE_QUIESCED) == is_wanted_quiet(writer, index))
        return false;
    if (gpu->states.presence != LULL_PRESENCE_QUIESCED && !may_release(writer, index))
        return false;
    lull_writer_gpu_handle(gpu, is_wanted_quiet(writer, index) ? LULL_EVENT_QUIESCED
                                                               : LULL_EVENT_RESUMED);
    if (gpu->states.presence == LULL_PRESENCE_QUIESCED)
        lull_device_release(writer->devices, index);
    gpu->alive.check_ns = writer->options.check_ns != 0 ? now_ns : LULL_WRITER_NEVER_NS;
    lull_log(LULL_LOG_INFO, "writer", "GPU %u: %s", index,
             gpu->states.presence == LULL_PRESENCE_QUIESCED
                 ? "quiesced: nothing of it alone is open"
                 : "resumed");
    return true;
}

/* The driver is closed with the last GPU and opened for the first. */
static void want_driver(struct lull_writer *writer, int64_t now_ns)
{
    bool is_unwanted = writer->gpu_count > 0;

    for (uint32_t i = 0; i < writer->gpu_count; i++)
        is_unwanted = is_unwanted && writer->gpus[i].states.presence == LULL_PRESENCE_QUIESCED;
    if (is_unwanted == writer->is_driver_unwanted)
        return;
    writer->is_driver_unwanted = is_unwanted;
    writer->is_driver_open = false;
    writer->driver_ns = now_ns;
}

/* --- the writer's round --- */

static void writer_driver_update(struct lull_writer *writer, uint32_t index,
                                 const struct lull_device_update *update)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    gpu->state.xids += update->xid_count;
    gpu->state.is_partitioned = update->is_partitioned;
    if (update->sm_mhz != 0)
        gpu->state.observed_mhz = update->sm_mhz;
    if (update->xid_count > 0) {
        gpu->state.last_xid = update->last_xid;
        lull_log(LULL_LOG_WARNING, "writer", "GPU %u: the driver reports XID %u (%llu so far)",
                 index, update->last_xid, (unsigned long long)gpu->state.xids);
    }
    if (update->processes.is_known && writer->options.processes != NULL)
        writer->options.processes(writer->options.context, index, update->processes.pids,
                                  update->processes.count);
    if (!update->is_repartitioned)
        return;
    lull_log(LULL_LOG_WARNING, "writer", "GPU %u: its partitions were changed; MIG is %s", index,
             update->is_partitioned ? "on" : "off");
    writer_request_revocation(writer, index, LULL_WRITER_REPARTITIONED);
}

static void writer_driver_check_gpu(struct lull_writer *writer, uint32_t index)
{
    struct lull_device_update update;
    struct lull_error error = {0};
    const bool was_lost = writer->gpus[index].states.presence == LULL_PRESENCE_LOST;
    const int result = lull_device_check(writer->devices, index, &update, &error);

    if (lull_driver_owner_is_lost())
        return;
    writer_driver_update(writer, index, &update);
    if (result == 0 && writer->options.reads_power)
        lull_writer_read_power(writer, index);
    if (lull_driver_owner_is_lost())
        return;
    lull_writer_note_result(writer, index, result, &error);
    if ((writer->gpus[index].states.presence == LULL_PRESENCE_LOST) ==
        was_lost) /* else it has been planned */
        plan_check(writer, &writer->gpus[index]);
    lull_writer_show_state(writer, index);
}

/* A raising that is to be repeated finds a lost GPU as well as a look does. */
static bool is_checked(const struct lull_writer *writer, uint32_t index)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    return !lull_writer_is_out(writer, index) && gpu->alive.check_ns != LULL_WRITER_NEVER_NS &&
           !(gpu->states.presence == LULL_PRESENCE_LOST &&
             gpu->clock.raise_ns != LULL_WRITER_NEVER_NS);
}

/* Ends the leases of lost GPUs: a GPU that is not there cannot be restored now, and no client
 * should wait for it. */
static void end_lost(struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_away(writer, i) || !lull_writer_gpu_is_awaited(gpu))
            continue;
        if (gpu->states.presence == LULL_PRESENCE_LOST || !writer->is_driver_open)
            lull_writer_report_end(writer, i,
                                   gpu->states.presence == LULL_PRESENCE_LOST ? LULL_E_NO_DEVICE
                                                                              : LULL_E_NO_DRIVER);
    }
}

void lull_writer_apply_administrator(struct lull_writer *writer, int64_t now_ns)
{
    bool has_changed = false;

    for (uint32_t i = 0; i < writer->gpu_count; i++)
        has_changed = quiesce_or_resume(writer, i, now_ns) || has_changed;
    want_driver(writer, now_ns);
    if (has_changed)
        show_all(writer);
}

bool lull_writer_mind_driver(struct lull_writer *writer, int64_t now_ns)
{
    end_lost(writer);
    if (!writer->is_driver_open) {
        if (writer->driver_ns > now_ns)
            return false;
        step_driver(writer, now_ns);
        return true;
    }
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (is_checked(writer, i) && writer->gpus[i].alive.check_ns <= now_ns) {
            writer_driver_check_gpu(writer, i);
            return true;
        }
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (is_checked(writer, i) && writer->gpus[i].power.seek_ns <= now_ns) {
            lull_writer_seek_step(writer, i);
            return true;
        }
    return false;
}

int64_t lull_writer_driver_due_ns(const struct lull_writer *writer)
{
    int64_t due_ns = writer->is_driver_open ? LULL_WRITER_NEVER_NS : writer->driver_ns;

    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (is_checked(writer, i))
            due_ns = lull_earlier_ns(due_ns, lull_earlier_ns(writer->gpus[i].alive.check_ns,
                                                             writer->gpus[i].power.seek_ns));
    return due_ns;
}
