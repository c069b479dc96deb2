/*
 * The device writer's thread and state machine. From a doorbell to the driver call there is one
 * wake-up, some loads and comparisons, and no allocation. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer.h"

#include <assert.h>
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
#include "device/fault.h"
#include "device/limit_control.h"
#include "device/sight.h"
#include "device/turn.h"

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

/* A call that lasts this long makes a GPU suspect, and one that lasts that long counts as hung.
 * Chosen, not measured. */
#define SUSPECT_NS LULL_NS_PER_S
#define HUNG_NS (30 * LULL_NS_PER_S)

/* Between leases and in them a clock is looked at, at times, to see whether a reset has had an
 * effect and whether somebody else has locked it; and more often while it looks so. A clock on its
 * way up from idle settles within 48 ms, so a lock is what stays for four looks. Chosen, not
 * measured. */
#define WATCH_NS LULL_NS_PER_S
#define DOUBT_NS (50 * LULL_NS_PER_MS)
enum { LOOKS_TO_BELIEVE = 4 };

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
    bool is_recorded; /* the journal can undo what is about to be done */
    bool is_deferred; /* it was reset while idle: the journal waits until its clock is seen */
    struct lull_journal_record record; /* while it is recorded or deferred */
    bool is_noted;                     /* the last note in it is of a call that has succeeded */
    bool is_seen_free;                 /* since its last lowering */
    bool is_checked;                   /* this lease has seen that nobody else holds the clock */
    bool is_foreign;                   /* somebody else holds it: it is left alone */
    uint32_t doubts;                   /* readings in a row that say so... */
    uint32_t doubted_mhz;              /* ...by this clock */
    int64_t watch_ns;                  /* when it is looked at next; NEVER_NS */
    bool is_uncertain;                 /* a failed write may have had an effect */
    bool is_noisy;                     /* its failure has been logged */
    int32_t off_status;                /* why this lease is not lowered any more; 0: it is */
    uint32_t failures;                 /* of lowerings, in a row */
    int64_t retry_ns;                  /* the driver is asked to lower no sooner */
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
    atomic_bool is_asked; /* whether it still runs; it says so by clearing this */

    pthread_mutex_t mailbox_lock; /* guards the members up to states */
    struct desired desired[LULL_DEVICE_MAX_GPUS];
    struct lull_writer_source *removed;
    int64_t stop_ns;
    bool has_finished;
    struct lull_writer_state states[LULL_DEVICE_MAX_GPUS];

    pthread_cond_t finished; /* with the mailbox lock; on CLOCK_MONOTONIC */

    struct lull_turn turn;
    pthread_t spare;
    bool has_spare;

    struct gpu gpus[LULL_DEVICE_MAX_GPUS];
    enum lull_writer_health told[LULL_DEVICE_MAX_GPUS]; /* what was logged of GPUs that are away */
    _Atomic uint64_t ended_epoch[LULL_DEVICE_MAX_GPUS]; /* whose end was told while it was away */
    struct lull_writer_source *kept;                    /* removed, but a GPU that is away has it */
    int64_t stop_seen_ns;
    int64_t beat_ns;         /* when the keeper was told last that this thread is alive */
    uint32_t takeovers_seen; /* of the keeper's page; odd: the keeper is restoring */
};

const struct lull_writer_options lull_writer_defaults = {
    .lowering_gap_ns = 20 * LULL_NS_PER_MS,
    .lowering_refill_ns = 50 * LULL_NS_PER_MS,
    .validity_cap_ns = 5 * LULL_NS_PER_S,
};

/* --- GPUs that are away, with a thread that is stuck in the driver --- */

static bool is_away(const struct lull_writer *writer, uint32_t index)
{
    return lull_turn_away_ns(&writer->turn, index) != 0;
}

static enum lull_writer_health health_since(int64_t away_ns, int64_t now_ns)
{
    if (away_ns == 0 || now_ns - away_ns < SUSPECT_NS)
        return LULL_WRITER_UP;
    return now_ns - away_ns < HUNG_NS ? LULL_WRITER_SUSPECT : LULL_WRITER_HUNG;
}

/* Logs each state of a GPU that is away once, and its return. */
static void tell_health(struct lull_writer *writer, uint32_t index, enum lull_writer_health health)
{
    if (writer->told[index] == health)
        return;
    writer->told[index] = health;
    if (health == LULL_WRITER_UP)
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: its driver call has returned", index);
    else
        lull_log(health == LULL_WRITER_HUNG ? LULL_LOG_ERROR : LULL_LOG_WARNING, "writer",
                 "GPU %u: a driver call does not return (%s); the other GPUs are served, this one "
                 "is restored when it returns",
                 index, lull_writer_health_name(health));
}

