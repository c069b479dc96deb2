/*
 * Peers: what the controllers of the job's other nodes have to say, and tests that are placed in
 * the same iterations on all of them. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "base/minmax.h"
#include "core/stats/random.h"
#include "core/section/controller/state.h"

/* The longest block that peers can request, iterations: a bound on what comes from outside. */
enum { ALIGNED_WINDOW_MAX = 4096 };

/* ---- agreed points ----------------------------------------------------------------------- */

uint32_t lull_controller_agreed_point(const struct lull_controller *controller,
                                      const struct lull_target *target, uint32_t point,
                                      uint64_t iteration)
{
    if (!controller->config.together)
        return point;
    if (iteration < target->agreed_from)
        return 0;
    return lull_min_u32(point, target->agreed_point);
}

static bool must_not_try(const struct lull_target *target)
{
    return !target->settled && lull_target_candidate(target) >= target->refused_point;
}

void lull_controller_apply_refusals(struct lull_controller *controller)
{
    if (!controller->config.together)
        return;
    for (uint32_t i = 0; i < controller->targets.count; i++) {
        struct lull_target *target = &controller->targets.list[i];

        while (must_not_try(target))
            lull_targets_conclude(&controller->targets, target, LULL_VERDICT_DEGRADED);
    }
}

bool lull_controller_set_agreed(struct lull_controller *controller, uint32_t index,
                                uint32_t agreed_point, uint64_t from_iteration,
                                uint32_t refused_point)
{
    struct lull_target *target = &controller->targets.list[index];

    target->agreed_point = agreed_point;
    target->agreed_from = from_iteration;
    target->refused_point = refused_point;
    return must_not_try(target) && controller->targets.current == (int32_t)index;
}

/* ---- the same iterations ----------------------------------------------------------------- */

void lull_controller_align(struct lull_controller *controller, uint32_t window_iterations)
{
    controller->aligned_window = lull_min_u32(window_iterations, ALIGNED_WINDOW_MAX);
}

void lull_controller_share_seed(struct lull_controller *controller, uint64_t seed)
{
    if (controller->config.seed == 0)
        controller->trial.config.seed = lull_seed_from(seed);
}

/* All ranks of this node are in the same iteration, or the next; *next_out: one not yet begun. */
static bool count_alike(const struct lull_controller *controller, uint64_t *next_out)
{
    uint64_t lowest = UINT64_MAX;
    uint64_t highest = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];
        const uint64_t iteration = lull_track_iteration(gpu->track);

        if (!lull_controller_takes_part(gpu))
            continue;
        if (iteration < lowest)
            lowest = iteration;
        if (iteration > highest)
            highest = iteration;
    }
    *next_out = highest + 1;
    return lowest != UINT64_MAX && highest - lowest <= 1;
}

static uint64_t peer_job_base_of(const struct lull_controller *controller, uint32_t gpu,
                                 bool is_alike, uint64_t next)
{
    if (is_alike)
        return controller->config.together ? 0 : next;
    return lull_track_iteration(controller->gpus[gpu].track) + 1;
}

/*
 * Ranks that count alike are placed alike, so that all run low in the same iterations. With other
 * nodes the schedule counts from the job's first iteration, so that the pairs of all nodes
 * coincide, whenever each trial was decided. What is left of the present pair is not judged.
 */
void lull_controller_place_test(struct lull_controller *controller)
{
    uint64_t next;
    const bool is_alike = count_alike(controller, &next);

    for (uint32_t i = 0; i < controller->gpu_count; i++)
        lull_trial_place(&controller->trial, i, peer_job_base_of(controller, i, is_alike, next));
    if (is_alike && controller->config.together && next > 0)
        lull_trial_join(&controller->trial, next);
}
