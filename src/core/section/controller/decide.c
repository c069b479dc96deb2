/* Decides what to do next, and begins its trial. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/section/controller/state.h"

/* The proof of a duty ends after so many iterations at it, or as many as the first search has
 * taken. Chosen: a job that has settled is to be done with it before it has run four times as long.
 */
enum { REFINED_MAX = 256, REFINED_LONGEST = 4000 };
/* The proof of a power profile has at least so many blocks with it, because they measure its energy
 * as well. Default, not yet measured on hardware. */
enum { PROFILE_BLOCKS = 10 };
/* A track that is still searching is waited for this many iterations of another one. */
enum { PATIENCE_ITERATIONS = 60 };

/* So many iterations distinguish an iteration from a loop within it. */
enum { INNER_LOOP_ITERATIONS = 16 };

void lull_controller_init_decisions(struct lull_controller *controller)
{
    controller->check_spacing = LULL_CONTROLLER_FIRST_CHECK;
    controller->retry_spacing = LULL_CONTROLLER_FIRST_RETRY;
    controller->refined_point = UINT32_MAX;
}

/* ---- tests ------------------------------------------------------------------------------- */

/* A longer iteration costs energy as well, so a steady point may cost less time than the user
 * allows. So do the clocks of gaps. But this is only a matter of profit, judged by the
 * estimate: noise that hides such a small slowdown must not keep them high. */
static double decide_worth_of(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    double most = 0.0;

    if (targets->current == LULL_CONTROLLER_NO_TARGET)
        return 0.0;
    if (targets->current == targets->steady)
        most = controller->config.steady_tolerance_ratio;
    else if (targets->list[targets->current].of_gaps)
        most = LULL_GAP_WORTH;
    return fmin(most, controller->config.tolerance_ratio);
}

bool lull_controller_is_lowered(const struct lull_controller *controller)
{
    return lull_targets_are_lowered(&controller->targets) || lull_slack_is_used(&controller->slack);
}

bool lull_controller_is_refining(const struct lull_controller *controller)
{
    const struct lull_target *steady = lull_targets_steady(&controller->targets);

    return steady != NULL && steady->proven.common == steady->descent.good &&
           lull_target_duty(steady).low > steady->proven.duty.low;
}

void lull_controller_begin_trial(struct lull_controller *controller, enum lull_trial_kind kind)
{
    const uint32_t block = lull_controller_block(controller, kind);
    struct lull_trial_terms terms = {
        .tolerance_ratio = controller->config.tolerance_ratio,
        .worth_ratio = decide_worth_of(controller),
        .loss_ratio = controller->config.tolerance_ratio,
    };

    assert(controller->phase != LULL_PHASE_LEARNING);
    if (kind == LULL_TRIAL_PROOF && lull_controller_is_refining(controller))
        terms.max_iterations = lull_max_u32(
            REFINED_MAX, (uint32_t)fmin((double)controller->settled_after, REFINED_LONGEST));
    /* If nothing is lowered, nothing can be lost. */
    if (kind == LULL_TRIAL_WATCH && !lull_controller_is_lowered(controller)) {
        terms.loss_ratio = 0.0;
        terms.is_idle = true;
    }
    if (kind == LULL_TRIAL_PROOF && lull_targets_is_profile_open(&controller->targets))
        terms.min_iterations = PROFILE_BLOCKS * block;
    lull_trial_begin(&controller->trial, kind, &terms, block, lull_controller_judged(controller));
    controller->trial_begin = lull_controller_iteration(controller);
    controller->screened_descents = controller->slack.descents;
    if (kind == LULL_TRIAL_PROOF) {
        controller->proof_from_ns = controller->now_ns;
        for (uint32_t i = 0; i < controller->gpu_count; i++)
            controller->gpus[i].low_ns = 0;
    }
    lull_controller_place_test(controller);
}

/* ---- what to do next --------------------------------------------------------------------- */

/* A GPU with a single clock has nothing to calibrate and nothing to descend. */
static bool is_calibrated(const struct lull_controlled_gpu *gpu)
{
    return gpu->points < 2 || lull_switch_calibration_done(&gpu->calibration);
}

static bool all_ready(const struct lull_controller *controller)
{
    bool any_known = false;
    bool all_known = true;
    bool patience_over = false;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        const struct lull_controlled_gpu *gpu = &controller->gpus[i];

        if (!lull_controller_is_active(gpu))
            continue;
        if (!lull_controller_is_known(gpu)) {
            all_known = false;
            continue;
        }
        any_known = true;
        if (!is_calibrated(gpu) ||
            lull_track_iteration(gpu->track) < LULL_CONTROLLER_MIN_OCCURRENCES)
            return false;
        if (lull_track_iteration(gpu->track) > PATIENCE_ITERATIONS)
            patience_over = true;
    }
    return any_known && (all_known || patience_over);
}