/* Ends of leases are told although a suspect GPU cannot be raised, so that nobody waits for it. */
static void tell_end(struct lull_writer *writer, uint32_t index)
{
    uint64_t epoch = 0;

    pthread_mutex_lock(&writer->mailbox_lock);
    if (writer->desired[index].source == NULL)
        epoch = writer->desired[index].epoch;
    pthread_mutex_unlock(&writer->mailbox_lock);
    if (epoch <= atomic_load(&writer->ended_epoch[index]))
        return;
    atomic_store(&writer->ended_epoch[index], epoch);
    if (writer->options.ended != NULL)
        writer->options.ended(writer->options.context, index, -ETIMEDOUT);
}

static void watch_away(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const enum lull_writer_health health =
            health_since(lull_turn_away_ns(&writer->turn, i), now_ns);

        tell_health(writer, i, health);
        if (health != LULL_WRITER_UP)
            tell_end(writer, i);
    }
}

/* When a GPU that is away changes its state next; NEVER_NS: it does not. */
static int64_t health_due_ns(const struct lull_writer *writer, uint32_t index)
{
    const int64_t away_ns = lull_turn_away_ns(&writer->turn, index);

    switch (health_since(away_ns, lull_now_ns())) {
    case LULL_WRITER_UP:
        return away_ns + SUSPECT_NS;
    case LULL_WRITER_SUSPECT:
        return away_ns + HUNG_NS;
    default:
        return NEVER_NS;
    }
}

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

static void begin_lease(struct gpu *gpu, const struct desired *desired, int64_t now_ns)
{
    gpu->stage = LEASED;
    gpu->source = desired->source;
    gpu->band = desired->band;
    gpu->epoch = desired->epoch;
    gpu->is_noisy = false;
    gpu->raise_failures = 0;
    gpu->off_status = 0;
    gpu->failures = 0;
    gpu->is_checked = false;
    gpu->is_foreign = false;
    gpu->doubts = 0;
    gpu->watch_ns = now_ns + WATCH_NS;
    gpu->result = (struct lull_switch_result){.settle_ns = LULL_SETTLE_UNKNOWN};
    lull_limit_control_begin(&gpu->limit, &desired->band);
}

static void report_end(struct lull_writer *writer, uint32_t index, int result)
{
    const bool was_told = writer->gpus[index].epoch <= atomic_load(&writer->ended_epoch[index]);

    writer->gpus[index].stage = FREE;
    show_state(writer, index);
    if (writer->options.ended != NULL && !was_told)
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
        begin_lease(gpu, desired, now_ns);
        show_state(writer, index);
    } else { /* the lease was granted and has ended while this thread was busy */
        gpu->epoch = desired->epoch;
        report_end(writer, index, 0);
    }
}

static bool is_source_held(const struct lull_writer *writer,
                           const struct lull_writer_source *source)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (is_away(writer, i) && writer->gpus[i].source == source)
            return true;
    return false;
}

/* Lets go of removed sources, but of those that a stuck thread may still use only later. */
static void release(struct lull_writer *writer, struct lull_writer_source *removed)
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

