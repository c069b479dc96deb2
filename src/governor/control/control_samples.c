/* Takes what the main thread reads of the GPUs beside the job. SPDX-License-Identifier: Apache-2.0
 */
#include "governor/control/control_state.h"

#include "base/log.h"

static void control_sample_watch_clock(struct lull_governed_gpu *gpu,
                                       const struct lull_sample *sample)
{
    const uint32_t needed = LULL_READING_SM_CLOCK | LULL_READING_REASONS;

    gpu->expected.highest_mhz = gpu->info->sm_clock_count > 0 ? gpu->info->sm_clocks_mhz[0] : 0;
    gpu->expected.is_limited = sample->reading.reasons != 0 || gpu->cap_mhz != 0;
    gpu->is_idle = (sample->reading.valid & LULL_READING_REASONS) != 0 &&
                   (sample->reading.reasons & LULL_CLOCK_REASON_IDLE) != 0;
    if ((sample->reading.valid & needed) == needed && gpu->expected.since_ns != 0)
        lull_driver_watch_take_clock(&gpu->state.driver, sample->time_ns, sample->reading.sm_mhz,
                                     &gpu->expected);
}

/* Returns whether the driver has reported an error that the job survives, and that may have cost it
 * time. */
static bool has_new_xids(struct lull_governed_gpu *gpu, const struct lull_device_reading *reading)
{
    if ((reading->valid & LULL_READING_XIDS) == 0 || reading->xid_count == gpu->xids)
        return false;
    gpu->xids = reading->xid_count;
    if (gpu->xids >= 2 * gpu->xids_reported) { /* some drivers report thousands of them */
        gpu->xids_reported = gpu->xids;
        lull_log(LULL_LOG_WARNING, "run",
                 "GPU %u: its driver has reported XID %u (%u so far): what is measured meanwhile "
                 "is set aside",
                 gpu->state.device, reading->last_xid, gpu->xids);
    }
    return true;
}

/* Returns whether another program has lowered the power limit since the run began. */
static bool is_limited_by_others(const struct lull_control *control, struct lull_governed_gpu *gpu,
                                 const struct lull_device_reading *reading)
{
    if (control->wants_limits)
        return false;
    if ((reading->valid & LULL_READING_POWER_LIMIT) != 0) {
        if (gpu->first_limit_mw == 0)
            gpu->first_limit_mw = reading->power_limit_mw;
        if (reading->power_limit_mw != gpu->limit_mw && gpu->limit_mw != 0) {
            gpu->state.limit_changes++;
            lull_log(LULL_LOG_WARNING, "run",
                     "GPU %u: its power limit was changed from %u to %u W, not by Lull: what is "
                     "measured meanwhile is set aside",
                     gpu->state.device, gpu->limit_mw / 1000, reading->power_limit_mw / 1000);
        }
        gpu->limit_mw = reading->power_limit_mw;
    }
    return gpu->limit_mw < gpu->first_limit_mw;
}

static bool control_sample_is_throttled(const struct lull_device_reading *reading)
{
    return (reading->valid & LULL_READING_REASONS) != 0 &&
           (reading->reasons & LULL_CLOCK_REASON_THROTTLED) != 0;
}

void lull_control_sample(struct lull_control *control, uint32_t index,
                         const struct lull_sample *sample)
{
    struct lull_governed_gpu *const gpu = &control->gpus[index];
    const struct lull_device_reading *const reading = &sample->reading;
    const struct lull_decider *decider;
    bool is_limited;

    pthread_mutex_lock(&control->lock);
    decider = control->decider;
    control_sample_watch_clock(gpu, sample);
    lull_run_log_add_sample(&gpu->log, sample);
    lull_control_idle_take_sample(control, gpu, sample);
    lull_control_profile_take_sample(control, gpu, reading);
    if ((reading->valid & LULL_READING_POWER) != 0)
        lull_section_meter_take_power(&gpu->meter, sample->time_ns, reading->power_mw * 1e-3);
    /* In idle phases GPUs are read more often than swings are sampled. While smoothing is tested,
     * power is neither that of the reference nor that of accepted clocks. */
    if (decider->take_power != NULL && !gpu->is_parked &&
        (control->holds & LULL_HOLD_SMOOTHING) == 0 && (reading->valid & LULL_READING_POWER) != 0)
        decider->take_power(control->deciding, index, sample->time_ns, reading->power_mw * 1e-3);
    is_limited = is_limited_by_others(control, gpu, reading);
    if (has_new_xids(gpu, reading) || control_sample_is_throttled(reading) || is_limited)
        decider->take_disturbance(control->deciding, index);
    pthread_mutex_unlock(&control->lock);
}
