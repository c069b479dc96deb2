/*
 * The power profile: a setting of whole GPUs for whole iterations, tested like a point of the
 * clocks, and before them.
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "core/section/controller/state.h"

/* Power samples on each side before they say what the profile saves. */
enum { MIN_PROFILE_SAMPLES = 16 };
/* Half the width of an interval of 95 %, in standard errors. */
static const double interval_errors = 1.96;

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

/* Its energy is judged once: later trials have lowered clocks besides. */
static bool is_judged(const struct lull_target *profile)
{
    return !isnan(profile->saving_ratio);
}

bool lull_controller_take_profile_power(struct lull_controller *controller,
                                        const struct lull_controlled_gpu *gpu, double power_w)
{
    struct lull_targets *targets = &controller->targets;
    struct lull_target *profile;

    if (!lull_targets_is_profile_open(targets))
        return false;
    profile = &targets->list[targets->profile];
    if (is_judged(profile))
        return false;
    lull_moments_add(gpu->uses_profile ? &profile->power_lowered_w : &profile->power_reference_w,
                     power_w);
    return true;
}

/* The variance of a mean over the square of the mean. */
static double relative_variance(const struct lull_moments *moments)
{
    return lull_moments_variance(moments) / (double)moments->count /
           (moments->mean * moments->mean);
}

/* The energy of an iteration is its mean power times its length. */
static void judge_energy(struct lull_target *profile, const struct lull_guard_estimate *slowdown)
{
    const struct lull_moments *reference = &profile->power_reference_w;
    const struct lull_moments *lowered = &profile->power_lowered_w;
    const double length = 1.0 + slowdown->slowdown_ratio;
    double ratio;
    double power_error;

    if (reference->count < MIN_PROFILE_SAMPLES || lowered->count < MIN_PROFILE_SAMPLES ||
        !(reference->mean > 0.0) || !(lowered->mean > 0.0))
        return;
    ratio = lowered->mean / reference->mean;
    power_error =
        interval_errors * length * sqrt(relative_variance(reference) + relative_variance(lowered));
    profile->saving_ratio = 1.0 - ratio * length;
    profile->saving_half_ratio =
        ratio * hypot(power_error, slowdown->upper_ratio - slowdown->slowdown_ratio);
}

bool lull_controller_profile_pays(struct lull_controller *controller)
{
    struct lull_targets *targets = &controller->targets;
    struct lull_guard_estimate slowdown;
    struct lull_target *profile;

    if (!lull_targets_is_profile_open(targets))
        return true;
    profile = &targets->list[targets->profile];
    if (is_judged(profile))
        return true;
    lull_trial_estimate_test(&controller->trial, &slowdown);
    judge_energy(profile, &slowdown);
    if (profile->saving_ratio > profile->saving_half_ratio)
        return true;
    lull_targets_drop_profile(targets, LULL_REASON_SAVES_NOTHING);
    return false;
}
