/* Reports at which points an iteration runs. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* The point of a target on a GPU: the one that is proven, or else the one that trials use now. */
static uint32_t visits_point_of(const struct lull_controller *controller,
                                const struct lull_target *target, uint32_t gpu, bool is_proven)
{
    const bool under_test = target == lull_targets_descending(&controller->targets);

    if (!is_proven)
        return lull_target_point_for(target, gpu, under_test);
    if (target->proven.has_own)
        return target->proven.own[gpu];
    return lull_target_common_point(target, gpu, target->proven.common);
}

/* Mixes a number into a hash (FNV-1a, 64 bits, a word at a time). */
static uint64_t visits_mix(uint64_t hash, uint64_t number)
{
    return (hash ^ number) * UINT64_C(0x100000001b3);
}

static const uint64_t others_basis = UINT64_C(0xcbf29ce484222325);

/* Mixes in the point of a target on a GPU, unless it is the highest. */
static uint64_t mix_point(uint64_t hash, uint32_t target, uint32_t gpu, uint32_t point)
{
    if (point == 0)
        return hash;
    return visits_mix(visits_mix(visits_mix(hash, target), gpu), point);
}

/* Stands for ranks that run lower because they wait, whatever their points are now: they follow the
 * waits from iteration to iteration. */
static const uint64_t waiting = UINT64_MAX;

/* Stands, with its beats, for a steady point between two clocks. */
static const uint64_t between = UINT64_MAX - 1;

/* Stands for the points of all targets but the steady one; 0: all are the highest, and there is no
 * power profile. */
static uint64_t others_of(const struct lull_controller *controller, bool is_proven, bool uses_slack)
{
    const struct lull_targets *targets = &controller->targets;
    uint64_t hash = others_basis;

    for (uint32_t i = 0; i < targets->count; i++)
        for (uint32_t gpu = 0; (int32_t)i != targets->steady && gpu < controller->gpu_count;
             gpu++) {
            const uint32_t point = visits_point_of(controller, &targets->list[i], gpu, is_proven);

            hash = mix_point(hash, i, gpu, point);
        }
    if (uses_slack && lull_slack_is_used(&controller->slack))
        hash = visits_mix(hash, waiting);
    return hash == others_basis ? 0 : hash;
}

struct lull_visit lull_controller_visit(const struct lull_controller *controller, uint32_t gpu)
{
    const struct lull_target *steady = lull_targets_steady(&controller->targets);
    struct lull_visit visit = {0};
    struct lull_pair_slot slot;

    assert(gpu < controller->gpu_count);
    if (controller->phase == LULL_PHASE_LEARNING ||
        !lull_trial_slot(&controller->trial, gpu, lull_track_iteration(controller->gpus[gpu].track),
                         &slot))
        return visit;
    visit.is_measured = slot.measured;
    visit.is_candidate = slot.candidate;
    visit.pair = controller->trial.begun << 32 | slot.pair;
    if (!slot.candidate)
        return visit;
    for (uint32_t i = 0; steady != NULL && i < controller->gpu_count; i++)
        visit.point = lull_max_u32(visit.point, visits_point_of(controller, steady, i, false));
    visit.others =
        others_of(controller, false,
                  lull_controller_uses_slack(controller, &controller->gpus[gpu],
                                             lull_track_iteration(controller->gpus[gpu].track)));
    if (steady != NULL && lull_target_duty(steady).low > 0)
        visit.others = visits_mix(visits_mix(visit.others, between), lull_target_duty(steady).low);
    return visit;
}

uint64_t lull_controller_profile_others(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    uint64_t hash = others_basis;

    if (!lull_targets_is_profile_open(targets))
        return 0;
    for (uint32_t gpu = 0; gpu < controller->gpu_count; gpu++)
        hash = mix_point(hash, (uint32_t)targets->profile, gpu, 1);
    return hash;
}

uint64_t lull_controller_kept_others(const struct lull_controller *controller)
{
    return others_of(controller, true, true);
}
