/*
 * Begins and ends leases on the writer's thread, and reports to clients and owner.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <stdio.h>

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/clock.h"
#include "base/log.h"
#include "device/fault.h"
#include "device/driver_owner.h"

void lull_writer_publish(struct lull_writer_gpu *gpu, uint32_t index)
{
    /* A thread that took over the driver from this one answers in its place. */
    if (gpu->lease.source != NULL && !lull_driver_owner_is_lost())
        gpu->lease.source->channel.publish(gpu->lease.source->channel.context, index, &gpu->result);
}

void lull_writer_publish_limit(struct lull_writer_gpu *gpu, uint32_t index)
{
    struct lull_limit_result result = gpu->limit.result;

    result.profile_sequence = gpu->profiles.done_sequence;
    result.profile_status = gpu->profiles.status;
    result.profiles = gpu->profiles.enforced;
    result.smoothing_sequence = gpu->smoothing.done_sequence;
    result.smoothing_status = gpu->smoothing.status;
    result.smoothing_floor_w = gpu->smoothing.floor_w;
    if (gpu->lease.source != NULL)
        gpu->lease.source->channel.publish_limit(gpu->lease.source->channel.context, index,
                                                 &result);
}

/* A GPU that is quiesced together with all others is so when the driver is closed as well. */
static enum lull_writer_health health_of(const struct lull_writer *writer,
                                         const struct lull_writer_gpu *gpu)
{
    if (gpu->states.presence == LULL_PRESENCE_QUIESCED &&
        (!writer->is_driver_unwanted || writer->driver_error.code == -EBUSY))
        return LULL_WRITER_QUIESCED;
    if (gpu->states.presence == LULL_PRESENCE_LOST ||
        (!writer->is_driver_open && gpu->states.presence != LULL_PRESENCE_QUIESCED))
        return LULL_WRITER_LOST;
    if (gpu->is_left_over)
        return LULL_WRITER_UNRESTORED;
    return gpu->states.clock == LULL_CLOCK_FOREIGN &&
                   (lull_writer_gpu_is_held(gpu) || gpu->states.record == LULL_RECORD_DEFERRED)
               ? LULL_WRITER_FOREIGN
               : LULL_WRITER_UP;
}

void lull_writer_show_state(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    gpu->state.is_leased = gpu->states.lease == LULL_LEASE_CLIENT;
    gpu->state.applied_mhz = gpu->clock.applied_mhz;
    gpu->state.limit_mw = gpu->limit.applied_mw;
    gpu->state.power_profiles = gpu->profiles.own;
    gpu->state.cap = gpu->lease.cap;
    gpu->state.health = health_of(writer, gpu);
    if (gpu->cap.failures > 1)
        gpu->state.status = LULL_E_NOT_APPLIED;
    gpu->state.is_unrestored =
        !lull_writer_gpu_is_held(gpu) &&
        (lull_writer_gpu_is_changed(gpu) || !lull_writer_gpu_is_power_restored(gpu));
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->states[index] = gpu->state;
    pthread_mutex_unlock(&writer->mailbox_lock);
}

void lull_writer_count_failure(struct lull_writer_gpu *gpu, const struct lull_error *error)
{
    gpu->state.failed++;
    snprintf(gpu->state.trouble, sizeof(gpu->state.trouble), "%.190s", error->text);
}

void lull_writer_log_once(struct lull_writer_gpu *gpu, const struct lull_error *error)
{
    lull_writer_count_failure(gpu, error);
    if (!gpu->faults.is_logged)
        lull_log(LULL_LOG_ERROR, "writer", "%s", error->text);
    gpu->faults.is_logged = true;
}

void lull_writer_undo_lowering(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns)
{
    gpu->clock.raise_ns = now_ns;
    gpu->result.status = LULL_E_STALE;
    lull_writer_publish(gpu, index);
}

/* Plans to undo what a lease has set. A lost GPU is looked for at its own intervals, and once again
 * at the end. */
