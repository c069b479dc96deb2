/*
 * The power profile: a setting of whole GPUs for whole iterations, tested like a point of the
 * clocks, and before them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/section/controller/state.h"

/* ---- whether it is tested ----------------------------------------------------------------- */

void lull_controller_offer_profile(struct lull_controller *controller, uint32_t gpu)
{
    controller->gpus[gpu].has_profile = true;
}

void lull_controller_withdraw_profile(struct lull_controller *controller, uint32_t gpu)
{
    const struct lull_target *profile = lull_targets_profile(&controller->targets);

    controller->gpus[gpu].has_profile = false;
    if (profile == NULL || (profile->settled && profile->descent.good == 0))
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        controller->gpus[i].uses_profile = false;
    lull_targets_drop_profile(&controller->targets, LULL_REASON_WITHDRAWN);
    lull_trial_change_point(&controller->trial);
    lull_controller_forget_proof(controller);
    lull_controller_reconsider(controller);
}

/* Nodes search for the same, and may differ in their profiles. */
void lull_controller_map_profile(struct lull_controller *controller)
{
    bool is_offered = !controller->config.together;

    if (controller->had_profile)
        return;
    controller->had_profile = true;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_controller_is_active(&controller->gpus[i]))
            is_offered = is_offered && controller->gpus[i].has_profile;
    if (is_offered)
        lull_targets_add_profile(&controller->targets);
}

/* ---- when it is used ---------------------------------------------------------------------- */

bool lull_controller_plans_profile(const struct lull_controller *controller,
                                   const struct lull_controlled_gpu *gpu, uint64_t iteration)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const struct lull_target *profile = lull_targets_profile(&controller->targets);
    struct lull_pair_slot slot;

    if (profile == NULL || !gpu->has_profile || controller->phase == LULL_PHASE_LEARNING)
        return false;
    if (!lull_trial_slot(&controller->trial, index, iteration, &slot) || !slot.candidate)
        return false;
    return lull_target_point_for(profile, index,
                                 controller->targets.current == controller->targets.profile) > 0;
}

/* ---- what it saves ------------------------------------------------------------------------ */

void lull_controller_take_profile_saving(struct lull_controller *controller,
                                         const struct lull_profile_saving *saving)
{
    if (lull_targets_is_profile_open(&controller->targets))
        controller->targets.list[controller->targets.profile].saving = *saving;
}

bool lull_controller_profile_pays(struct lull_controller *controller)
{
    struct lull_targets *targets = &controller->targets;

    if (!lull_targets_is_profile_open(targets) ||
        targets->list[targets->profile].saving.low_ratio > 0.0)
        return true;
    lull_targets_drop_profile(targets, LULL_REASON_SAVES_NOTHING);
    return false;
}
