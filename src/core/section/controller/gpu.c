/*
 * One GPU of the controller: whether it takes part, its requests, and its switch cost.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Validity of a steady point; it is renewed after a quarter of that time. */
static const int64_t steady_valid_ns = INT64_C(5000000000);

/* ---- taking part ------------------------------------------------------------------------- */

bool lull_controller_is_active(const struct lull_controlled_gpu *gpu)
{
    struct lull_track_totals totals;

    lull_track_totals(gpu->track, &totals);
    return !gpu->exited && !gpu->failed && totals.calls > 0;
}

bool lull_controller_is_known(const struct lull_controlled_gpu *gpu)
{
    return lull_track_phase(gpu->track) == LULL_TRACK_KNOWN;
}

bool lull_controller_takes_part(const struct lull_controlled_gpu *gpu)
{
    return lull_controller_is_active(gpu) && lull_controller_is_known(gpu);
}

void lull_controller_count_on(struct lull_controller *controller, uint64_t iteration)
{
    /* The other nodes count as the ranks themselves do. */
    if (!controller->config.together)
        controller->lead_offset += iteration - lull_controller_iteration(controller);
}

void lull_controller_choose_lead(struct lull_controller *controller)
{
    const uint64_t iteration = lull_controller_iteration(controller);

    if (controller->lead != UINT32_MAX &&
        lull_controller_takes_part(&controller->gpus[controller->lead]))
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        if (!lull_controller_takes_part(&controller->gpus[i]))
            continue;
        controller->lead = i;
        if (iteration > 0)
            lull_controller_count_on(controller, iteration);
        return;
    }
}

uint64_t lull_controller_iteration(const struct lull_controller *controller)
{
    if (controller->lead == UINT32_MAX)
        return 0;
    return lull_track_iteration(controller->gpus[controller->lead].track) + controller->lead_offset;
}

uint32_t lull_controller_lead(const struct lull_controller *controller)
{
    if (controller->lead != UINT32_MAX)
        return controller->lead;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_controller_is_active(&controller->gpus[i]))
            return i;
    return 0;
}

uint32_t lull_controller_active_before(const struct lull_controller *controller, uint32_t gpu)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < gpu && i < controller->gpu_count; i++)
        count += lull_controller_is_active(&controller->gpus[i]);
    return count;
}

uint64_t lull_controller_present(const struct lull_controller *controller)
{
    uint64_t present = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_controller_takes_part(&controller->gpus[i]))
            present |= UINT64_C(1) << i;
    return present;
}

uint64_t lull_controller_judged(const struct lull_controller *controller)
{
    const uint64_t present = lull_controller_present(controller);
    uint64_t judged = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_slack_points(&controller->slack, i) == 0)
            judged |= UINT64_C(1) << i;
    if ((judged & present) == 0)
        return present;
    return judged & present;
}

void lull_controller_forget_sections(struct lull_controlled_gpu *gpu)
{
    gpu->open_section = -1;
    gpu->expected_section = -1;
    gpu->low_section = -1;
    gpu->ahead_section = -1;
    gpu->low = (struct lull_low_interval){0};
    gpu->has_gaps = false;
    /* An inner loop may have passed for the iteration: its times say nothing of the next one. */
    gpu->reference_iterations_ms = (struct lull_quantile){0};
    lull_controller_forget_targets(gpu);
}

void lull_controller_forget_targets(struct lull_controlled_gpu *gpu)
{
    for (uint32_t i = 0; i < LULL_TRACK_MAX_SECTIONS; i++)
        gpu->target_of[i] = LULL_CONTROLLER_NO_TARGET;
}

/* ---- commands ---------------------------------------------------------------------------- */