/* Takes what the mailbox holds: new and ended leases, sources to forget, the order to stop. */
static void adopt(struct lull_writer *writer, int64_t now_ns)
{
    struct desired desired[LULL_DEVICE_MAX_GPUS];
    struct lull_writer_source *removed;
    struct lull_writer_source *kept;

    pthread_mutex_lock(&writer->mailbox_lock);
    memcpy(desired, writer->desired, sizeof(desired));
    removed = writer->removed;
    writer->removed = NULL;
    writer->stop_seen_ns = writer->stop_ns;
    pthread_mutex_unlock(&writer->mailbox_lock);

    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (!is_away(writer, i))
            adopt_one(writer, i, &desired[i], now_ns);
    kept = writer->kept;
    writer->kept = NULL;
    release(writer, kept);
    release(writer, removed);
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

/* Loads the record of a GPU that could not be put back yet: it says what there was before Lull, so
 * it is kept and extended. The power limit of one that was deferred had been put back, so it may
 * have been set by others since. True: it has to be saved. */
static bool load_record(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    const bool was_deferred = lull_journal_resume(writer->journal, uuid, NULL) == 0;
    struct lull_journal_record fresh;
    int result = lull_journal_load(writer->journal, uuid, &gpu->record, NULL);

    gpu->is_deferred = false;
    if (result == 0 && !was_deferred)
        return false;
    fill_record(writer, index, &fresh);
    /* The keeper may have removed the first record of this lease. */
    if (result < 0 && gpu->limit.before_mw != 0)
        fresh.power_limit_mw = gpu->limit.before_mw;
    if (result == 0) {
        fresh.is_blind = gpu->record.is_blind;
        fresh.written.sm_at_ns = gpu->record.written.sm_at_ns;
        memcpy(fresh.written.sm_mhz, gpu->record.written.sm_mhz, sizeof(fresh.written.sm_mhz));
    } else if (result == LULL_E_FORMAT &&
               lull_journal_set_aside(writer->journal, uuid, NULL) == 0) {
        lull_log(LULL_LOG_WARNING, "writer", "GPU %u: its journal is damaged; file kept aside",
                 index);
    }
    gpu->record = fresh;
    return true;
}

static int record(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct gpu *gpu = &writer->gpus[index];
    uint32_t controls = LULL_CAPABILITY_SM_LOCK;
    const bool is_new = load_record(writer, index);
    int result = 0;

    if (gpu->band.max_limit_mw > 0)
        controls |= LULL_CAPABILITY_POWER_LIMIT;
    if (is_new || (gpu->record.controls & controls) != controls) {
        gpu->record.controls |= controls;
        result = lull_journal_save(writer->journal, &gpu->record, err);
    }
    gpu->is_recorded = result == 0;
    gpu->is_noted = true;
    if (result == 0 && !is_new)
        lull_limit_control_inherit(&gpu->limit, gpu->record.power_limit_mw,
                                   gpu->record.written.limit_mw);
    if (result == 0 && gpu->band.max_limit_mw > 0)
        gpu->limit.before_mw = gpu->record.power_limit_mw;
    if (gpu->record.power_limit_mw == 0) /* a limit that cannot be put back must not be changed */
        gpu->band.max_limit_mw = gpu->limit.max_mw = 0;
    return result;
}

/* Notes a clock before it is written. What was noted for a call that has failed is replaced: it is
 * not what the GPU has. */
static int note_clock(struct lull_writer *writer, uint32_t index, uint32_t sm_mhz,
                      struct lull_error *err)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_journal_written *written = &gpu->record.written;

    if (gpu->is_noted && written->sm_mhz[0] != sm_mhz)
        written->sm_mhz[1] = written->sm_mhz[0];
    written->sm_mhz[0] = sm_mhz;
    written->sm_at_ns = lull_now_ns();
    gpu->is_noted = false;
    return lull_journal_note(writer->journal, gpu->record.uuid, written, err);
}

/* Brings the journal up to what a power limit is about to become. */
static int note_limit(struct lull_writer *writer, uint32_t index, bool is_foreign,
                      struct lull_error *err)
{
    struct gpu *gpu = &writer->gpus[index];
    uint32_t *written_mw = gpu->record.written.limit_mw;

    if (is_foreign) {
        lull_log(
            LULL_LOG_WARNING, "writer",
            "GPU %u: somebody else has set its power limit to %u W: no lease exceeds that, and "
            "it stays",
            index, gpu->limit.before_mw / 1000);
        gpu->record.power_limit_mw = gpu->limit.before_mw;
    }
    if (gpu->limit.target_mw != 0 && gpu->limit.wanted_mw != 0 &&
        written_mw[0] != gpu->limit.target_mw) {
        written_mw[1] = written_mw[0];
        written_mw[0] = gpu->limit.target_mw;
    }
    if (is_foreign)
        return lull_journal_save(writer->journal, &gpu->record, err);
    return lull_journal_note(writer->journal, gpu->record.uuid, &gpu->record.written, err);
}