static void plan_raise(const struct lull_writer *writer, struct lull_writer_gpu *gpu,
                       int64_t now_ns)
{
    const bool is_waiting = gpu->states.presence == LULL_PRESENCE_LOST && writer->stop_seen_ns == 0;

    gpu->clock.raise_ns = lull_earlier_ns(
        gpu->clock.raise_ns, now_ns + (is_waiting ? lull_fault_pause_ns(LULL_FAULT_GONE, 1) : 0));
}

static void begin_ending(const struct lull_writer *writer, struct lull_writer_gpu *gpu,
                         int64_t now_ns)
{
    lull_writer_gpu_handle(gpu, LULL_EVENT_LEASE_ENDS);
    lull_writer_gpu_handle(gpu, LULL_EVENT_RECORD_NEEDED);
    gpu->faults.raise_failures =
        0; /* those of the lease do not count towards the report of its end */
    gpu->lease.source = NULL;
    gpu->request.is_pending = false;
    gpu->lease.reference_mhz = 0;
    if (lull_writer_gpu_is_changed(gpu))
        plan_raise(writer, gpu, now_ns);
    lull_limit_control_end(&gpu->limit, now_ns);
    lull_profile_control_undo(&gpu->profiles, now_ns);
    lull_smoothing_control_undo(&gpu->smoothing, now_ns);
}

/* Begins a lease, or takes over from the writer's own, in which case the clock stays. */
static void writer_lease_begin(struct lull_writer_gpu *gpu, enum lull_writer_event event,
                               const struct lull_writer_desired *desired, int64_t now_ns)
{
    lull_writer_gpu_handle(gpu, event);
    gpu->lease.source = desired->source;
    gpu->lease.reference_mhz = 0; /* the cap follows */
    gpu->lease.band = desired->band;
    gpu->lease.epoch = desired->epoch;
    gpu->faults.is_logged = false;
    gpu->faults.raise_failures = 0;
    gpu->faults.off_status = 0;
    gpu->faults.failures = 0;
    gpu->watch.is_checked = false;
    gpu->watch.doubts = 0;
    gpu->watch.next_ns = now_ns + LULL_WRITER_WATCH_NS;
    gpu->result = (struct lull_switch_result){.settle_ns = LULL_SETTLE_UNKNOWN};
    lull_limit_control_begin(&gpu->limit, &desired->band);
    lull_profile_control_begin(&gpu->profiles, desired->band.profiles);
    lull_smoothing_control_begin(&gpu->smoothing, desired->band.smoothing);
}

/* Returns whether a cap says anything. */
static bool is_cap(const struct lull_cap *cap)
{
    return cap->max_mhz != 0 || cap->max_limit_mw != 0;
}

/* Reports to the owner that the lease which was adopted last is over, unless that was reported
 * before. */
static void writer_lease_report_end(struct lull_writer *writer, uint32_t index, int result)
{
    if (writer->options.ended != NULL &&
        writer->gpus[index].lease.epoch > atomic_load(&writer->ended_epoch[index]))
        writer->options.ended(writer->options.context, index, result);
}

void lull_writer_report_end(struct lull_writer *writer, uint32_t index, int result)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const bool was_own = gpu->states.lease == LULL_LEASE_OWN_ENDING;

    lull_writer_gpu_handle(gpu, LULL_EVENT_END_REPORTED);
    if (was_own || is_cap(&gpu->lease.cap)) /* a client's lease, or the cap, has waited for this */
        atomic_store(&writer->has_mail, true);
    lull_writer_show_state(writer, index);
    if (!was_own)
        writer_lease_report_end(writer, index, result);
}

/* Returns the highest clock of the device under a cap, but none below the lease's band; 0: the cap
 * leaves the device all clocks, or it has none to lock. */
