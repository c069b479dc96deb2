/*
 * The device writer's thread and state machine. From a doorbell to the driver call there is one
 * wake-up, some loads and comparisons, and no allocation. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/switch_budget.h"
#include "base/thread.h"
#include "device/limit_control.h"

#define NEVER_NS INT64_MAX

/* The clock is read back often enough to see a settling of some milliseconds, and given up after
 * several times the slowest settling that was published (48 ms). */
#define OBSERVE_STEP_NS (INT64_C(3) * LULL_NS_PER_MS / 2)
#define OBSERVE_LIMIT_NS (300 * LULL_NS_PER_MS)

/* While the keeper restores, some 10 ms or, where a clock does not follow, 500, it is looked at
 * this often. Chosen, not measured. */
#define KEEPER_STEP_NS (5 * LULL_NS_PER_MS)

/* A raising that failed is tried again after pauses that double. Chosen, not measured. */
#define RETRY_FIRST_NS (2 * LULL_NS_PER_MS)
#define RETRY_LAST_NS LULL_NS_PER_S

/* The end of a lease is reported after this many failed raisings, which go on nevertheless. */
enum { FAILURES_TO_REPORT = 4 };

enum stage { FREE, LEASED, ENDING };

/* What the owner wants of a GPU; guarded by the mailbox lock. */
struct desired {
    struct lull_writer_source *source;
    struct lull_band band;
    uint64_t epoch; /* number of the lease */
};

/* What the read-back after one write has seen so far. */
struct observation {
    bool is_running;
    uint32_t before_mhz; /* the clock that was locked before the write; 0: none was */
    int64_t call_end_ns;
    int64_t read_ns; /* time of the reading before; at first, the end of the call */
    int64_t next_ns;
    int64_t changed_ns; /* when the clock now seen was first seen */
};

/* One GPU; only the thread touches it. */
struct gpu {
    enum stage stage;
    struct lull_writer_source *source;
    struct lull_band band;
    uint64_t epoch;
    bool is_recorded;  /* the journal can undo what is about to be done */
    bool is_uncertain; /* a failed write may have had an effect */
    bool is_noisy;     /* its failure has been logged */
    bool has_pending;
    struct lull_switch_request pending;
    int64_t arrived_ns;
    uint32_t applied_mhz;
    int64_t valid_until_ns;
    int64_t raise_ns; /* when the writer itself wants to raise; NEVER_NS */
    uint32_t raise_failures;
    struct lull_switch_budget budget;
    struct observation observation;
    struct lull_switch_result result;
    struct lull_limit_control limit;
    struct lull_writer_state state;
};

struct lull_writer {
    struct lull_devices *devices;
    struct lull_journal *journal;
    struct lull_writer_options options;
    uint32_t gpu_count;
    int epoll_fd;
    int timer_fd;
    int mail_fd;
    int64_t timer_ns; /* what the timer is set to */
    pthread_t thread;
    atomic_bool has_mail;

    pthread_mutex_t mailbox_lock; /* guards the members up to states */
    struct desired desired[LULL_DEVICE_MAX_GPUS];
    struct lull_writer_source *removed;
    int64_t stop_ns;
    bool has_finished;
    struct lull_writer_state states[LULL_DEVICE_MAX_GPUS];

    pthread_cond_t finished; /* with the mailbox lock; on CLOCK_MONOTONIC */

    struct gpu gpus[LULL_DEVICE_MAX_GPUS];
    int64_t stop_seen_ns;
    int64_t beat_ns;         /* when the keeper was told last that this thread is alive */
    uint32_t takeovers_seen; /* of the keeper's page; odd: the keeper is restoring */
};

const struct lull_writer_options lull_writer_defaults = {
    .lowering_gap_ns = 20 * LULL_NS_PER_MS,
    .lowering_refill_ns = 50 * LULL_NS_PER_MS,
    .validity_cap_ns = 5 * LULL_NS_PER_S,
};

/* --- what others see --- */

static void publish(struct gpu *gpu, uint32_t index)
{
    if (gpu->source != NULL)
        gpu->source->channel.publish(gpu->source->channel.context, index, &gpu->result);
}

static void show_state(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];

    gpu->state.is_leased = gpu->stage == LEASED;
    gpu->state.applied_mhz = gpu->applied_mhz;
    gpu->state.limit_mw = gpu->limit.applied_mw;
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->states[index] = gpu->state;
    pthread_mutex_unlock(&writer->mailbox_lock);
}