/* Records a GPU before its first request, so that the request does not wait for the file. */
static bool record_one(struct lull_writer *writer)
{
    if (is_keeper_at_work(writer)) /* it would remove the new record */
        return false;
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];
        struct lull_error error;

        if (is_away(writer, i) || gpu->stage != LEASED || gpu->is_noisy ||
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
    if (!gpu->has_pending && lull_fault_of(gpu->state.status) != LULL_FAULT_GONE)
        gpu->failures = 0;
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

/* Returns why the pending request is not even tried; 0: it is. */
static int refusal_of(const struct gpu *gpu, int64_t now_ns)
{
    if (gpu->is_foreign)
        return -EBUSY;
    if (is_raising(gpu) || gpu->pending.sm_mhz == gpu->applied_mhz)
        return 0;
    if (gpu->off_status < 0)
        return gpu->off_status;
    if (lull_fault_of(gpu->state.status) == LULL_FAULT_GONE && gpu->retry_ns > now_ns)
        return gpu->state.status;
    return 0;
}

static void collect(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];

        if (is_away(writer, i) || gpu->stage != LEASED)
            continue;
        take(writer, i, now_ns);
        take_limit(gpu, i);
        if (gpu->has_pending && refusal_of(gpu, now_ns) < 0)
            refuse(gpu, i, refusal_of(gpu, now_ns));
        else if (gpu->has_pending)
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
    gpu->is_noted = status == 0;
    gpu->is_seen_free = gpu->is_seen_free && sm_mhz == 0;
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
        gpu->is_uncertain =
            gpu->is_uncertain || lull_fault_may_have_had_effect(lull_fault_of(status));
        complain(gpu, &error);
    }
    return status;
}

static void plan_retry(struct gpu *gpu)
{
    const uint32_t shift = gpu->raise_failures < 9 ? gpu->raise_failures : 9;

    gpu->raise_ns = lull_now_ns() + lull_earlier_ns(RETRY_FIRST_NS << shift, RETRY_LAST_NS);
    gpu->raise_failures++;
    /* A GPU that is gone is raised by its return; asking for it all the time delays the others. */
    if (lull_fault_of(gpu->state.status) == LULL_FAULT_GONE)
        gpu->raise_ns = lull_now_ns() + lull_fault_pause_ns(LULL_FAULT_GONE, gpu->raise_failures);
}

/* Leaves a clock alone that somebody else has locked. */
static void yield_clock(struct gpu *gpu, uint32_t index)
{
    lull_log(
        LULL_LOG_WARNING, "writer",
        "GPU %u: it runs at %u MHz, which Lull has not set, and names no reason: somebody else "
        "has locked its clock, and Lull leaves it alone until it is free",
        index, gpu->doubted_mhz);
    gpu->is_foreign = true;
    gpu->applied_mhz = 0;
    gpu->is_uncertain = false;
    gpu->raise_ns = NEVER_NS;
    gpu->state.status = -EBUSY;
    if (gpu->has_pending)
        refuse(gpu, index, -EBUSY);
}

/* Looks whose the clock is. Just after a writing that cannot be told, so it counts as Lull's. */
static enum lull_sight look(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const int64_t now_ns = lull_now_ns();
    struct lull_device_reading reading;
    enum lull_sight sight;

    gpu->watch_ns = now_ns + WATCH_NS;
    if (now_ns - gpu->record.written.sm_at_ns < LULL_SIGHT_SETTLING_NS)
        return LULL_SIGHT_OURS;
    lull_device_read(writer->devices, index, LULL_SIGHT_READINGS, &reading);
    sight = lull_sight_of_clock(lull_device_info(writer->devices, index), &reading,
                                &gpu->record.written);
    if (sight == LULL_SIGHT_FOREIGN && gpu->record.is_blind != 0)
        sight = LULL_SIGHT_OURS;
    gpu->state.observed_mhz = reading.sm_mhz;
    gpu->is_seen_free = gpu->is_seen_free || (sight == LULL_SIGHT_FREE && gpu->applied_mhz == 0);
    gpu->is_checked = gpu->is_checked || sight != LULL_SIGHT_FOREIGN;
    if (sight == LULL_SIGHT_FREE || sight == LULL_SIGHT_OURS)
        gpu->is_foreign = false;
    if (sight != LULL_SIGHT_FOREIGN || reading.sm_mhz != gpu->doubted_mhz)
        gpu->doubts = 0;
    if (sight == LULL_SIGHT_FOREIGN) {
        gpu->doubted_mhz = reading.sm_mhz;
        if (++gpu->doubts == LOOKS_TO_BELIEVE)
            yield_clock(gpu, index);
    }
    if (gpu->doubts > 0)
        gpu->watch_ns = now_ns + DOUBT_NS;
    return sight;
}

/* Resets once more, because a busy GPU shows the clock that Lull had locked: the reset before has
 * had no effect, or none was made. */
static void reset_again(struct gpu *gpu)
{
    gpu->applied_mhz = gpu->state.observed_mhz;
    plan_retry(gpu);
}

/* Whether a GPU without a lease is to be looked at again before it is reset: somebody else may have
 * locked it. */