static uint32_t capped_clock(const struct lull_device_info *info, const struct lull_writer_gpu *gpu)
{
    uint32_t chosen = 0;

    if (gpu->lease.cap.max_mhz == 0 || info->sm_clock_count == 0 ||
        gpu->lease.cap.max_mhz >= info->sm_clocks_mhz[0])
        return 0;
    for (uint32_t i = 0; i < info->sm_clock_count; i++) { /* from the highest down */
        if (chosen != 0 &&
            (chosen <= gpu->lease.cap.max_mhz || info->sm_clocks_mhz[i] < gpu->lease.band.min_mhz))
            break;
        chosen = info->sm_clocks_mhz[i];
    }
    return chosen < info->sm_clocks_mhz[0] ? chosen : 0;
}

/* Makes the reference point what the cap and the band leave; a GPU that is at the one before moves
 * along. One that is above it is moved by lull_writer_collect(). */
static void writer_lease_take_cap(struct lull_writer *writer, uint32_t index,
                                  const struct lull_cap *cap, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);
    const uint32_t before_mhz = gpu->lease.reference_mhz;

    gpu->lease.cap = *cap;
    gpu->lease.reference_mhz = capped_clock(info, gpu);
    if ((info->capabilities & LULL_CAPABILITY_POWER_LIMIT) != 0)
        lull_limit_control_cap(&gpu->limit, cap->max_limit_mw);
    if (gpu->lease.reference_mhz == before_mhz)
        return;
    gpu->cap = (struct lull_writer_cap_watch){0};
    lull_writer_retry_cap(gpu, now_ns);
    if (gpu->request.is_pending &&
        (gpu->request.pending.sm_mhz == before_mhz ||
         (gpu->lease.reference_mhz != 0 && gpu->request.pending.sm_mhz > gpu->lease.reference_mhz)))
        gpu->request.pending.sm_mhz = gpu->lease.reference_mhz;
    if (gpu->clock.applied_mhz == before_mhz && gpu->states.clock != LULL_CLOCK_FOREIGN)
        gpu->clock.raise_ns = lull_earlier_ns(gpu->clock.raise_ns, now_ns);
    gpu->result.reference_mhz = (uint16_t)gpu->lease.reference_mhz;
    lull_writer_publish(gpu, index);
}

/* Returns a lease of the writer itself, within all that the device has. */
static struct lull_writer_desired own_lease(const struct lull_device_info *info,
                                            const struct lull_writer_gpu *gpu)
{
    struct lull_writer_desired own = {.epoch = gpu->lease.epoch};

    if (info->sm_clock_count > 0) {
        own.band.min_mhz = info->sm_clocks_mhz[info->sm_clock_count - 1];
        own.band.max_mhz = info->sm_clocks_mhz[0];
    }
    return own;
}

/* Takes a GPU back from a lease that is over, or is ending, to its cap: it goes there at once, so
 * that there is no moment without a cap. */
static void writer_lease_take_back(struct lull_writer *writer, uint32_t index,
                                   const struct lull_cap *cap, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_writer_desired own = own_lease(lull_device_info(writer->devices, index), gpu);

    lull_limit_control_end(&gpu->limit, now_ns);
    lull_profile_control_undo(&gpu->profiles, now_ns);
    lull_smoothing_control_undo(&gpu->smoothing, now_ns);
    gpu->request.is_pending = false;
    writer_lease_begin(gpu, LULL_EVENT_LEASE_CAPPED, &own, now_ns);
    writer_lease_take_cap(writer, index, cap, now_ns);
    if (gpu->clock.applied_mhz != gpu->lease.reference_mhz ||
        gpu->states.clock == LULL_CLOCK_UNSURE)
        plan_raise(writer, gpu, now_ns);
}

/* Ends the lease that a GPU has, where the owner wants another or none. */
static void adopt_end(struct lull_writer *writer, uint32_t index,
                      const struct lull_writer_desired *desired, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const bool is_new = gpu->lease.epoch != desired->epoch;
    const bool is_over =
        gpu->states.lease == LULL_LEASE_CLIENT && (is_new || desired->source == NULL);

    if (is_cap(&desired->cap)) {
        if (is_over || lull_writer_gpu_is_ending(gpu))
            writer_lease_take_back(writer, index, &desired->cap, now_ns);
    } else if (is_over || gpu->states.lease == LULL_LEASE_CAPPING ||
               (gpu->states.lease == LULL_LEASE_OWN && !(is_new && desired->source != NULL))) {
        begin_ending(writer, gpu, now_ns);
    }
}