/* Counts every failure of a lease, but logs only the first. */
static void complain(struct gpu *gpu, const struct lull_error *error)
{
    gpu->state.failed++;
    if (!gpu->is_noisy)
        lull_log(LULL_LOG_ERROR, "writer", "%s", error->text);
    gpu->is_noisy = true;
}

/* --- leases --- */

static void begin_ending(struct gpu *gpu, int64_t now_ns)
{
    gpu->stage = ENDING;
    gpu->source = NULL;
    gpu->has_pending = false;
    if (gpu->applied_mhz != 0 || gpu->is_uncertain)
        gpu->raise_ns = lull_earlier_ns(gpu->raise_ns, now_ns);
    lull_limit_control_end(&gpu->limit, now_ns);
}

static void begin_lease(struct gpu *gpu, const struct desired *desired)
{
    gpu->stage = LEASED;
    gpu->source = desired->source;
    gpu->band = desired->band;
    gpu->epoch = desired->epoch;
    gpu->is_noisy = false;
    gpu->raise_failures = 0;
    gpu->result = (struct lull_switch_result){.settle_ns = LULL_SETTLE_UNKNOWN};
    lull_limit_control_begin(&gpu->limit, &desired->band);
}

static void report_end(struct lull_writer *writer, uint32_t index, int result)
{
    writer->gpus[index].stage = FREE;
    show_state(writer, index);
    if (writer->options.ended != NULL)
        writer->options.ended(writer->options.context, index, result);
}

static void adopt_one(struct lull_writer *writer, uint32_t index, const struct desired *desired,
                      int64_t now_ns)
{
    struct gpu *gpu = &writer->gpus[index];

    if (gpu->stage == LEASED && (gpu->epoch != desired->epoch || desired->source == NULL))
        begin_ending(gpu, now_ns);
    if (gpu->stage != FREE || gpu->epoch == desired->epoch)
        return;
    if (desired->source != NULL) {
        begin_lease(gpu, desired);
        show_state(writer, index);
    } else { /* the lease was granted and has ended while this thread was busy */
        gpu->epoch = desired->epoch;
        report_end(writer, index, 0);
    }
}

/* Takes what the mailbox holds: new and ended leases, sources to forget, the order to stop. */
static void adopt(struct lull_writer *writer, int64_t now_ns)
{
    struct desired desired[LULL_DEVICE_MAX_GPUS];
    struct lull_writer_source *removed;

    pthread_mutex_lock(&writer->mailbox_lock);
    memcpy(desired, writer->desired, sizeof(desired));
    removed = writer->removed;
    writer->removed = NULL;
    writer->stop_seen_ns = writer->stop_ns;
    pthread_mutex_unlock(&writer->mailbox_lock);

    for (uint32_t i = 0; i < writer->gpu_count; i++)
        adopt_one(writer, i, &desired[i], now_ns);
    while (removed != NULL) {
        struct lull_writer_source *next = removed->next_removed;

        epoll_ctl(writer->epoll_fd, EPOLL_CTL_DEL, removed->doorbell_fd, NULL);
        if (removed->released != NULL)
            removed->released(removed->context);
        removed = next;
    }
}

/* --- the keeper --- */

static bool is_keeper_at_work(const struct lull_writer *writer)
{
    return (writer->takeovers_seen & 1) != 0;
}

/* The journal is what the keeper would restore from, so a GPU with a record counts. */
static bool is_engaged(const struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (gpu->is_recorded || gpu->applied_mhz != 0 || gpu->is_uncertain ||
            !lull_limit_control_is_restored(&gpu->limit))
            return true;
    }
    return false;
}

/* What was set is undone, by this thread or by the keeper, and the client has to see it. */
static void undo_lowering(struct gpu *gpu, uint32_t index, int64_t now_ns)
{
    gpu->raise_ns = now_ns;
    gpu->result.status = LULL_E_STALE;
    publish(gpu, index);
}

/* The keeper has put this GPU back and removed its record. A call that was on its way while this
 * process stood still may have come after that, so what was set is undone here as well. */
static void distrust(struct gpu *gpu, uint32_t index, int64_t now_ns)
{
    if (gpu->stage == LEASED)
        gpu->is_recorded = false;
    if (gpu->applied_mhz != 0 || gpu->is_uncertain) {
        gpu->is_uncertain = true;
        undo_lowering(gpu, index, now_ns);
    }
    lull_limit_control_undo(&gpu->limit);
}