static bool is_doubtful(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];

    if (gpu->stage == LEASED || gpu->is_uncertain || gpu->raise_failures > 0)
        return false;
    if (look(writer, index) != LULL_SIGHT_FOREIGN)
        return false;
    if (!gpu->is_foreign)
        gpu->raise_ns = lull_now_ns() + DOUBT_NS;
    return true;
}

/* Resets the clock to the reference point, because the client or the writer itself wants it. */
static void raise_gpu(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const bool is_own = gpu->raise_ns != NEVER_NS;
    const int32_t reason = gpu->result.status;
    struct lull_error error;
    int status;

    if (is_doubtful(writer, index))
        return;
    /* A raising does not wait for a journal that fails. */
    if (gpu->is_recorded && note_clock(writer, index, 0, &error) < 0)
        complain(gpu, &error);
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

/* Whether the first lowering of a lease has to wait for another look, since somebody else seems to
 * hold the clock: a reset would undo their lock. */
static bool is_held(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];

    return !gpu->is_checked && gpu->applied_mhz == 0 && look(writer, index) == LULL_SIGHT_FOREIGN;
}

/* Draws the conclusions from a write. True: the lowering is to be tried again. */
static bool follow_up(struct gpu *gpu, bool is_lowering, int status)
{
    const enum lull_device_fault fault = lull_fault_of(status);

    gpu->failures = fault == LULL_FAULT_NONE ? 0 : gpu->failures + 1;
    if (fault == LULL_FAULT_NONE)
        return false;
    if (lull_fault_ends_control(fault))
        gpu->off_status = status;
    gpu->retry_ns = lull_now_ns() + lull_fault_pause_ns(fault, gpu->failures);
    return is_lowering && fault == LULL_FAULT_PASSING && gpu->failures <= LULL_FAULT_RETRIES;
}

static void serve(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_error error;
    const bool is_lowering = !is_raising(gpu);
    int result = gpu->is_recorded ? 0 : record(writer, index, &error);

    if (result == 0 && is_held(writer, index)) {
        show_state(writer, index);
        return;
    }
    if (result == 0)
        result = note_clock(writer, index, gpu->pending.sm_mhz, &error);
    if (result < 0) {
        complain(gpu, &error);
        refuse(gpu, index, error.code);
        show_state(writer, index);
        return;
    }
    if (lull_turn_is_lost())
        return; /* recording hung, and the request may be void by now */
    gpu->valid_until_ns = gpu->pending.valid_until_ns;
    gpu->has_pending = follow_up(gpu, is_lowering, write_point(writer, index, gpu->pending.sm_mhz));
    if (!gpu->has_pending) {
        gpu->result.sequence = gpu->pending.sequence;
        publish(gpu, index);
    }
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
        int64_t since_ns = is_away(writer, i) ? NEVER_NS : raising_since(&writer->gpus[i]);

        if (since_ns < best_ns || (since_ns == best_ns && found < 0)) {
            best_ns = since_ns;
            found = (int)i;
        }
    }
    return found;
}

/* Returns from when on this GPU may be lowered. */
static int64_t lowering_from_ns(const struct gpu *gpu)
{
    int64_t from_ns = lull_switch_budget_from_ns(&gpu->budget);

    if (gpu->failures > 0 && gpu->retry_ns > from_ns)
        from_ns = gpu->retry_ns;
    if (gpu->doubts > 0 && !gpu->is_checked && gpu->watch_ns > from_ns)
        from_ns = gpu->watch_ns;
    return from_ns;
}

/* Finds the GPU whose lowering has the earliest deadline, of those whose budget allows one now. */
static int find_lowering(const struct lull_writer *writer, int64_t now_ns)
{
    int64_t best_ns = NEVER_NS;
    int found = -1;

    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (is_away(writer, i) || !gpu->has_pending || is_raising(gpu) ||
            lowering_from_ns(gpu) > now_ns)
            continue;
        if (found < 0 || gpu->pending.deadline_ns < best_ns) {
            best_ns = gpu->pending.deadline_ns;
            found = (int)i;
        }
    }
    return found;
}

static void write_limit_of(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    struct lull_error error = {0};
    const bool is_foreign = lull_limit_control_look(&gpu->limit, writer->devices, index);
    int result = 0;

    if (is_foreign || (gpu->limit.target_mw != 0 && gpu->limit.wanted_mw != 0))
        result = note_limit(writer, index, is_foreign, &error);
    /* Putting a limit back does not wait for a journal that fails. */
    lull_limit_control_act(&gpu->limit, writer->devices, index,
                           gpu->limit.wanted_mw != 0 ? result : 0, &error);
    if (gpu->limit.target_mw != 0 && (result == 0 || gpu->limit.wanted_mw == 0))
        gpu->state.writes++;
    if (gpu->limit.result.status < 0 || result < 0)
        complain(gpu, &error);
    if (gpu->stage == ENDING && gpu->limit.failures == FAILURES_TO_REPORT)
        report_end(writer, index, gpu->limit.result.status);
    publish_limit(gpu, index);
    show_state(writer, index);
}

