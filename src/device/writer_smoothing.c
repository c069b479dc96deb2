/*
 * Power smoothing: like power profiles it waits until no clock needs the driver, is noted in the
 * journal before it is changed, and is restored at the end of the lease.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "device/driver_owner.h"
#include "device/writer_internal.h"

int64_t lull_writer_smoothing_due_ns(const struct lull_writer_gpu *gpu)
{
    if (lull_writer_gpu_is_held(gpu) && gpu->states.record != LULL_RECORD_KEPT)
        return LULL_WRITER_NEVER_NS;
    return lull_smoothing_control_due_ns(&gpu->smoothing);
}

void lull_writer_name_smoothing(const struct lull_smoothing_control *smoothing,
                                struct lull_journal_written *written)
{
    written->has_smoothing = smoothing->is_own;
    memcpy(written->smoothing_before, smoothing->before, sizeof(smoothing->before));
    memcpy(written->smoothing, smoothing->written, sizeof(smoothing->written));
}

void lull_writer_inherit_smoothing(struct lull_writer_gpu *gpu)
{
    const struct lull_journal_written *written = &gpu->journal.record.written;

    if (written->has_smoothing != 0)
        lull_smoothing_control_inherit(&gpu->smoothing, written->smoothing_before,
                                       written->smoothing);
}

static int note_smoothing(struct lull_writer *writer, struct lull_writer_gpu *gpu,
                          struct lull_error *err)
{
    struct lull_writer_journal *journal = &gpu->journal;
    struct lull_journal_written written = journal->record.written;

    lull_writer_name_smoothing(&gpu->smoothing, &written);
    if (memcmp(&written, &journal->record.written, sizeof(written)) == 0)
        return 0;
    journal->record.written = written;
    return lull_journal_note(writer->journal, journal->record.uuid, &journal->file, &written, err);
}

/* Finds out what is to be done, and notes what will be changed. */
static int prepare_smoothing(struct lull_writer *writer, uint32_t index, struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    const bool was_own = gpu->smoothing.is_own;
    int result;

    if (lull_writer_is_keeper_at_work(writer)) /* it would remove the record of what is changed */
        return lull_error_set(err, -EAGAIN, "GPU %u: the keeper is restoring", index);
    result = lull_smoothing_control_look(&gpu->smoothing, writer->devices, index, err);
    if (result < 0 || was_own || !gpu->smoothing.is_own)
        return result;
    result = note_smoothing(writer, gpu, err);
    if (result < 0)
        gpu->smoothing.is_own = false;
    return result;
}

static void report_failure(struct lull_writer *writer, uint32_t index, int status,
                           const struct lull_error *err)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];

    lull_writer_log_once(gpu, err);
    if (!lull_driver_owner_is_lost())
        lull_writer_note_result(writer, index, status, err);
    if (lull_writer_gpu_is_awaited(gpu) &&
        gpu->smoothing.failures == LULL_WRITER_FAILURES_TO_REPORT)
        lull_writer_report_end(writer, index, status);
}

static void write_smoothing_of(struct lull_writer *writer, uint32_t index)
{
    struct lull_writer_gpu *gpu = &writer->gpus[index];
    struct lull_error error = {0};
    int result = prepare_smoothing(writer, index, &error);

    if (result == 0)
        result = lull_smoothing_control_act(&gpu->smoothing, writer->devices, index, &error);
    if (result < 0) {
        lull_smoothing_control_fail(&gpu->smoothing, result);
        report_failure(writer, index, result, &error);
    } else if (gpu->smoothing.item == LULL_SMOOTHING_STATE) {
        gpu->state.writes++;
        lull_log(LULL_LOG_INFO, "writer", "GPU %u: power smoothing by Lull: %s", index,
                 gpu->smoothing.value != 0 ? "on" : "off");
    }
    /* What was restored must not be restored again later: another program may change it. */
    if (gpu->states.record == LULL_RECORD_KEPT && note_smoothing(writer, gpu, &error) < 0)
        lull_writer_log_once(gpu, &error);
    lull_writer_publish_limit(gpu, index);
    lull_writer_show_state(writer, index);
}

bool lull_writer_act_on_smoothing(struct lull_writer *writer, int64_t now_ns)
{
    for (uint32_t i = 0; i < writer->gpu_count; i++) {
        if (lull_writer_is_out(writer, i) ||
            lull_writer_smoothing_due_ns(&writer->gpus[i]) > now_ns)
            continue;
        write_smoothing_of(writer, i);
        return true;
    }
    return false;
}