/* Tells the keeper that this thread is alive, and notices when it was taken for standing still. */
static void heed_keeper(struct lull_writer *writer, int64_t now_ns)
{
    uint32_t takeovers;

    if (writer->options.keeper == NULL)
        return;
    takeovers = lull_keeper_beat(writer->options.keeper, now_ns, is_engaged(writer));
    writer->beat_ns = now_ns;
    if (takeovers == writer->takeovers_seen)
        return;
    writer->takeovers_seen = takeovers;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        distrust(&writer->gpus[i], i, now_ns);
}

/* When the keeper has to be told again, or asked whether it is done. */
static int64_t next_beat(const struct lull_writer *writer)
{
    if (writer->options.keeper == NULL)
        return NEVER_NS;
    if (is_keeper_at_work(writer))
        return writer->beat_ns + KEEPER_STEP_NS;
    return is_engaged(writer) ? writer->beat_ns + LULL_KEEPER_BEAT_NS : NEVER_NS;
}

/* --- journal --- */

/* Fills in the settings that the GPU has now, which are what will be put back. */
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

static int record(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    uint32_t controls = LULL_CAPABILITY_SM_LOCK;
    struct lull_journal_record record = {0};
    int result = 0;

    if (gpu->band.max_limit_mw > 0)
        controls |= LULL_CAPABILITY_POWER_LIMIT;
    /* An older record that could not be undone yet says what the GPU had before Lull, so it is kept
     * and extended. */
    if (lull_journal_load(writer->journal, uuid, &record, NULL) < 0) {
        fill_record(writer, index, &record);
        if (gpu->limit.before_mw != 0) /* the keeper has removed the first record of this lease */
            record.power_limit_mw = gpu->limit.before_mw;
    }
    if ((record.controls & controls) != controls) {
        record.controls |= controls;
        result = lull_journal_save(writer->journal, &record, err);
    }
    gpu->is_recorded = result == 0;
    if (result == 0 && gpu->band.max_limit_mw > 0)
        gpu->limit.before_mw = record.power_limit_mw;
    if (record.power_limit_mw == 0) /* a limit that cannot be put back must not be changed */
        gpu->band.max_limit_mw = gpu->limit.max_mw = 0;
    return result;
}

/* Records a GPU before its first request, so that the request does not wait for the file. */
static bool record_one(struct lull_writer *writer)
{
    if (is_keeper_at_work(writer)) /* it would remove the new record */
        return false;
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];
        struct lull_error error;

        if (gpu->stage != LEASED || gpu->is_noisy ||
            (gpu->is_recorded && (gpu->band.max_limit_mw == 0 || gpu->limit.before_mw != 0)))
            continue;
        if (record(writer, i, &error) < 0)
            complain(gpu, &error);
        return true;
    }
    return false;
}

/* --- requests --- */

/* Clamps a requested clock to the band of the lease, then rounds it up to a clock that the device
 * has. */
static uint32_t clamp(const struct lull_device_info *info, const struct lull_band *band,
                      uint32_t sm_mhz)
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

static bool is_raising(const struct gpu *gpu)
{
    return gpu->pending.sm_mhz == 0 ||
           (gpu->applied_mhz != 0 && gpu->pending.sm_mhz > gpu->applied_mhz);
}

/* A request for the clock that is already set writes nothing, but renews how long it holds. */
static void renew(struct gpu *gpu, uint32_t index, int64_t now_ns)
{
    gpu->has_pending = false;
    gpu->valid_until_ns = gpu->pending.valid_until_ns;
    gpu->result.sequence = gpu->pending.sequence;
    gpu->result.sm_mhz = gpu->pending.sm_mhz;
    gpu->result.status = 0;
    gpu->result.call_begin_ns = now_ns;
    gpu->result.call_ns = 0;
    publish(gpu, index);
}

static void refuse(struct gpu *gpu, uint32_t index, int status)
{
    gpu->has_pending = false;
    gpu->result.sequence = gpu->pending.sequence;
    gpu->result.sm_mhz = gpu->pending.sm_mhz;
    gpu->result.status = status;
    gpu->result.call_ns = 0;
    gpu->state.status = status;
    publish(gpu, index);
}

