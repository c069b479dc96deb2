/*
 * Power profiles: like a power limit they wait until no clock needs the driver, are noted in the
 * journal before they are added, and are removed at the end of the lease.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>

#include "base/log.h"
#include "device/driver_owner.h"
#include "device/writer_internal.h"

int64_t lull_writer_profiles_due_ns(const struct lull_writer_gpu *gpu)
{
    if (lull_writer_gpu_is_held(gpu) && gpu->states.record != LULL_RECORD_KEPT)
        return LULL_WRITER_NEVER_NS;
    return lull_profile_control_due_ns(&gpu->profiles);
}

static int note_profiles(struct lull_writer *writer, struct lull_writer_gpu *gpu,
                         struct lull_error *err)
{
    struct lull_writer_journal *journal = &gpu->journal;

    if (journal->record.written.profiles == gpu->profiles.own)
        return 0;
    journal->record.written.profiles = gpu->profiles.own;
    return lull_journal_note(writer->journal, journal->record.uuid, &journal->file,
                             &journal->record.written, err);
}

/* Finds out what is to be done, and notes what will be added. */
static int prepare_profiles(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const uint32_t before = gpu->profiles.own;
    int result;

    if (lull_writer_is_keeper_at_work(writer)) /* it would remove the record of what is added */
        return lull_error_set(err, -EAGAIN, "GPU %u: the keeper is restoring", index);
    result = lull_profile_control_look(&gpu->profiles, writer->devices, index, err);
    if (result < 0 || gpu->profiles.to_add == 0)
        return result;
    result = note_profiles(writer, gpu, err);
    if (result < 0)
        gpu->profiles.own = before;
    return result;
}

static void report_end_if_failing(struct lull_writer *writer, uint32_t index, int status)
{
    const struct lull_writer_gpu *gpu = &writer->gpus[index];

    if (lull_writer_gpu_is_awaited(gpu) && gpu->profiles.failures == LULL_WRITER_FAILURES_TO_REPORT)
        lull_writer_report_end(writer, index, status);
}

static void write_profiles_of(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const uint32_t before = gpu->profiles.own;
    struct lull_error error = {0};
    const int result = prepare_profiles(writer, index, &error);

    if (result < 0)
        lull_profile_control_fail(&gpu->profiles, result);
    else
        lull_profile_control_act(&gpu->profiles, writer->devices, index, &error);
    if (gpu->profiles.status < 0) {
        lull_writer_log_once(gpu, &error);
        if (!lull_driver_owner_is_lost())
            lull_writer_note_result(writer, index, gpu->profiles.status, &error);
        report_end_if_failing(writer, index, gpu->profiles.status);
    } else if (gpu->profiles.own != before) {
        gpu->state.writes++;
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: power profiles requested by Lull: 0x%x", index,
                 gpu->profiles.own);
    }
    /* What was removed must not be removed again later: another program may request it. */
    if (gpu->states.record == LULL_RECORD_KEPT && note_profiles(writer, gpu, &error) < 0)
        lull_writer_log_once(gpu, &error);
    lull_writer_publish_limit(gpu, index);
    lull_writer_show_state(writer, index);
}

bool lull_writer_act_on_profiles(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        if (lull_writer_is_out(writer, i) || lull_writer_profiles_due_ns(&writer->gpus[i]) > now_ns)
            continue;
        write_profiles_of(writer, i);
        return true;
    }
    return false;
}