void lull_controller_post(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                          uint32_t point, int64_t deadline_ns, int64_t valid_until_ns)
{
    const bool is_steady = point <= gpu->steady && gpu->steady != 0;

    assert(point < gpu->points || point == 0);
    if (is_steady) {
        point = gpu->steady;
        deadline_ns = controller->now_ns + steady_valid_ns;
        valid_until_ns = deadline_ns;
        gpu->steady_renew_ns = controller->now_ns + steady_valid_ns / 4;
    }
    if (point != 0 && (gpu->failed || controller->queue.suspended))
        return;
    controller->went_deep |= point > 1;
    gpu->command = (struct lull_command){
        .gpu = (uint32_t)(gpu - controller->gpus),
        .point = point,
        .deadline_ns = deadline_ns,
        .valid_until_ns = valid_until_ns,
    };
    gpu->command_waits = true;
    gpu->raises_as_planned = false;
}

void lull_controller_post_feed(struct lull_controller *controller, struct lull_controlled_gpu *gpu)
{
    lull_controller_post(controller, gpu, gpu->feed.requested, gpu->feed.deadline_ns,
                         gpu->feed.valid_until_ns);
}

void lull_controller_set_steady(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                uint32_t point)
{
    const bool has_changed = point != gpu->steady;

    gpu->steady = point;
    lull_track_set_steady(gpu->track, point);
    if (gpu->feed.requested != 0)
        return;
    if (has_changed || (point != 0 && controller->now_ns >= gpu->steady_renew_ns))
        lull_controller_post_feed(controller, gpu);
}

void lull_controller_raise_now(struct lull_controller *controller, struct lull_controlled_gpu *gpu)
{
    const bool is_steady = gpu->steady != 0;

    gpu->steady = 0;
    gpu->uses_profile = false;
    lull_track_set_steady(gpu->track, 0);
    if (lull_feed_forward_raise(&gpu->feed) || lull_switch_calibration_stop(&gpu->calibration) ||
        is_steady)
        lull_controller_post_feed(controller, gpu);
    assert(gpu->feed.requested == 0);
}

void lull_controller_raise_all(struct lull_controller *controller)
{
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        lull_controller_raise_now(controller, &controller->gpus[i]);
}

/* ---- switch cost ------------------------------------------------------------------------- */

void lull_controller_set_switch_cost(struct lull_controller *controller, uint32_t gpu,
                                     const struct lull_switch_cost *cost)
{
    controller->gpus[gpu].cost = *cost;
    controller->gpus[gpu].model_cost = *cost;
    if (cost->total_ms[LULL_DIRECTION_DOWN].count >= LULL_CALIBRATION_PULSES &&
        cost->total_ms[LULL_DIRECTION_UP].count >= LULL_CALIBRATION_PULSES)
        lull_switch_calibration_skip(&controller->gpus[gpu].calibration);
}

void lull_controller_set_model(struct lull_controller *controller, uint32_t gpu, uint32_t model)
{
    controller->gpus[gpu].model = model;
}

void lull_controller_set_lowest(struct lull_controller *controller, uint32_t gpu,
                                double lowest_ratio)
{
    assert(lowest_ratio >= 0.0 && lowest_ratio <= 1.0);
    controller->gpus[gpu].lowest_ratio = lowest_ratio;
}

/* A GPU learns of its own changes, and of those of its model. */
static bool learns_from(const struct lull_controlled_gpu *gpu,
                        const struct lull_controlled_gpu *changed)
{
    return gpu == changed || (changed->model != UINT32_MAX && gpu->model == changed->model);
}

/*
 * An unplanned wait in the driver's queue says nothing about what can be planned. Any wait there
 * says nothing about other GPUs.
 */
void lull_controller_learn_cost(struct lull_controller *controller, struct lull_controlled_gpu *gpu,
                                const struct lull_switch_outcome *outcome)
{
    const enum lull_direction direction =
        outcome->point < outcome->was_point ? LULL_DIRECTION_UP : LULL_DIRECTION_DOWN;
    const bool is_plain =
        gpu->has_gaps && !(direction == LULL_DIRECTION_UP && gpu->raises_as_planned);

    gpu->changes++;
    lull_switch_cost_add_outcome(&gpu->cost, direction,
                                 is_plain ? outcome->driver_ms : outcome->call_ms, outcome);
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (learns_from(&controller->gpus[i], gpu))
            lull_switch_cost_add_outcome(&controller->gpus[i].model_cost, direction,
                                         outcome->driver_ms, outcome);
}