static void take(struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_switch_request request;

    if (!gpu->source->channel.take(gpu->source->channel.context, index, &request))
        return;
    request.sm_mhz = clamp(lull_device_info(writer->devices, index), &gpu->band, request.sm_mhz);
    request.valid_until_ns =
        lull_earlier_ns(request.valid_until_ns, now_ns + writer->options.validity_cap_ns);
    if (!gpu->has_pending || gpu->pending.sm_mhz != request.sm_mhz)
        gpu->arrived_ns = now_ns;
    gpu->pending = request;
    gpu->has_pending = true;
}

static bool is_late(const struct gpu *gpu, int64_t now_ns)
{
    return !is_raising(gpu) &&
           (gpu->pending.deadline_ns < now_ns || gpu->pending.valid_until_ns <= now_ns);
}

/* Answers requests that need no driver call. The time is read anew, because the request may have
 * arrived after the round began. */
static void settle_request(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();

    if (gpu->pending.sm_mhz == gpu->applied_mhz && !gpu->is_uncertain) {
        renew(gpu, index, now_ns);
    } else if (is_late(gpu, now_ns) || (is_keeper_at_work(writer) && gpu->pending.sm_mhz != 0)) {
        gpu->state.dropped++;
        refuse(gpu, index, LULL_E_STALE);
        show_state(writer, index);
    }
}

static void expire(struct gpu *gpu, uint32_t index, int64_t now_ns)
{
    if ((gpu->applied_mhz == 0 && !gpu->is_uncertain) || gpu->raise_ns != NEVER_NS ||
        gpu->valid_until_ns > now_ns)
        return;
    gpu->state.expired++;
    undo_lowering(gpu, index, now_ns);
}

static void publish_limit(struct gpu *gpu, uint32_t index)
{
    if (gpu->source != NULL)
        gpu->source->channel.publish_limit(gpu->source->channel.context, index, &gpu->limit.result);
}

static void take_limit(struct gpu *gpu, uint32_t index)
{
    struct lull_limit_request request;

    if (gpu->source->channel.take_limit(gpu->source->channel.context, index, &request) &&
        lull_limit_control_take(&gpu->limit, &request) < 0)
        publish_limit(gpu, index);
}

static void collect(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];

        if (gpu->stage != LEASED)
            continue;
        take(writer, i, now_ns);
        take_limit(gpu, i);
        if (gpu->has_pending)
            settle_request(writer, i);
        expire(gpu, i, now_ns);
    }
}

/* --- driver calls --- */

static void begin_observation(struct gpu *gpu, uint32_t before_mhz, int64_t call_end_ns)
{
    gpu->observation = (struct observation){
        .is_running = true,
        .before_mhz = before_mhz,
        .call_end_ns = call_end_ns,
        .read_ns = call_end_ns,
        .next_ns = call_end_ns + OBSERVE_STEP_NS,
        .changed_ns = call_end_ns,
    };
    gpu->result.settle_ns = LULL_SETTLE_UNKNOWN;
    gpu->result.observed_mhz = 0;
}

/* Whether a call that failed may have changed the device: a refusal changes nothing, but a call
 * that failed on its way may have arrived. */
static bool may_have_had_effect(int status)
{
    return status != -EPERM && status != -EINVAL && status != LULL_E_UNSUPPORTED;
}

/* Makes the driver call for sm_mhz and records its result; applied_mhz changes only on success. */
static int write_point(struct lull_writer *writer, uint32_t index, uint32_t sm_mhz)
{
    struct gpu *gpu = &writer->gpus[index];
    const uint32_t before_mhz = gpu->applied_mhz;
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
    gpu->result.blocked_us =
        (uint32_t)lull_earlier_ns((end_ns - begin_ns) / LULL_NS_PER_US, UINT32_MAX);
    gpu->state.status = status;
    gpu->state.writes++;
    if (status == 0) {
        gpu->applied_mhz = sm_mhz;
        gpu->is_uncertain = false;
        gpu->is_noisy = false;
        if (sm_mhz == 0 || (before_mhz != 0 && sm_mhz > before_mhz))
            lull_switch_budget_raise(&gpu->budget, end_ns);
        else
            lull_switch_budget_lower(&gpu->budget, begin_ns);
        begin_observation(gpu, before_mhz, end_ns);
    } else {
        gpu->is_uncertain = gpu->is_uncertain || may_have_had_effect(status);
        complain(gpu, &error);
    }
    return status;
}