/* A power limit waits until its record is written and until no clock needs the driver. */
static bool act_on_limit(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (is_away(writer, i) || !gpu->is_recorded ||
            lull_limit_control_due_ns(&gpu->limit) > now_ns)
            continue;
        write_limit_of(writer, i);
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
    return seen_mhz <= lull_sight_step_above(info, gpu->applied_mhz);
}

static void end_observation(struct gpu *gpu, int64_t settle_ns)
{
    gpu->observation.is_running = false;
    gpu->result.settle_ns = settle_ns;
    if (settle_ns == LULL_SETTLE_NOT_OBEYED)
        gpu->state.disobeyed++;
}

/* Whether a reading after a reset shows that it has had an effect. */
static bool is_seen_free(const struct lull_writer *writer, uint32_t index,
                         const struct lull_device_reading *reading)
{
    const struct gpu *gpu = &writer->gpus[index];
    const struct lull_device_info *info = lull_device_info(writer->devices, index);

    return gpu->applied_mhz == 0 && reading->valid != 0 &&
           lull_sight_is_high(info, reading->sm_mhz);
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
    gpu->is_seen_free = gpu->is_seen_free || is_seen_free(writer, index, &reading);
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

        if (!is_away(writer, i) && observation->is_running && observation->next_ns <= now_ns) {
            observe(writer, i);
            return true;
        }
    }
    return false;
}

/* Looks at a GPU that nothing is written to: whether somebody else has locked it, and, where its
 * reset was not seen to have an effect, whether it has had one. */
static void watch(struct lull_writer *writer, uint32_t index)
{
    struct gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    const enum lull_sight sight = look(writer, index);
    const bool is_over = gpu->is_deferred && (sight == LULL_SIGHT_FREE || gpu->is_foreign);
    struct lull_error error;
    int result = 0;

    if (is_over) {
        result = lull_journal_remove_deferred(writer->journal, uuid, &error);
        gpu->is_deferred = result < 0;
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: busy again: its reset is confirmed", index);
    } else if (gpu->is_deferred && sight == LULL_SIGHT_OURS) {
        result = lull_journal_resume(writer->journal, uuid, &error);
        gpu->is_recorded = result == 0;
        gpu->is_deferred = result < 0;
        reset_again(gpu);
    } else if (gpu->stage == LEASED && gpu->applied_mhz == 0 && sight == LULL_SIGHT_OURS &&
               gpu->record.written.sm_at_ns + LULL_SIGHT_SETTLING_NS <= lull_now_ns()) {
        reset_again(gpu);
    }
    if (result < 0)
        complain(gpu, &error);
    show_state(writer, index);
}

static bool is_watched(const struct gpu *gpu)
{
    return (gpu->stage == LEASED ? gpu->is_recorded : gpu->is_deferred) &&
           !gpu->observation.is_running && gpu->raise_ns == NEVER_NS;
}

static bool watch_one(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct gpu *gpu = &writer->gpus[i];

        if (!is_away(writer, i) && is_watched(gpu) && gpu->watch_ns <= now_ns) {
            watch(writer, i);
            return true;
        }
    }
    return false;
}

/* Whether the GPU has not been seen without Lull's lock since it was lowered. */
static bool needs_proof(const struct gpu *gpu)
{
    const struct lull_journal_record *record = &gpu->record;

    return !gpu->is_seen_free && !gpu->is_foreign &&
           (record->written.sm_mhz[0] != 0 || record->written.sm_mhz[1] != 0 ||
            record->is_blind != 0);
}

/* Takes the record of a GPU away that was raised: out of the journal if its clock was seen, else
 * out of the way until it is. Returns -EAGAIN if it has to be reset first. */
