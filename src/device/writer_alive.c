/*
 * GPUs that are away with a thread that is stuck in the driver, and the keeper, which takes over
 * when this thread seems to be stuck itself. SPDX-License-Identifier: Apache-2.0
 */
#include "device/writer_internal.h"

#include "base/clock.h"
#include "base/log.h"

/* While the keeper restores, some 10 ms or, where a clock does not follow, 500, it is looked at
 * this often. Chosen, not measured. */
#define KEEPER_STEP_NS (5 * LULL_NS_PER_MS)

/* A call that lasts this long makes a GPU suspect, and one that lasts that long counts as hung.
 * Chosen, not measured. */
#define SUSPECT_NS LULL_NS_PER_S
#define HUNG_NS (30 * LULL_NS_PER_S)

bool lull_writer_is_away(const struct lull_writer *writer, uint32_t index)
{
    return lull_turn_away_ns(&writer->turn, index) != 0;
}

enum lull_writer_health lull_writer_health_since(int64_t away_ns, int64_t now_ns)
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

void lull_writer_watch_away(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        const enum lull_writer_health health =
            lull_writer_health_since(lull_turn_away_ns(&writer->turn, i), now_ns);

        tell_health(writer, i, health);
        if (health != LULL_WRITER_UP)
            tell_end(writer, i);
    }
}

int64_t lull_writer_health_due_ns(const struct lull_writer *writer, uint32_t index)
{
    const int64_t away_ns = lull_turn_away_ns(&writer->turn, index);

    switch (lull_writer_health_since(away_ns, lull_now_ns())) {
    case LULL_WRITER_UP:
        return away_ns + SUSPECT_NS;
    case LULL_WRITER_SUSPECT:
        return away_ns + HUNG_NS;
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

        if (gpu->is_recorded || gpu->applied_mhz != 0 || gpu->is_uncertain ||
            !lull_limit_control_is_restored(&gpu->limit))
            return true;
    }
    return false;
}

/* The keeper has put this GPU back and removed its record. A call that was on its way while this
 * process stood still may have come after that, so what was set is undone here as well. */
static void distrust(struct lull_writer_gpu *gpu, uint32_t index, int64_t now_ns)
{
    if (gpu->stage == LULL_STAGE_LEASED)
        gpu->is_recorded = false;
    if (gpu->applied_mhz != 0 || gpu->is_uncertain) {
        gpu->is_uncertain = true;
        lull_writer_undo_lowering(gpu, index, now_ns);
    }
    lull_limit_control_undo(&gpu->limit);
}

void lull_writer_heed_keeper(struct lull_writer *writer, int64_t now_ns)
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

int64_t lull_writer_next_beat(const struct lull_writer *writer)
{
    if (writer->options.keeper == NULL)
        return LULL_WRITER_NEVER_NS;
    if (lull_writer_is_keeper_at_work(writer))
        return writer->beat_ns + KEEPER_STEP_NS;
    return is_engaged(writer) ? writer->beat_ns + LULL_KEEPER_BEAT_NS : LULL_WRITER_NEVER_NS;
}