static void plan_retry(struct gpu *gpu)
{
    const uint32_t shift = gpu->raise_failures < 9 ? gpu->raise_failures : 9;

    gpu->raise_ns = lull_now_ns() + lull_earlier_ns(RETRY_FIRST_NS << shift, RETRY_LAST_NS);
    gpu->raise_failures++;
}

/* Resets the clock to the reference point, because the client or the writer itself wants it. */
static void raise_gpu(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const bool is_own = gpu->raise_ns != NEVER_NS;
    const int32_t reason = gpu->result.status;
    int status;

    if (gpu->has_pending && gpu->pending.sm_mhz == 0) {
        gpu->result.sequence = gpu->pending.sequence;
        gpu->has_pending = false;
    }
    status = write_point(writer, index, 0);
    gpu->raise_ns = NEVER_NS;
    if (status < 0) {
        plan_retry(gpu);
        if (gpu->stage == ENDING && gpu->raise_failures == FAILURES_TO_REPORT)
            report_end(writer, index, status);
    } else if (gpu->stage == LEASED) {
        gpu->raise_failures = 0;
        if (is_own && reason == LULL_E_STALE)
            gpu->result.status = LULL_E_STALE; /* the client must see that its clock was undone */
    }
    publish(gpu, index);
    show_state(writer, index);
}

static void serve(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_error error;

    if (!gpu->is_recorded && record(writer, index, &error) < 0) {
        complain(gpu, &error);
        refuse(gpu, index, error.code);
        show_state(writer, index);
        return;
    }
    gpu->has_pending = false;
    gpu->result.sequence = gpu->pending.sequence;
    gpu->valid_until_ns = gpu->pending.valid_until_ns;
    write_point(writer, index, gpu->pending.sm_mhz);
    publish(gpu, index);
    show_state(writer, index);
}

/* Returns when raising this GPU became due; NEVER_NS: no raising is wanted. */
static int64_t raising_since(const struct gpu *gpu)
{
    int64_t since_ns = gpu->raise_ns;

    if (gpu->has_pending && is_raising(gpu))
        since_ns = lull_earlier_ns(since_ns, gpu->arrived_ns);
    return since_ns;
}

/* Finds the GPU whose raising has waited longest, so that a client that keeps asking cannot push
 * others back. */
static int find_raising(const struct lull_writer *writer, int64_t now_ns)
{
    int64_t best_ns = now_ns;
    int found = -1;

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        int64_t since_ns = raising_since(&writer->gpus[i]);

        if (since_ns < best_ns || (since_ns == best_ns && found < 0)) {
            best_ns = since_ns;
            found = (int)i;
        }
    }
    return found;
}

/* Finds the GPU whose lowering has the earliest deadline, of those whose budget allows one now. */
static int find_lowering(const struct lull_writer *writer, int64_t now_ns)
{
    int64_t best_ns = NEVER_NS;
    int found = -1;

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (!gpu->has_pending || is_raising(gpu) ||
            lull_switch_budget_from_ns(&gpu->budget) > now_ns)
            continue;
        if (found < 0 || gpu->pending.deadline_ns < best_ns) {
            best_ns = gpu->pending.deadline_ns;
            found = (int)i;
        }
    }
    return found;
}

/* A power limit waits until its record is written and until no clock needs the driver. */
static bool act_on_limit(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];
        struct lull_error error = {0};

        if (!gpu->is_recorded || lull_limit_control_due_ns(&gpu->limit) > now_ns)
            continue;
        if (lull_limit_control_act(&gpu->limit, writer->devices, i, &error))
            gpu->state.writes++;
        if (gpu->limit.result.status < 0)
            complain(gpu, &error);
        if (gpu->stage == ENDING && gpu->limit.failures == FAILURES_TO_REPORT)
            report_end(writer, i, gpu->limit.result.status);
        publish_limit(gpu, i);
        show_state(writer, i);
        return true;
    }
    return false;
}

/* Makes at most one driver call that sets something. */
static bool act(struct lull_writer *writer, int64_t now_ns)
{
    int index = find_raising(writer, now_ns);

    if (index >= 0) {
        const struct gpu *gpu = &writer->gpus[index];

        if (gpu->raise_ns <= now_ns || gpu->pending.sm_mhz == 0)
            raise_gpu(writer, (uint32_t)index);
        else
            serve(writer, (uint32_t)index);
        return true;
    }
    index = find_lowering(writer, now_ns);
    if (index >= 0)
        serve(writer, (uint32_t)index);
    return index >= 0 || act_on_limit(writer, now_ns);
}

