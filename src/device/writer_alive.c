/*
 * GPUs that are away with a thread that is stuck in the driver, and the keeper, which takes over
 * when this thread seems to be stuck itself. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

/* While the keeper restores, some 10 ms or, where a clock does not follow, 500, it is looked at
 * this often. */
#define KEEPER_STEP_NS (5 * LULL_NS_PER_MS)

/* A call that lasts this long makes a GPU suspect. */
#define SUSPECT_NS LULL_NS_PER_S

bool lull_writer_is_away(const struct lull_writer *writer, uint32_t index)
{
    return lull_driver_owner_away_ns(&writer->owner, index) != 0;
}

enum lull_writer_health lull_writer_health_of_call(const struct lull_writer *writer, uint32_t index,
                                                   int64_t now_ns)
{
    const int64_t away_ns = lull_driver_owner_away_ns(&writer->owner, index);

    if (away_ns == 0 || now_ns - away_ns < SUSPECT_NS)
        return LULL_WRITER_UP;
    return now_ns - away_ns < writer->options.hung_ns ? LULL_WRITER_SUSPECT : LULL_WRITER_HUNG;
}

/* Logs where in the kernel a hung thread waits: a driver's developers need that to find the cause.
 */
static void writer_log_hung_thread(const struct lull_writer *writer, uint32_t index)
{
    const int thread = lull_driver_owner_away_thread(&writer->owner, index);
    char channel[64];

    if (!lull_thread_wait_channel(thread, channel, sizeof(channel)))
        snprintf(channel, sizeof(channel), "unknown");
    lull_log(LULL_LOG_ERROR, "writer", "GPU %u: HUNG: its thread %d is in state %c and waits in %s",
             index, thread, lull_thread_state(thread), channel);
}

/* Logs each state of a GPU that is away once, and its return. */
static void writer_log_health(struct lull_writer *writer, uint32_t index,
                              enum lull_writer_health health)
{
    if (writer->reported[index] == health)
        return;
    writer->reported[index] = health;
    if (health == LULL_WRITER_UP)
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: its driver call has returned", index);
    else
        lull_log(health == LULL_WRITER_HUNG ? LULL_LOG_ERROR : LULL_LOG_WARNING, "writer",
                 "GPU %u: a driver call does not return (%s); the other GPUs are served, this one "
                 "is restored when it returns",
                 index, lull_writer_health_name(health));
    if (health == LULL_WRITER_HUNG)
        writer_log_hung_thread(writer, index);
}

/* Answers in place of a GPU that hangs, so that no client waits for it. The hung thread takes no
 * request and publishes nothing, so this thread may. The result of the hung call is handled when
 * the call returns. */
static void refuse_away(const struct lull_writer *writer, uint32_t index)
{
    const struct lull_writer_source *source = writer->gpus[index].lease.source;
    struct lull_switch_request request;

    if (source == NULL || !source->channel.take(source->channel.context, index, &request))
        return;
    source->channel.publish(source->channel.context, index,
                            &(struct lull_switch_result){.sequence = request.sequence,
                                                         .sm_mhz = request.sm_mhz,
                                                         .settle_ns = LULL_SETTLE_UNKNOWN,
                                                         .status = -ETIMEDOUT});
}

/* Reports the end of a lease although a suspect GPU cannot be raised, so that the owner does not
 * wait for it. */
static void writer_report_lease_end(struct lull_writer *writer, uint32_t index)
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

void lull_writer_watch_away(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const enum lull_writer_health health = lull_writer_health_of_call(writer, i, now_ns);

        writer_log_health(writer, i, health);
        if (health == LULL_WRITER_UP)
            continue;
        refuse_away(writer, i);
        writer_report_lease_end(writer, i);
    }
}

int64_t lull_writer_health_due_ns(const struct lull_writer *writer, uint32_t index)
{
    const int64_t away_ns = lull_driver_owner_away_ns(&writer->owner, index);

    switch (lull_writer_health_of_call(writer, index, lull_now_ns())) {
    case LULL_WRITER_UP:
        return away_ns + SUSPECT_NS;
    case LULL_WRITER_SUSPECT:
        return away_ns + writer->options.hung_ns;
    default:
        return LULL_WRITER_NEVER_NS;
    }
}

bool lull_writer_is_keeper_at_work(const struct lull_writer *writer)
{
    return (writer->takeovers_seen & 1) != 0;
}

/* The journal is what the keeper would restore from, so a GPU with a record counts. */
static bool is_engaged(const struct lull_writer *writer)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const struct lull_writer_gpu *gpu = &writer->gpus[i];

        if (gpu->states.record == LULL_RECORD_KEPT || lull_writer_gpu_is_changed(gpu) ||
            !lull_writer_gpu_is_power_restored(gpu))
            return true;
    }
    return false;
}

void lull_writer_distrust(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns)
{
    if (lull_writer_gpu_is_held(gpu))
        lull_writer_gpu_handle(gpu, LULL_EVENT_RECORD_MOVED);
    lull_journal_forget_file(&gpu->journal.file); /* the keeper may have moved the record */
    if (lull_writer_gpu_is_changed(gpu)) {
        lull_writer_gpu_handle(gpu, LULL_EVENT_CLOCK_DOUBTED);
        lull_writer_undo_lowering(gpu, index, now_ns);
    }
    lull_limit_control_undo(&gpu->limit);
    lull_profile_control_undo(&gpu->profiles, now_ns);
    lull_smoothing_control_undo(&gpu->smoothing, now_ns);
}

void lull_writer_apply_keeper(struct lull_writer *writer, int64_t now_ns)
{
    uint32_t takeovers;

    if (writer->options.keeper == NULL)
        return;
    takeovers = lull_keeper_heartbeat(writer->options.keeper, now_ns, is_engaged(writer));
    writer->heartbeat_ns = now_ns;
    if (takeovers == writer->takeovers_seen)
        return;
    writer->takeovers_seen = takeovers;
    /* The keeper has restored the GPUs and removed their records. A call that was on its way while
     * this process hung may have come after that. */
    for (uint32_t i = 0; i < writer->gpu_count; i++)
        lull_writer_distrust(&writer->gpus[i], i, now_ns);
}

int64_t lull_writer_next_heartbeat(const struct lull_writer *writer)
{
    if (writer->options.keeper == NULL)
        return LULL_WRITER_NEVER_NS;
    if (lull_writer_is_keeper_at_work(writer))
        return writer->heartbeat_ns + KEEPER_STEP_NS;
    return is_engaged(writer) ? writer->heartbeat_ns + LULL_KEEPER_HEARTBEAT_NS
                              : LULL_WRITER_NEVER_NS;
}
