/*
 * Swings of the node's power: at what the node runs while it is read, what there is to give up, and
 * what follows for the points of sections.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

static bool is_watching(const struct lull_controller *controller)
{
    return controller->phase == LULL_PHASE_SETTLED && controller->trial.kind == LULL_TRIAL_WATCH;
}

bool lull_controller_awaits_steady(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;

    return targets->steady != LULL_CONTROLLER_NO_TARGET &&
           lull_targets_next(targets) == targets->steady;
}

/* The side of one GPU. A pulse of the calibration, a tenth of a second one clock lower, is at the
 * reference. */
static enum lull_swing_side side_of_gpu(const struct lull_controller *controller,
                                        const struct lull_controlled_gpu *gpu)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    struct lull_pair_slot slot;
    bool is_candidate;

    if (controller->phase == LULL_PHASE_LEARNING)
        return gpu->steady == 0 && gpu->feed.requested == 0 ? LULL_SWING_REFERENCE
                                                            : LULL_SWING_NEITHER;
    is_candidate =
        lull_trial_slot(&controller->trial, index, lull_track_iteration(gpu->track), &slot) &&
        slot.candidate;
    if (!is_candidate)
        return LULL_SWING_REFERENCE;
    /* A steady point narrows swings: before it has been sought they are not what they will be. */
    return is_watching(controller) && !lull_controller_awaits_steady(controller)
               ? LULL_SWING_MANAGED
               : LULL_SWING_NEITHER;
}

/* All GPUs of the job are at the same, or the node is at neither. */
static enum lull_swing_side side_of_node(const struct lull_controller *controller)
{
    enum lull_swing_side side = LULL_SWING_NEITHER;
    bool is_first = true;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!lull_controller_is_active(gpu))
            continue;
        if (is_first)
            side = side_of_gpu(controller, gpu);
        else if (side_of_gpu(controller, gpu) != side)
            return LULL_SWING_NEITHER;
        is_first = false;
    }
    return side;
}

/* Returns how many points below the GPU's steady point a target is kept. */
static uint32_t swings_depth_of(const struct lull_controller *controller, uint32_t gpu,
                                const struct lull_target *target)
{
    const uint32_t steady = controller->gpus[gpu].steady;
    const uint32_t point = lull_controller_kept_point(controller, gpu, target);

    return point > steady ? point - steady : 0;
}

static struct lull_swing_levers find_levers(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    struct lull_swing_levers levers = {0};

    for (uint32_t i = 0; i < targets->count; i++)
        for (uint32_t gpu = 0; gpu < controller->gpu_count && lull_targets_is_within(targets, i);
             gpu++) {
            const uint32_t depth = swings_depth_of(controller, gpu, &targets->list[i]);

            if (targets->list[i].of_gaps)
                levers.gaps = levers.gaps || depth > 0;
            else
                levers.deepest = lull_max_u32(levers.deepest, depth);
        }
    return levers;
}

void lull_controller_take_node_power(struct lull_controller *controller, int64_t time_ns,
                                     double power_w)
{
    const struct lull_swing_levers levers = find_levers(controller);

    lull_swing_limit_take(&controller->swings, side_of_node(controller), time_ns, power_w, &levers);
}

uint32_t lull_controller_cut_point(const struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu,
                                   const struct lull_target *target, uint32_t point)
{
    uint32_t cut;

    if (!is_watching(controller) || point <= gpu->steady)
        return point;
    cut = lull_swing_cut_point(&controller->swings.cut, target->of_gaps, gpu->steady, point);
    return cut > gpu->steady ? cut : 0;
}