/* --- read-back --- */

static bool is_settled(const struct lull_writer *writer, uint32_t index, uint32_t seen_mhz)
{
    const struct gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    if (gpu->applied_mhz != 0)
        return seen_mhz == gpu->applied_mhz;
    /* After a reset every clock is right but the one that was locked before, unless that is the
     * highest. */
    return seen_mhz != gpu->observation.before_mhz || info->sm_clock_count == 0 ||
           seen_mhz >= info->sm_clocks_mhz[0];
}

/* Returns the clock one step above the target: readings may be off by that much. */
static uint32_t step_above(const struct lull_device_info *info, uint32_t target_mhz)
{
    uint32_t above_mhz = target_mhz;

    for (uint32_t i = 0; i < info->sm_clock_count && info->sm_clocks_mhz[i] > target_mhz; i++)
        above_mhz = info->sm_clocks_mhz[i];
    return above_mhz;
}

/* Judges a clock that has not reached its target in time. A lock is an upper bound: an idle or
 * power-capped GPU is below it and obeys nevertheless. One that stays where it was locked before
 * does not. */
static bool is_obeyed(const struct lull_writer *writer, uint32_t index, uint32_t seen_mhz)
{
    const struct gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    if (gpu->applied_mhz == 0) {
        struct lull_device_reading reading;

        /* The clock is still at the old lock. If something else holds it there, the reasons say so.
         */
        lull_device_read(writer->devices, index, LULL_READING_REASONS, &reading);
        if ((reading.valid & LULL_READING_REASONS) == 0)
            return true; /* the device tells nothing, so the driver's success has to suffice */
        return (reading.reasons & ~(uint64_t)LULL_CLOCK_REASON_SETTING) != 0;
    }
    if (gpu->observation.before_mhz != 0 && seen_mhz == gpu->observation.before_mhz)
        return false;
    return seen_mhz <= step_above(info, gpu->applied_mhz);
}

static void end_observation(struct gpu *gpu, int64_t settle_ns)
{
    gpu->observation.is_running = false;
    gpu->result.settle_ns = settle_ns;
    if (settle_ns == LULL_SETTLE_NOT_OBEYED)
        gpu->state.disobeyed++;
}

static void observe(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    struct observation *observation = &gpu->observation;
    struct lull_device_reading reading;
    int64_t now_ns;

    lull_device_read(writer->devices, index, LULL_READING_SM_CLOCK, &reading);
    now_ns = lull_now_ns();
    if (gpu->result.observed_mhz != reading.sm_mhz)
        observation->changed_ns = now_ns;
    gpu->result.observed_mhz = reading.sm_mhz;
    gpu->state.observed_mhz = reading.sm_mhz;
    observation->next_ns = now_ns + OBSERVE_STEP_NS;
    if (reading.valid != 0 && is_settled(writer, index, reading.sm_mhz))
        end_observation(gpu, (observation->read_ns + now_ns) / 2 - observation->call_end_ns);
    else if (now_ns >= observation->call_end_ns + OBSERVE_LIMIT_NS)
        end_observation(gpu, is_obeyed(writer, index, reading.sm_mhz)
                                 ? observation->changed_ns - observation->call_end_ns
                                 : LULL_SETTLE_NOT_OBEYED);
    observation->read_ns = now_ns;
    if (!observation->is_running || observation->changed_ns == now_ns) {
        publish(gpu, index);
        show_state(writer, index);
    }
}

static bool observe_one(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct observation *observation = &writer->gpus[i].observation;

        if (observation->is_running && observation->next_ns <= now_ns) {
            observe(writer, i);
            return true;
        }
    }
    return false;
}

/* Finishes with a GPU that has no lease any more and was raised and read back: its record is not
 * needed any more. */
static void finish(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_error error = {0};
    int result;

    if (gpu->result.settle_ns == LULL_SETTLE_NOT_OBEYED) {
        result = lull_error_set(&error, LULL_E_NOT_OBEYED,
                                "GPU %u: the clock does not rise after the reset", index);
        gpu->is_uncertain = true;
        plan_retry(gpu);
    } else {
        result = lull_journal_remove(writer->journal,
                                     lull_device_info(writer->devices, index)->uuid, &error);
        gpu->is_recorded = false;
        gpu->raise_failures = 0;
    }
    if (result < 0)
        complain(gpu, &error);
    if (gpu->stage == ENDING)
        report_end(writer, index, result);
}

