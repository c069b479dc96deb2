/*
 * Clients' requests: they are taken, clamped to the band, answered if no driver call is needed, and
 * otherwise chosen from. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <errno.h>

#include "base/clock.h"
#include "device/fault.h"

/* Clamps a requested clock to the band of the lease, then rounds it up to a clock that the device
 * has. */
static uint32_t writer_request_clamp(const struct lull_device_info *info,
                                     const struct lull_band *band, uint32_t sm_mhz)
{
    uint32_t chosen = 0;

    if (sm_mhz == 0)
        return 0;
    if (sm_mhz < band->min_mhz)
        sm_mhz = band->min_mhz;
    if (sm_mhz > band->max_mhz)
        sm_mhz = band->max_mhz;
    for (uint32_t i = 0; i < info->sm_clock_count; i++) { /* from the highest down */
        if (info->sm_clocks_mhz[i] > band->max_mhz)
            continue;
        if (chosen != 0 && info->sm_clocks_mhz[i] < sm_mhz)
            break;
        chosen = info->sm_clocks_mhz[i];
    }
    return chosen != 0 ? chosen : sm_mhz;
}

bool lull_writer_is_raising(const struct lull_writer_gpu *gpu)
{
    return gpu->request.pending.sm_mhz == gpu->lease.reference_mhz ||
           (gpu->clock.applied_mhz != 0 && gpu->request.pending.sm_mhz > gpu->clock.applied_mhz);
}

/* A request for the clock that is already set writes nothing, but renews how long it holds. */
static void writer_request_renew(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns)
{
    gpu->request.is_pending = false;
    gpu->clock.valid_until_ns = gpu->request.pending.valid_until_ns;
    gpu->result.sequence = gpu->request.pending.sequence;
    gpu->result.sm_mhz = gpu->request.pending.sm_mhz;
    gpu->result.status = 0;
    gpu->result.call_begin_ns = now_ns;
    gpu->result.call_ns = 0;
    lull_writer_publish(gpu, index);
}

void lull_writer_refuse(struct lull_writer_gpu *gpu, uint32_t index, int status)
{
    gpu->request.is_pending = false;
    gpu->result.sequence = gpu->request.pending.sequence;
    gpu->result.sm_mhz = gpu->request.pending.sm_mhz;
    gpu->result.status = status;
    gpu->result.call_ns = 0;
    gpu->state.status = status;
    lull_writer_publish(gpu, index);
}

static void writer_request_take(struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_switch_request request;

    if (!gpu->lease.source->channel.take(gpu->lease.source->channel.context, index, &request))
        return;
    request.sm_mhz = writer_request_clamp(lull_device_info(writer->devices, index),
                                          &gpu->lease.band, request.sm_mhz);
    if (gpu->lease.reference_mhz != 0 &&
        (request.sm_mhz == 0 || request.sm_mhz > gpu->lease.reference_mhz))
        request.sm_mhz = gpu->lease.reference_mhz;
    request.valid_until_ns =
        lull_earlier_ns(request.valid_until_ns, now_ns + writer->options.validity_cap_ns);
    if (!gpu->request.is_pending || gpu->request.pending.sm_mhz != request.sm_mhz)
        gpu->request.arrived_ns = now_ns;
    if (!gpu->request.is_pending && lull_fault_of(gpu->state.status) != LULL_FAULT_GONE)
        gpu->faults.failures = 0;
    gpu->request.pending = request;
    gpu->request.is_pending = true;
}

static bool writer_request_is_late(const struct lull_writer_gpu *gpu, int64_t now_ns)
{
    return !lull_writer_is_raising(gpu) && (gpu->request.pending.deadline_ns < now_ns ||
                                            gpu->request.pending.valid_until_ns <= now_ns);
}

/* Answers requests that need no driver call. The time is read again, because the request may have
 * arrived after the round began. */
static void writer_settle_request(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();

    if (gpu->request.pending.sm_mhz == gpu->clock.applied_mhz &&
        gpu->states.clock != LULL_CLOCK_UNSURE) {
        writer_request_renew(gpu, index, now_ns);
    } else if (writer_request_is_late(gpu, now_ns) ||
               (lull_writer_is_keeper_at_work(writer) &&
                gpu->request.pending.sm_mhz != gpu->lease.reference_mhz)) {
        gpu->state.dropped++;
        lull_writer_refuse(gpu, index, LULL_E_STALE);
        lull_writer_show_state(writer, index);
    }
}

int64_t lull_writer_expires_ns(const struct lull_writer_gpu *gpu)
{
    const bool is_lowered = gpu->states.clock == LULL_CLOCK_UNSURE ||
                            gpu->clock.applied_mhz != gpu->lease.reference_mhz;

    /* Another program's lock was not lowered here, and the cap's clock waits until it is gone. */
    if (!is_lowered || gpu->states.clock == LULL_CLOCK_FOREIGN ||
        gpu->clock.raise_ns != LULL_WRITER_NEVER_NS)
        return LULL_WRITER_NEVER_NS;
    return gpu->clock.valid_until_ns;
}

