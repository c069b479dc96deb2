/* Learns from the driver's calls, and raises all GPUs while they block. SPDX-License-Identifier:
 * Apache-2.0 */
#include <math.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Share of computing speed that is lost: all of it is assumed at low clocks; one step below the
 * highest clock, about a hundredth. */
static const double deep_loss = 1.0;
static const double step_loss = 0.01;

/* The longest section of all GPUs. Sections are looked at only where a call or wait of `ms` may be
 * too long; else the result is 0. */
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

/* Begins pulses on GPUs whose sections are known; on others they begin as soon as these are known.
 */
static void prove_again(struct lull_controller *controller)
{
    controller->went_deep = false;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        struct lull_controlled_gpu *gpu = &controller->gpus[i];

        lull_switch_calibration_forget(&gpu->calibration);
        if (gpu->points > 1 && lull_controller_takes_part(gpu))
            lull_switch_calibration_start(&gpu->calibration, controller->now_ns);
    }
}

void lull_controller_act_on_driver(struct lull_controller *controller,
                                   enum lull_driver_change change)
{
    switch (change) {
    case LULL_DRIVER_SUSPENDED:
        lull_controller_raise_all(controller);
        lull_controller_reconsider(controller);
        break;
    case LULL_DRIVER_RESUMED:
        prove_again(controller);
        break;
    case LULL_DRIVER_UNCHANGED:
        break;
    }
}

void lull_controller_take_blocked(struct lull_controller *controller, uint32_t gpu,
                                  double blocked_ms)
{
    const double longest_ms = longest_section_ms(controller, blocked_ms);

    lull_switch_calibration_take_call(&controller->gpus[gpu].calibration, controller->now_ns);
    lull_controller_act_on_driver(
        controller, lull_driver_queue_take_blocked(
                        &controller->queue, controller->now_ns, blocked_ms, longest_ms,
                        lull_max_u32(lull_controller_active_before(controller, UINT32_MAX), 1),
                        controller->went_deep ? deep_loss : step_loss));
}

void lull_controller_take_waiting(struct lull_controller *controller, double waiting_ms)
{
    lull_controller_act_on_driver(
        controller,
        lull_driver_queue_take_waiting(&controller->queue, controller->now_ns, waiting_ms,
                                       longest_section_ms(controller, waiting_ms)));
}

void lull_controller_take_switch(struct lull_controller *controller, uint32_t index,
                                 const struct lull_switch_outcome *outcome)
{
    const enum lull_direction direction =
        outcome->point < outcome->was_point ? LULL_DIRECTION_UP : LULL_DIRECTION_DOWN;
    struct lull_controlled_gpu *gpu = &controller->gpus[index];
    struct lull_switch_outcome likely;

    if (outcome->failed) {
        gpu->failed = true;
        lull_controller_reconsider(controller);
        return;
    }
    likely = lull_switch_cost_likely(&gpu->model_cost, direction, outcome);
    lull_slack_take_switch(&controller->slack, index, outcome->point);
    lull_switch_calibration_take_call(&gpu->calibration, controller->now_ns);
    if (!lull_switch_calibration_runs(&gpu->calibration))
        lull_controller_note_clock(controller, gpu, &likely);
    /* Times of a suspended driver say nothing about it after its recovery. */
    if (controller->queue.suspended)
        return;
    lull_driver_queue_learn_call(&controller->queue, outcome->driver_ms);
    /* An overtaken change gives only a lower bound of its time, and an unobserved one gives
     * nothing. */
    if (outcome->overtaken || isnan(outcome->settle_ms))
        likely = *outcome;
    lull_controller_learn_cost(controller, gpu, &likely);
}