static void finish_all(struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (gpu->stage != LEASED && gpu->raise_ns == NEVER_NS && !gpu->observation.is_running &&
            lull_limit_control_is_restored(&gpu->limit) &&
            (gpu->stage == ENDING || gpu->is_recorded))
            finish(writer, i);
    }
}

/* --- the thread --- */

static int64_t next_due(const struct lull_writer *writer)
{
    int64_t due_ns = writer->stop_seen_ns != 0 ? writer->stop_seen_ns : NEVER_NS;

    due_ns = lull_earlier_ns(due_ns, next_beat(writer));
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        due_ns = lull_earlier_ns(due_ns, gpu->raise_ns);
        if (gpu->is_recorded)
            due_ns = lull_earlier_ns(due_ns, lull_limit_control_due_ns(&gpu->limit));
        if (gpu->observation.is_running)
            due_ns = lull_earlier_ns(due_ns, gpu->observation.next_ns);
        if (gpu->stage == LEASED && (gpu->applied_mhz != 0 || gpu->is_uncertain) &&
            gpu->raise_ns == NEVER_NS)
            due_ns = lull_earlier_ns(due_ns, gpu->valid_until_ns);
        if (gpu->has_pending)
            due_ns = lull_earlier_ns(
                due_ns,
                lull_earlier_ns(
                    lull_switch_budget_from_ns(&gpu->budget),
                    lull_earlier_ns(gpu->pending.deadline_ns, gpu->pending.valid_until_ns) + 1));
    }
    return due_ns;
}

/* Events are edge-triggered, and neither the timer nor the doorbells are read, so no client can
 * make a read block. */
static void sleep_until_due(struct lull_writer *writer)
{
    int64_t due_ns = next_due(writer);
    struct epoll_event events[16];

    if (due_ns != writer->timer_ns) {
        struct itimerspec spec = {0};

        if (due_ns != NEVER_NS)
            spec.it_value = lull_timespec_from_ns(due_ns > 0 ? due_ns : 1);
        timerfd_settime(writer->timer_fd, TFD_TIMER_ABSTIME, &spec, NULL);
        writer->timer_ns = due_ns;
    }
    epoll_wait(writer->epoll_fd, events, 16, -1);
    if (due_ns <= lull_now_ns())
        writer->timer_ns = 0; /* the timer has fired: it is set anew, even for the same time */
}

static bool is_done(const struct lull_writer *writer, int64_t now_ns)
{
    if (writer->stop_seen_ns == 0)
        return false;
    if (now_ns >= writer->stop_seen_ns)
        return true;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (writer->gpus[i].stage != FREE || writer->gpus[i].raise_ns != NEVER_NS ||
            writer->gpus[i].is_recorded)
            return false;
    return true;
}

static void *run(void *argument)
{
    struct lull_writer *writer = argument;

    pthread_setname_np(pthread_self(), "lull-writer");
    /* The default slack of 50 us would be most of a switch's latency. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    lull_thread_set_realtime();
    for (;;) {
        int64_t now_ns = lull_now_ns();

        if (atomic_exchange(&writer->has_mail, false))
            adopt(writer, now_ns);
        heed_keeper(writer, now_ns);
        collect(writer, now_ns);
        if (act(writer, now_ns) || record_one(writer) || observe_one(writer, now_ns))
            continue;
        finish_all(writer);
        if (is_done(writer, now_ns))
            break;
        if (!atomic_load(&writer->has_mail))
            sleep_until_due(writer);
    }
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->has_finished = true;
    pthread_cond_signal(&writer->finished);
    pthread_mutex_unlock(&writer->mailbox_lock);
    return NULL;
}

/* --- the owner's side --- */

static void wake(struct lull_writer *writer)
{
    atomic_store(&writer->has_mail, true);
    eventfd_write(writer->mail_fd, 1);
}

static int listen_to(struct lull_writer *writer, int fd)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET};

    return epoll_ctl(writer->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

static void free_writer(struct lull_writer *writer)
{
    const int fds[] = {writer->epoll_fd, writer->timer_fd, writer->mail_fd};

    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    pthread_cond_destroy(&writer->finished);
    pthread_mutex_destroy(&writer->mailbox_lock);
    free(writer);
}

static int open_fds(struct lull_writer *writer)
{
    int result;

    writer->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    writer->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    writer->mail_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (writer->epoll_fd < 0 || writer->timer_fd < 0 || writer->mail_fd < 0)
        return -errno;
    result = listen_to(writer, writer->timer_fd);
    return result < 0 ? result : listen_to(writer, writer->mail_fd);
}

static void init_locks(struct lull_writer *writer)
{
    pthread_condattr_t attributes;

    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&writer->finished, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&writer->mailbox_lock, NULL);
}

