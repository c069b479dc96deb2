/* Lowers GPUs in idle phases (core/section/idle_phase.h), whatever the decider wants of them.
 * Afterwards they are at the reference until the decider requests something else.
 * SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <math.h>

#include "base/clock.h"

/* Share of the user's tolerance that idle phases may take. */
static const double tolerance_share = 0.2;
/* A lowering is void if it is served later, and ends unless it is renewed: if this process stops,
 * the writer raises the GPU. */
static const int64_t serve_ns = LULL_NS_PER_S;
static const int64_t valid_ns = 5 * LULL_NS_PER_S;
static const int64_t renew_ns = LULL_NS_PER_S;

void lull_control_idle_begin(const struct lull_control *control, struct lull_governed_gpu *gpu)
{
    const struct lull_device_info *const info = gpu->info;

    gpu->is_parked = false;
    if (gpu->idle.start_ns != 0 || info->sm_clock_count < 2)
        return;
    lull_idle_phase_init(
        &gpu->idle, fmin(LULL_IDLE_PHASE_RATE, tolerance_share * control->tolerance_ratio),
        (double)info->sm_clocks_mhz[info->sm_clock_count - 1] / info->sm_clocks_mhz[0],
        lull_now_ns());
}

void lull_control_idle_end(struct lull_governed_gpu *gpu)
{
    lull_idle_phase_stop(&gpu->idle, lull_now_ns());
    gpu->is_parked = false;
}

bool lull_control_idle_overrules(struct lull_governed_gpu *gpu, uint32_t point, int64_t now_ns)
{
    if (!gpu->is_parked || point != 0)
        return gpu->is_parked;
    lull_control_idle_end(gpu);
    lull_idle_phase_take_event(&gpu->idle, now_ns);
    return false;
}

static bool control_idle_is_on(const struct lull_control *control,
                               const struct lull_governed_gpu *gpu)
{
    return gpu->armed && !control->observe_only && gpu->idle.start_ns != 0 &&
           !lull_driver_watch_denies(&gpu->state.driver) &&
           !lull_driver_watch_has_no_effect(&gpu->state.driver);
}

/* COMPLETE reports how far kernels are recorded, also while none runs. */
void lull_control_idle_take_event(struct lull_control *control, uint32_t index,
                                  const struct lull_event *event)
{
    if (event->kind == LULL_EVENT_COMPLETE)
        return;
    lull_idle_phase_take_event(&control->gpus[index].idle, lull_control_event_ns(event));
    control->spinning &= ~(UINT64_C(1) << index);
}

void lull_control_lower_spinning(struct lull_control *control, uint32_t slot)
{
    if (control->processes[slot].gpu >= 0)
        control->spinning |= UINT64_C(1) << control->processes[slot].gpu;
}

void lull_control_idle_take_sample(struct lull_control *control, struct lull_governed_gpu *gpu,
                                   const struct lull_sample *sample)
{
    const struct lull_device_reading *const reading = &sample->reading;
    double power_w = (double)NAN;

    if ((reading->valid & LULL_READING_UTILIZATION) == 0)
        return;
    if ((reading->valid & LULL_READING_POWER) != 0)
        power_w = reading->power_mw * 1e-3;
    lull_idle_phase_take_reading(&gpu->idle, sample->time_ns, reading->utilization_percent > 0,
                                 power_w);
    if (gpu->is_parked && !gpu->idle.is_low)
        lull_event_segment_wake(control->job);
}

static void control_idle_post(struct lull_control *control, struct lull_governed_gpu *gpu,
                              uint32_t point, int64_t now_ns)
{
    const struct lull_posted_request request = {
        .point = point, .posted_ns = now_ns, .is_of_idle = true};

    gpu->is_parked = point != 0;
    gpu->park_renew_ns = now_ns + renew_ns;
    lull_control_post(control, gpu, &request, now_ns + serve_ns, now_ns + valid_ns);
}

void lull_control_idle_poll(struct lull_control *control, int64_t now_ns)
{
    if (control->spinning != 0 && !lull_hang_is_due(control->hang, now_ns))
        control->spinning = 0;
    for (uint32_t i = 0; i < control->gpu_count; i++) {
        struct lull_governed_gpu *const gpu = &control->gpus[i];
        const bool is_spinning = (control->spinning >> i & 1) != 0;
        const bool is_low = control_idle_is_on(control, gpu) && !atomic_load(&control->stopping) &&
                            (lull_idle_phase_poll(&gpu->idle, now_ns) || is_spinning);

        if (is_low && (!gpu->is_parked || now_ns >= gpu->park_renew_ns))
            control_idle_post(control, gpu, gpu->info->sm_clock_count - 1, now_ns);
        else if (!is_low && gpu->is_parked)
            control_idle_post(control, gpu, 0, now_ns);
    }
}

bool lull_control_wants_utilization(struct lull_control *control, uint32_t index, int64_t now_ns)
{
    const struct lull_governed_gpu *const gpu = &control->gpus[index];
    bool is_wanted;

    pthread_mutex_lock(&control->lock);
    is_wanted =
        control_idle_is_on(control, gpu) && now_ns - gpu->idle.begin_ns > LULL_IDLE_PHASE_QUIET_NS;
    pthread_mutex_unlock(&control->lock);
    return is_wanted;
}

bool lull_control_is_parked(struct lull_control *control)
{
    bool is_parked = false;

    pthread_mutex_lock(&control->lock);
    for (uint32_t i = 0; i < control->gpu_count; i++)
        is_parked = is_parked || control->gpus[i].is_parked;
    pthread_mutex_unlock(&control->lock);
    return is_parked;
}

const struct lull_idle_phase *lull_control_idle(const struct lull_control *control, uint32_t index)
{
    return &control->gpus[index].idle;
}
