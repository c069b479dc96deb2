/*
 * Trust: what the driver's calls say of it, and what follows for the GPUs of the node.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

#include <math.h>

static uint32_t active_count(const struct lull_controller *controller)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++)
        count += lull_controller_is_active(&controller->gpus[i]);
    return count > 0 ? count : 1;
}

/* Of all GPUs. Sections are looked at only where that may matter to this time, else 0. */
static double longest_section_ms(const struct lull_controller *controller, double ms)
{
    double longest_ms = 0.0;

    if (ms <= lull_call_trust_limit_ms(0.0, 1))
        return 0.0;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        uint32_t count;
        const struct lull_section *sections =
            lull_track_sections(controller->gpus[i].track, &count);

        for (uint32_t j = 0; j < count; j++)
            longest_ms = fmax(longest_ms, sections[j].length_ms.mean);
    }
    return longest_ms;
}

/* Everything is raised, and what is being tested begins again once the driver is trusted. */
static void withhold(struct lull_controller *controller)
{
    controller->withheld = true;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        lull_controller_raise_now(controller, &controller->gpus[i]);
    lull_controller_reconsider(controller);
}

/* Pulses on GPUs whose sections are known; on others as soon as they are. */
static void prove_anew(struct lull_controller *controller)
{
    controller->withheld = false;
    controller->went_deep = false;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        lull_switch_calibration_forget(&gpu->calibration);
        if (gpu->points > 1 && lull_controller_is_active(gpu) && lull_controller_is_known(gpu))
            lull_switch_calibration_start(&gpu->calibration, controller->now_ns);
    }
}

void lull_controller_heed_trust(struct lull_controller *controller)
{
    const bool is_trusted = lull_call_trust_poll(&controller->trust, controller->now_ns);

    if (!is_trusted && !controller->withheld)
        withhold(controller);
    else if (is_trusted && controller->withheld)
        prove_anew(controller);
}

void lull_controller_take_blocked(struct lull_controller *controller, uint32_t gpu,
                                  double blocked_ms)
{
    const double longest_ms = longest_section_ms(controller, blocked_ms);

    lull_switch_calibration_take_call(&controller->gpus[gpu].calibration, controller->now_ns);
    lull_call_trust_take_call(&controller->trust, controller->now_ns, blocked_ms,
                              lull_call_trust_limit_ms(longest_ms, active_count(controller)),
                              controller->went_deep ? LULL_CONTROLLER_DEEP_LOSS
                                                    : LULL_CONTROLLER_STEP_LOSS);
    lull_controller_heed_trust(controller);
}

void lull_controller_take_waiting(struct lull_controller *controller, double waiting_ms)
{
    const double longest_ms = longest_section_ms(controller, waiting_ms);

    controller->waiting_ms = waiting_ms;
    lull_call_trust_take_waiting(
        &controller->trust, waiting_ms,
        lull_call_trust_waiting_limit_ms(longest_ms, controller->gpu_count));
    lull_controller_heed_trust(controller);
}

bool lull_controller_is_withheld(const struct lull_controller *controller)
{
    return controller->withheld;
}