int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err)
{
    struct lull_writer *writer = calloc(1, sizeof(*writer));
    int result;

    if (writer == NULL)
        return lull_error_set(err, -ENOMEM, "writer: no memory");
    writer->devices = devices;
    writer->journal = journal;
    writer->options = *options;
    writer->gpu_count = lull_devices_count(devices);
    writer->timer_ns = NEVER_NS;
    init_locks(writer);
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++) {
        writer->gpus[i].raise_ns = NEVER_NS;
        lull_switch_budget_init(&writer->gpus[i].budget, options->lowering_gap_ns,
                                options->lowering_refill_ns);
    }
    result = open_fds(writer);
    if (result == 0)
        result = lull_thread_start(&writer->thread, run, writer);
    if (result < 0) {
        free_writer(writer);
        return lull_error_set(err, result, "writer: cannot start: %s", strerror(-result));
    }
    *writer_out = writer;
    return 0;
}

/* Waits for the thread to end. A thread inside a driver call may never end. */
static bool wait_for_end(struct lull_writer *writer, int64_t until_ns)
{
    const struct timespec patience = lull_timespec_from_ns(until_ns);
    int result = 0;
    bool has_finished;

    pthread_mutex_lock(&writer->mailbox_lock);
    while (!writer->has_finished && result == 0)
        result = pthread_cond_timedwait(&writer->finished, &writer->mailbox_lock, &patience);
    has_finished = writer->has_finished;
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (has_finished)
        pthread_join(writer->thread, NULL);
    return has_finished;
}

int lull_writer_stop(struct lull_writer *writer, int64_t timeout_ns)
{
    const int64_t stop_ns = lull_now_ns() + timeout_ns;
    bool is_clean = true;

    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        writer->desired[i].source = NULL;
    writer->stop_ns = stop_ns;
    pthread_mutex_unlock(&writer->mailbox_lock);
    wake(writer);

    /* The margin lets the thread see the limit itself. */
    if (!wait_for_end(writer, stop_ns + LULL_NS_PER_S / 2))
        return -EINPROGRESS;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        is_clean = is_clean && writer->gpus[i].raise_ns == NEVER_NS &&
                   writer->gpus[i].stage == FREE && !writer->gpus[i].is_recorded;
    free_writer(writer);
    return is_clean ? 0 : -ETIMEDOUT;
}

int lull_writer_add_source(struct lull_writer *writer, struct lull_writer_source *source,
                           struct lull_error *err)
{
    int result = listen_to(writer, source->doorbell_fd);

    if (result < 0)
        return lull_error_set(err, result, "writer: cannot listen to a client: %s",
                              strerror(-result));
    return 0;
}

void lull_writer_remove_source(struct lull_writer *writer, struct lull_writer_source *source)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (writer->desired[i].source == source)
            writer->desired[i].source = NULL;
    source->next_removed = writer->removed;
    writer->removed = source;
    pthread_mutex_unlock(&writer->mailbox_lock);
    wake(writer);
}

void lull_writer_grant(struct lull_writer *writer, uint32_t gpu, struct lull_writer_source *source,
                       const struct lull_band *band)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->desired[gpu].source = source;
    writer->desired[gpu].band = *band;
    writer->desired[gpu].epoch++;
    pthread_mutex_unlock(&writer->mailbox_lock);
    wake(writer);
}

void lull_writer_end(struct lull_writer *writer, uint32_t gpu)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->desired[gpu].source = NULL;
    pthread_mutex_unlock(&writer->mailbox_lock);
    wake(writer);
}

void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    *state_out = writer->states[gpu];
    pthread_mutex_unlock(&writer->mailbox_lock);
}
