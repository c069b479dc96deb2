/* Shows what the controller knows and has decided. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "core/section/controller/state.h"

/* While sections rest, the steady point is still to be sought. */
static bool view_has_settled(const struct lull_controller *controller, bool is_searching)
{
    return controller->settled_after > 0 &&
           (controller->is_retrying || controller->phase == LULL_PHASE_SETTLED || !is_searching);
}

struct lull_controller_view lull_controller_look(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    const struct lull_target *descending = lull_targets_descending(targets);
    const bool is_searching = lull_targets_next(targets) != LULL_CONTROLLER_NO_TARGET ||
                              !lull_targets_are_proven(targets);
    struct lull_controller_view view = {
        .phase = controller->phase,
        .lead = lull_controller_lead(controller),
        .is_suspended = controller->queue.suspended,
        .has_sections = lull_targets_have_sections(targets),
        .awaits_steady = lull_controller_awaits_steady(controller),
        .is_proven = lull_targets_any_is_proven(targets),
        .has_settled = view_has_settled(controller, is_searching),
        .is_searching = is_searching,
        .settled_after = controller->settled_after,
        .kept_others = lull_controller_kept_others(controller),
        .profile_others = lull_controller_profile_others(controller),
        .target_count = targets->count,
        .targets = targets->list,
        .steady = lull_targets_steady(targets),
        .profile = lull_targets_profile(targets),
        .descending = descending,
        .candidate = descending != NULL ? lull_target_candidate(descending) : 0,
        .swings = &controller->swings,
        .whole = lull_trial_whole(&controller->trial),
        .loss_left = lull_trial_loss_left(&controller->trial),
        .seed = controller->trial.config.seed,
        .rarest_excluded = lull_trial_rarest_excluded(&controller->trial),
    };

    lull_trial_estimate(&controller->trial, &view.slowdown);
    return view;
}

struct lull_controller_gpu_view lull_controller_look_gpu(const struct lull_controller *controller,
                                                         uint32_t gpu)
{
    const struct lull_controlled_gpu *controlled = &controller->gpus[gpu];

    assert(gpu < controller->gpu_count);
    return (struct lull_controller_gpu_view){
        .phase = controller->phase,
        .has_sections = lull_targets_have_sections(&controller->targets),
        .steady_point = controlled->steady,
        .uses_profile = controlled->uses_profile,
        .track = controlled->track,
        .slack = lull_slack_record(&controller->slack, gpu),
        .switch_cost = &controlled->cost,
    };
}

const struct lull_target *lull_controller_target_of(const struct lull_controller *controller,
                                                    uint32_t gpu, uint32_t section)
{
    const int32_t target = controller->gpus[gpu].target_of[section];

    return target == LULL_CONTROLLER_NO_TARGET ? NULL : &controller->targets.list[target];
}

double lull_controller_unevenness(const struct lull_controller *controller, uint32_t gpu)
{
    assert(gpu < controller->gpu_count);
    return lull_trial_unevenness(&controller->trial, gpu);
}
