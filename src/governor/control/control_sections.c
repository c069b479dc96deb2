/* State of the control for live views: the section of each GPU, and what is requested of it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "governor/control/control_state.h"

#include <string.h>

enum lull_live_section lull_control_section_of(const struct lull_control *control,
                                               const struct lull_governed_gpu *gpu,
                                               const struct lull_event *event)
{
    static const enum lull_live_section named[] = {LULL_LIVE_COMMUNICATION, LULL_LIVE_BUBBLE,
                                                   LULL_LIVE_IDLE, LULL_LIVE_FORWARD,
                                                   LULL_LIVE_BACKWARD};
    char name[LULL_JOB_NAME_BYTES];

    if (event->operation != LULL_OPERATION_USER)
        return LULL_LIVE_COMMUNICATION;
    lull_event_segment_name(control->job, (uint32_t)gpu->state.process, event->name, name);
    for (unsigned i = 0; i < sizeof(named) / sizeof(named[0]); i++)
        if (strcmp(name, lull_live_section_text(named[i])) == 0)
            return named[i];
    return LULL_LIVE_USER;
}

void lull_control_meter(const struct lull_control *control, struct lull_governed_gpu *gpu,
                        const struct lull_event *event)
{
    struct lull_metered_section section = {.operation = event->operation, .name = event->name};

    if ((event->kind != LULL_EVENT_BEGIN && event->kind != LULL_EVENT_END) || event->thread != 0 ||
        event->operation == LULL_OPERATION_POLL || gpu->gaps != NULL)
        return;
    section.kind = lull_control_section_of(control, gpu, event);
    if (event->kind == LULL_EVENT_BEGIN)
        lull_section_meter_begin(&gpu->meter, event->time_ns, &section);
    else
        lull_section_meter_end(&gpu->meter, event->time_ns);
}

/* The section controller lowers for whole iterations, and in pulses that measure what switching
 * costs, as well. */
static bool is_of_section(const struct lull_control *control, const struct lull_command *command)
{
    const struct lull_controller_gpu_view now =
        lull_controller_look_gpu(control->controller, command->gpu);

    return control->decider == &lull_section_decider && now.has_sections &&
           command->point != now.steady_point;
}

/* Returns whether the rank is in a section that may be lowered. */
static bool control_section_is_within(const struct lull_section_meter *meter)
{
    switch ((enum lull_live_section)meter->now.kind) {
    case LULL_LIVE_NO_SECTION:
    case LULL_LIVE_COMPUTATION:
    case LULL_LIVE_FORWARD:
    case LULL_LIVE_BACKWARD:
        return false;
    default:
        return true;
    }
}

void lull_control_judge_forecast(const struct lull_control *control, struct lull_governed_gpu *gpu,
                                 const struct lull_command *command)
{
    if (command->point > gpu->point) {
        gpu->is_low_within = is_of_section(control, command);
        return;
    }
    if (command->point == gpu->point || !gpu->is_low_within)
        return;
    gpu->is_low_within = false;
    gpu->forecasts++;
    gpu->hits += control_section_is_within(&gpu->meter);
}

struct lull_control_view lull_control_view(const struct lull_control *control, uint32_t index,
                                           int64_t now_ns)
{
    const struct lull_governed_gpu *gpu = &control->gpus[index];
    const bool is_low = gpu->lowered.begin_ns != 0;
    struct lull_control_view view = {
        .wanted_mhz = gpu->info->sm_clock_count > 0 ? gpu->info->sm_clocks_mhz[0] : 0,
        .lowered_ns = gpu->lowered_ns + (is_low ? now_ns - gpu->lowered.begin_ns : 0),
        .forecasts = gpu->forecasts,
        .hits = gpu->hits,
        .meter = &gpu->meter,
    };

    if (is_low)
        view.wanted_mhz = gpu->lowered.index;
    return view;
}