static void writer_request_expire(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns)
{
    if (lull_writer_expires_ns(gpu) > now_ns)
        return;
    gpu->state.expired++;
    lull_writer_undo_lowering(gpu, index, now_ns);
}

static void writer_request_take_limit(struct lull_writer_gpu *gpu, uint32_t index)
{
    struct lull_limit_request request;

    if (!gpu->lease.source->channel.take_limit(gpu->lease.source->channel.context, index, &request))
        return;
    /* Serving the limit publishes what became of profiles and smoothing as well. */
    lull_profile_control_take(&gpu->profiles, &request);
    lull_smoothing_control_take(&gpu->smoothing, &request);
    if (lull_limit_control_take(&gpu->limit, &request) < 0)
        lull_writer_publish_limit(gpu, index);
}

/* Returns why the pending request is not even tried; 0: it is. */
static int refusal_of(const struct lull_writer *writer, const struct lull_writer_gpu *gpu,
                      int64_t now_ns)
{
    if (!writer->is_driver_open)
        return LULL_E_NO_DRIVER;
    if (gpu->states.clock == LULL_CLOCK_FOREIGN)
        return -EBUSY;
    if (lull_writer_is_raising(gpu) || gpu->request.pending.sm_mhz == gpu->clock.applied_mhz)
        return 0;
    if (gpu->faults.off_status < 0)
        return gpu->faults.off_status;
    if (lull_fault_of(gpu->state.status) == LULL_FAULT_GONE && gpu->faults.retry_ns > now_ns)
        return gpu->state.status;
    return 0;
}

/* Brings a GPU under its cap whose clock is above: at the begin, and after others have held it. */
static void writer_apply_cap(struct lull_writer_gpu *gpu, int64_t now_ns)
{
    if (gpu->lease.reference_mhz != 0 && gpu->states.clock != LULL_CLOCK_FOREIGN &&
        gpu->clock.raise_ns == LULL_WRITER_NEVER_NS &&
        (gpu->clock.applied_mhz == 0 || gpu->clock.applied_mhz > gpu->lease.reference_mhz))
        gpu->clock.raise_ns = now_ns;
}

void lull_writer_collect(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_away(writer, i) || !lull_writer_gpu_is_held(gpu))
            continue;
        writer_apply_cap(gpu, now_ns);
        if (gpu->lease.source == NULL)
            continue;
        writer_request_take(writer, i, now_ns);
        writer_request_take_limit(gpu, i);
        if (gpu->request.is_pending && refusal_of(writer, gpu, now_ns) < 0)
            lull_writer_refuse(gpu, i, refusal_of(writer, gpu, now_ns));
        else if (gpu->request.is_pending)
            writer_settle_request(writer, i);
        writer_request_expire(gpu, i, now_ns);
    }
}

/* Returns when raising this GPU became due; LULL_WRITER_NEVER_NS: no raising is wanted. */
static int64_t raising_since(const struct lull_writer_gpu *gpu)
{
    int64_t since_ns = gpu->clock.raise_ns;

    if (gpu->request.is_pending && lull_writer_is_raising(gpu))
        since_ns = lull_earlier_ns(since_ns, gpu->request.arrived_ns);
    return since_ns;
}

int lull_writer_find_raising(const struct lull_writer *writer, int64_t now_ns)
{
    int64_t best_ns = now_ns;
    int found = -1;

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        int64_t since_ns =
            lull_writer_is_out(writer, i) ? LULL_WRITER_NEVER_NS : raising_since(&writer->gpus[i]);

        if (since_ns < best_ns || (since_ns == best_ns && found < 0)) {
            best_ns = since_ns;
            found = (int)i;
        }
    }
    return found;
}

int64_t lull_writer_lowering_from_ns(const struct lull_writer_gpu *gpu)
{
    int64_t from_ns = lull_switch_budget_from_ns(&gpu->clock.budget);

    if (gpu->faults.failures > 0 && gpu->faults.retry_ns > from_ns)
        from_ns = gpu->faults.retry_ns;
    if (gpu->watch.doubts > 0 && !gpu->watch.is_checked && gpu->watch.next_ns > from_ns)
        from_ns = gpu->watch.next_ns;
    return from_ns;
}

int lull_writer_find_lowering(const struct lull_writer *writer, int64_t now_ns)
{
    int64_t best_ns = LULL_WRITER_NEVER_NS;
    int found = -1;

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (lull_writer_is_out(writer, i) || !gpu->request.is_pending ||
            lull_writer_is_raising(gpu) || lull_writer_lowering_from_ns(gpu) > now_ns)
            continue;
        if (found < 0 || gpu->request.pending.deadline_ns < best_ns) {
            best_ns = gpu->request.pending.deadline_ns;
            found = (int)i;
        }
    }
    return found;
}