/* Finds which sections have which target now. The steady point has one from the beginning on. */
static void map_targets(struct lull_controller *controller)
{
    struct lull_targets *targets = &controller->targets;

    lull_controller_map_profile(controller);
    if (targets->steady == LULL_CONTROLLER_NO_TARGET && !controller->config.only_sections)
        targets->steady = lull_targets_add(targets, 0, LULL_DESCENT_GALLOP);
    if (controller->config.only_steady)
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_controller_takes_part(&controller->gpus[i]))
            lull_controller_map_sections(controller, &controller->gpus[i]);
}

/* The proven points stay, or the reference if nothing is proven, until something calls for more.
 */
static void decide_settle(struct lull_controller *controller)
{
    const uint64_t iteration = lull_controller_iteration(controller);

    if (controller->next_retry <= iteration)
        controller->next_retry = iteration + controller->retry_spacing;
    lull_targets_explain_left_out(&controller->targets);
    controller->phase = LULL_PHASE_SETTLED;
    controller->failures = 0;
    controller->is_retrying = false;
    if (controller->settled_after == 0)
        controller->settled_after = iteration;
    lull_controller_begin_trial(controller, LULL_TRIAL_WATCH);
}

int32_t lull_controller_next_target(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    const int32_t next = lull_targets_next(targets);

    if (lull_targets_want_proof_first(targets) ||
        (next == targets->steady &&
         lull_controller_iteration(controller) < controller->steady_from))
        return LULL_CONTROLLER_NO_TARGET;
    return next;
}

void lull_controller_forget_proof(struct lull_controller *controller)
{
    lull_targets_disprove(&controller->targets);
    lull_trial_drop_kept(&controller->trial);
    controller->searched_from = lull_controller_iteration(controller);
    controller->steady_from = 0;
}

/* A loop within the iteration passes for it until the iteration has come a few times. */
static bool decide_was_inner_loop(const struct lull_controller *controller)
{
    const double iteration_ms = lull_quantile_get(
        &controller->gpus[lull_controller_lead(controller)].reference_iterations_ms, 0.5);

    return controller->decided_ns > 0 &&
           (double)controller->decided_ns < INNER_LOOP_ITERATIONS * iteration_ms * LULL_NS_PER_MS;
}

/* Decisions begin, or continue after the iteration has been lost. What was found in hardly more
 * time than a few of the present iterations take was found of parts of them, and is void. */
static void begin_decisions(struct lull_controller *controller)
{
    if (decide_was_inner_loop(controller)) {
        lull_controller_forget_proof(controller);
        lull_trial_change_point(&controller->trial);
        lull_targets_init(&controller->targets, &controller->config, controller->gpus,
                          controller->gpu_count);
        for (uint32_t i = 0; i < controller->gpu_count; i++)
            lull_controller_forget_targets(&controller->gpus[i]);
        lull_controller_init_decisions(controller);
        controller->had_profile = false;
        controller->failures = 0;
        controller->checks_passed = 0;
        controller->next_check = 0;
        controller->next_retry = 0;
        controller->settled_after = 0;
        controller->is_retrying = false;
        controller->decided_ns = 0;
    }
    controller->decided_from_ns = controller->now_ns;
}

/* Nothing can be decided for the time being. */
static void end_decisions(struct lull_controller *controller)
{
    if (controller->phase != LULL_PHASE_LEARNING)
        controller->decided_ns += controller->now_ns - controller->decided_from_ns;
    controller->phase = LULL_PHASE_LEARNING;
}

void lull_controller_reconsider(struct lull_controller *controller)
{
    if (controller->config.observe_only || controller->held || controller->queue.suspended ||
        !all_ready(controller)) {
        end_decisions(controller);
        return;
    }
    lull_controller_choose_lead(controller);
    if (controller->phase == LULL_PHASE_LEARNING)
        begin_decisions(controller);
    map_targets(controller);
    lull_controller_apply_refusals(controller);
    controller->targets.current = lull_controller_next_target(controller);
    if (controller->targets.current != LULL_CONTROLLER_NO_TARGET) {
        controller->phase = LULL_PHASE_DESCENDING;
        lull_controller_begin_trial(controller, LULL_TRIAL_SCREEN);
        return;
    }
    if (!lull_targets_are_proven(&controller->targets)) {
        controller->phase = LULL_PHASE_DESCENDING;
        lull_controller_begin_trial(controller, LULL_TRIAL_PROOF);
        return;
    }
    decide_settle(controller);
}

void lull_controller_agree(struct lull_controller *controller, uint32_t index,
                           uint32_t agreed_point, uint64_t from_iteration, uint32_t refused_point)
{
    if (lull_controller_set_agreed(controller, index, agreed_point, from_iteration, refused_point))
        lull_controller_reconsider(controller);
}