static int clear_record(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct gpu *gpu = &writer->gpus[index];
    const char *uuid = lull_device_info(writer->devices, index)->uuid;
    struct lull_device_reading reading;
    enum lull_sight sight = LULL_SIGHT_FREE;

    if (gpu->is_recorded && needs_proof(gpu)) {
        lull_device_read(writer->devices, index, LULL_SIGHT_READINGS, &reading);
        sight = lull_sight_of_clock(lull_device_info(writer->devices, index), &reading,
                                    &gpu->record.written);
        gpu->state.observed_mhz = reading.sm_mhz;
    }
    if (sight == LULL_SIGHT_OURS) {
        reset_again(gpu);
        if (gpu->stage == ENDING && gpu->raise_failures == FAILURES_TO_REPORT)
            report_end(writer, index, LULL_E_NOT_OBEYED);
        return -EAGAIN;
    }
    gpu->is_recorded = false;
    gpu->raise_failures = 0;
    if (sight != LULL_SIGHT_NOTHING)
        return lull_journal_remove(writer->journal, uuid, err);
    lull_log(
        LULL_LOG_INFO, "writer",
        "GPU %u: its clock was reset, unconfirmed: it is idle or held otherwise, so the effect "
        "is not seen yet; its record is kept until it is",
        index);
    gpu->is_deferred = true;
    gpu->watch_ns = lull_now_ns() + WATCH_NS;
    return lull_journal_defer(writer->journal, uuid, err);
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
        result = clear_record(writer, index, &error);
        if (result == -EAGAIN)
            return;
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

        if (!is_away(writer, i) && gpu->stage != LEASED && gpu->raise_ns == NEVER_NS &&
            !gpu->observation.is_running && lull_limit_control_is_restored(&gpu->limit) &&
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

        if (is_away(writer, i)) {
            due_ns = lull_earlier_ns(due_ns, health_due_ns(writer, i));
            continue;
        }
        due_ns = lull_earlier_ns(due_ns, gpu->raise_ns);
        if (gpu->is_recorded)
            due_ns = lull_earlier_ns(due_ns, lull_limit_control_due_ns(&gpu->limit));
        if (gpu->observation.is_running)
            due_ns = lull_earlier_ns(due_ns, gpu->observation.next_ns);
        if (is_watched(gpu))
            due_ns = lull_earlier_ns(due_ns, gpu->watch_ns);
        if (gpu->stage == LEASED && (gpu->applied_mhz != 0 || gpu->is_uncertain) &&
            gpu->raise_ns == NEVER_NS)
            due_ns = lull_earlier_ns(due_ns, gpu->valid_until_ns);
        if (gpu->has_pending)
            due_ns = lull_earlier_ns(
                due_ns,
                lull_earlier_ns(
                    lowering_from_ns(gpu),
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

/* Whether nothing is left to do on a GPU before the writer ends. */
static bool is_restored(const struct lull_writer *writer, uint32_t index, int64_t now_ns)
{
    const struct gpu *gpu = &writer->gpus[index];
    const int64_t away_ns = lull_turn_away_ns(&writer->turn, index);

    if (away_ns != 0)
        return health_since(away_ns, now_ns) != LULL_WRITER_UP;
    return gpu->stage == FREE && gpu->raise_ns == NEVER_NS && !gpu->is_recorded;
}

static bool is_done(const struct lull_writer *writer, int64_t now_ns)
{
    if (writer->stop_seen_ns == 0)
        return false;
    if (now_ns >= writer->stop_seen_ns)
        return true;
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        if (!is_restored(writer, i, now_ns))
            return false;
    return true;
}

/* The writer's loop, until all is done or the calling thread has lost its turn in a call. */
static void *run(void *argument)
{
    struct lull_writer *writer = argument;

    while (!lull_turn_is_lost()) {
        int64_t now_ns = lull_now_ns();

        atomic_store(&writer->is_asked, false);
        if (atomic_exchange(&writer->has_mail, false))
            adopt(writer, now_ns);
        watch_away(writer, now_ns);
        heed_keeper(writer, now_ns);
        collect(writer, now_ns);
        if (act(writer, now_ns) || record_one(writer) || observe_one(writer, now_ns) ||
            watch_one(writer, now_ns))
            continue;
        finish_all(writer);
        if (is_done(writer, now_ns))
            break;
        if (!lull_turn_is_lost() && !atomic_load(&writer->has_mail))
            sleep_until_due(writer);
    }
    if (lull_turn_is_lost())
        return NULL;
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->has_finished = true;
    pthread_cond_signal(&writer->finished);
    pthread_mutex_unlock(&writer->mailbox_lock);
    return NULL;
}

static void *wait_and_run(void *argument);
static void wake(struct lull_writer *writer);

/* Starts the thread that takes over if this one gets stuck. */
static void start_spare(struct lull_writer *writer)
{
    const int result = lull_thread_start(&writer->spare, wait_and_run, writer);

    writer->has_spare = result == 0;
    if (result < 0)
        lull_log(LULL_LOG_WARNING, "writer",
                 "no second thread (%s): a GPU that hangs would stop all", strerror(-result));
}

static void *wait_and_run(void *argument)
{
    struct lull_writer *writer = argument;

    pthread_setname_np(pthread_self(), "lull-writer");
    /* The default slack of 50 us would be most of a switch's latency. */
    prctl(PR_SET_TIMERSLACK, 1UL);
    lull_thread_set_realtime();
    if (!lull_turn_wait(&writer->turn))
        return NULL;
    pthread_mutex_lock(&writer->mailbox_lock);
    writer->thread = pthread_self();
    pthread_mutex_unlock(&writer->mailbox_lock);
    start_spare(writer);
    run(writer);
    if (!lull_turn_is_lost())
        return NULL;
    pthread_detach(pthread_self()); /* the thread that took the turn is the one that is joined */
    pthread_mutex_lock(&writer->mailbox_lock);
    lull_turn_give_back();
    wake(writer);
    pthread_mutex_unlock(&writer->mailbox_lock); /* from here on the writer may be freed */
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
    lull_turn_fini(&writer->turn);
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

/* GPUs that an earlier process has reset while they were idle are watched on. */
static void take_over_deferred(struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        struct gpu *gpu = &writer->gpus[i];

        gpu->is_deferred =
            lull_journal_load_deferred(writer->journal, lull_device_info(writer->devices, i)->uuid,
                                       &gpu->record, NULL) == 0;
        if (gpu->is_deferred)
            gpu->watch_ns = lull_now_ns() + WATCH_NS;
    }
}

int lull_writer_start(struct lull_devices *devices, struct lull_journal *journal,
                      const struct lull_writer_options *options, struct lull_writer **writer_out,
                      struct lull_error *err)
{
    struct lull_writer *writer;
    pthread_t thread;
    int result = lull_journal_claim(journal, devices, err);

    if (result < 0)
        return result;
    writer = calloc(1, sizeof(*writer));
    if (writer == NULL)
        return lull_error_set(err, -ENOMEM, "writer: no memory");
    writer->devices = devices;
    writer->journal = journal;
    writer->options = *options;
    writer->gpu_count = lull_devices_count(devices);
    writer->timer_ns = NEVER_NS;
    init_locks(writer);
    lull_turn_init(&writer->turn);
    for (uint32_t i = 0; i < LULL_DEVICE_MAX_GPUS; i++) {
        writer->gpus[i].raise_ns = NEVER_NS;
        writer->gpus[i].watch_ns = NEVER_NS;
        lull_switch_budget_init(&writer->gpus[i].budget, options->lowering_gap_ns,
                                options->lowering_refill_ns);
    }
    take_over_deferred(writer);
    result = open_fds(writer);
    if (result == 0)
        result = lull_thread_start(&thread, wait_and_run, writer);
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
    if (!has_finished)
        return false;
    pthread_join(writer->thread, NULL);
    lull_turn_end(&writer->turn);
    if (writer->has_spare)
        pthread_join(writer->spare, NULL);
    return true;
}

static bool has_stuck_thread(struct lull_writer *writer)
{
    bool is_any_away = false;

    pthread_mutex_lock(&writer->mailbox_lock);
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        is_any_away = is_any_away || is_away(writer, i);
    pthread_mutex_unlock(&writer->mailbox_lock);
    return is_any_away;
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
    if (has_stuck_thread(writer))
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

bool lull_writer_answers(struct lull_writer *writer)
{
    const bool is_silent = atomic_exchange(&writer->is_asked, true);

    wake(writer);
    return !is_silent;
}

void lull_writer_state(struct lull_writer *writer, uint32_t gpu,
                       struct lull_writer_state *state_out)
{
    pthread_mutex_lock(&writer->mailbox_lock);
    *state_out = writer->states[gpu];
    pthread_mutex_unlock(&writer->mailbox_lock);
    state_out->health = health_since(lull_turn_away_ns(&writer->turn, gpu), lull_now_ns());
    if (state_out->health == LULL_WRITER_UP && state_out->status == LULL_E_NO_DEVICE)
        state_out->health = LULL_WRITER_LOST;
}

const char *lull_writer_health_name(enum lull_writer_health health)
{
    static const char *const names[] = {"UP", "SUSPECT", "HUNG", "LOST"};

    assert((size_t)health < sizeof(names) / sizeof(names[0]));
    return names[health];
}