static void adopt_one(struct lull_writer *writer, uint32_t index,
                      const struct lull_writer_desired *desired, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);
    const bool is_new = gpu->lease.epoch != desired->epoch;

    adopt_end(writer, index, desired, now_ns);
    if (is_new && (gpu->states.lease == LULL_LEASE_FREE || gpu->states.lease == LULL_LEASE_OWN)) {
        if (desired->source != NULL) {
            writer_lease_begin(gpu, LULL_EVENT_CLIENT_LEASE, desired, now_ns);
        } else { /* it was granted and has ended while this thread was busy */
            gpu->lease.epoch = desired->epoch;
            writer_lease_report_end(writer, index, 0);
        }
    }
    if (gpu->states.lease == LULL_LEASE_FREE && is_cap(&desired->cap)) {
        const struct lull_writer_desired own = own_lease(info, gpu);

        writer_lease_begin(gpu, LULL_EVENT_OWN_LEASE, &own, now_ns);
    }
    if (lull_writer_gpu_is_held(gpu))
        writer_lease_take_cap(writer, index, &desired->cap, now_ns);
    else
        gpu->lease.cap = desired->cap;
    lull_writer_show_state(writer, index);
}

static bool is_source_held(const struct lull_writer *writer,
                           const struct lull_writer_source *source)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (lull_writer_is_away(writer, i) && writer->gpus[i].lease.source == source)
            return true;
    return false;
}

/* Releases removed sources, but of those that a stuck thread may still use only later. */
static void writer_lease_release(struct lull_writer *writer, struct lull_writer_source *removed)
{
    while (removed != NULL) {
        struct lull_writer_source *next = removed->next_removed;

        epoll_ctl(writer->epoll_fd, EPOLL_CTL_DEL, removed->doorbell_fd, NULL);
        if (is_source_held(writer, removed)) {
            removed->next_removed = writer->kept;
            writer->kept = removed;
        } else if (removed->released != NULL) {
            removed->released(removed->context);
        }
        removed = next;
    }
}

void lull_writer_retry_cap(struct lull_writer_gpu *gpu, int64_t now_ns)
{
    gpu->cap.retry_ns = 0;
    lull_limit_control_retry(&gpu->limit);
    if (gpu->clock.raise_ns == LULL_WRITER_NEVER_NS)
        return;
    gpu->faults.raise_failures = 0;
    gpu->clock.raise_ns = lull_earlier_ns(gpu->clock.raise_ns, now_ns);
}

void lull_writer_adopt(struct lull_writer *writer, int64_t now_ns)
{
    struct lull_writer_desired desired[LULL_DEVICE_MAX_GPUS];
    bool is_retry_due;
    struct lull_writer_source *removed;
    struct lull_writer_source *kept;

    pthread_mutex_lock(&writer->mailbox_lock);
    memcpy(desired, writer->desired, sizeof(desired));
    writer->to_quiesce_seen = writer->to_quiesce;
    is_retry_due = writer->is_retry_due;
    writer->is_retry_due = false;
    removed = writer->removed;
    writer->removed = NULL;
    writer->stop_seen_ns = writer->stop_ns;
    pthread_mutex_unlock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if ((writer->to_quiesce_seen >> i & 1) != 0) /* nothing is to be held there */
            desired[i].cap = (struct lull_cap){0};

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        if (lull_writer_is_away(writer, i))
            continue;
        adopt_one(writer, i, &desired[i], now_ns);
        if (is_retry_due && lull_writer_gpu_is_held(&writer->gpus[i]))
            lull_writer_retry_cap(&writer->gpus[i], now_ns);
    }
    kept = writer->kept;
    writer->kept = NULL;
    writer_lease_release(writer, kept);
    writer_lease_release(writer, removed);
}
