/* Takes an iteration that has ended to the trial, and begins what is due after it.
 * SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "core/section/controller/state.h"

/* Iterations from the settling until lower points are tried again, at most. Default: a
 * job that has changed gets another chance, and one that has not loses a screen of one point every
 * so often. */
enum { LONGEST_RETRY_SPACING = 32768 };
/* Another chance for the job is another one for harm that is too rare for a short proof. So a proof
 * takes this share of the run so far from then on. Chosen with tools/audit-guard: with short proofs
 * harm in one of a hundred iterations is kept at the end of 16 runs in 100, with these in 4. */
enum { RETRY_SHARE = 4 };
/* A steady point is left unchanged for this share of the first search before it is refined. */
enum { REFINEMENT_REST = 4 };

/* The sections have rested: the steady point is searched for, and what has been proven stays the
 * result. */
static void seek_steady(struct lull_controller *controller)
{
    if (controller->phase != LULL_PHASE_SETTLED || controller->trial.kind != LULL_TRIAL_WATCH ||
        lull_controller_next_target(controller) == LULL_CONTROLLER_NO_TARGET)
        return;
    controller->is_retrying = true;
    controller->next_retry = 0; /* it counts from when this search has settled */
    lull_trial_change_point(&controller->trial);
    lull_controller_reconsider(controller);
}

/* The steady point has settled, and something between it and the next lower one may be within the
 * tolerance as well: that is proven, once for each steady point, and what has been proven before
 * stays the result. */
static void refine_steady(struct lull_controller *controller)
{
    struct lull_targets *targets = &controller->targets;
    struct lull_target *steady;
    struct lull_duty duty;

    if (controller->phase != LULL_PHASE_SETTLED || controller->trial.kind != LULL_TRIAL_WATCH ||
        targets->steady == LULL_CONTROLLER_NO_TARGET)
        return;
    steady = &targets->list[targets->steady];
    if (!steady->settled || steady->proven.common == controller->refined_point ||
        lull_controller_iteration(controller) <
            controller->trial_begin + controller->settled_after / REFINEMENT_REST)
        return;
    controller->refined_point = steady->proven.common;
    controller->refined_from = lull_controller_iteration(controller);
    duty = lull_controller_find_duty(controller);
    if (duty.low == 0)
        return;
    steady->duty = duty;
    controller->is_retrying = true;
    lull_trial_change_point(&controller->trial);
    lull_controller_reconsider(controller);
}

/* Searches again below what has settled, at growing intervals. Other nodes would have to search at
 * the same time, so with them nothing is tried again. */
static void iteration_retry(struct lull_controller *controller)
{
    const uint64_t iteration = lull_controller_iteration(controller);
    bool any;

    if (controller->config.together || controller->phase != LULL_PHASE_SETTLED ||
        controller->trial.kind != LULL_TRIAL_WATCH || iteration < controller->next_retry)
        return;
    controller->next_retry = iteration + controller->retry_spacing;
    any = lull_targets_take_left_out(&controller->targets);
    any |= lull_targets_reopen(&controller->targets);
    if (!any)
        return;
    if (controller->retry_spacing < LONGEST_RETRY_SPACING)
        controller->retry_spacing *= 2;
    controller->is_retrying = true;
    controller->refined_point = UINT32_MAX;
    lull_trial_demand(&controller->trial, iteration / RETRY_SHARE);
    lull_trial_change_point(&controller->trial);
    lull_controller_reconsider(controller);
}

/* Ranks that wait have been lowered in the middle of a screen, which then compares two different
 * candidates with the reference: it starts again. They come first, because they cost nothing. */
static void restart_screen(struct lull_controller *controller)
{
    if (controller->phase == LULL_PHASE_DESCENDING && controller->trial.kind == LULL_TRIAL_SCREEN &&
        controller->slack.descents != controller->screened_descents)
        lull_controller_reconsider(controller);
}

/* The share of an iteration that a power profile is assumed to cost at most. NVIDIA publishes 3 %
 * for Max-Q on B200. Default, not yet measured on hardware. */
static const double profile_risk_ratio = 0.1;

/*
 * The share of an iteration that its clocks can have cost at most: of the time at the clock f,
 * 1 - f / f_max, with clocks that are equally far apart. Gaps in which nothing computes can cost
 * none.
 */
static double risk_of(const struct lull_controller *controller,
                      const struct lull_controlled_gpu *gpu, uint64_t iteration)
{
    const double length_ms = lull_track_iteration_ms(gpu->track)->mean;
    uint32_t count;
    const struct lull_section *sections = lull_track_sections(gpu->track, &count);
    double risk =
        lull_controller_planned_point(controller, gpu, controller->targets.steady, iteration);

    for (uint32_t i = 0; i < count && length_ms > 0.0; i++)
        if (sections[i].is_cautious)
            risk += lull_controller_planned_point(controller, gpu, gpu->target_of[i], iteration) *
                    sections[i].length_ms.mean / length_ms;
    if (gpu->points < 2)
        risk = 0.0;
    else
        risk *= (1.0 - gpu->lowest_ratio) / (gpu->points - 1);
    if (lull_controller_plans_profile(controller, gpu, iteration))
        risk += profile_risk_ratio;
    return fmin(risk, 1.0);
}

void lull_controller_take_iteration(struct lull_controller *controller,
                                    struct lull_controlled_gpu *gpu, double iteration_ms)
{
    const uint32_t index = (uint32_t)(gpu - controller->gpus);
    const uint64_t ended = lull_track_iteration(gpu->track) - 1;
    struct lull_pair_slot slot;
    uint64_t judged;

    if (iteration_ms <= 0.0)
        return;
    lull_slack_end_iteration(&controller->slack, index, ended, iteration_ms);
    restart_screen(controller);
    judged = lull_controller_judged(controller);
    if (controller->phase == LULL_PHASE_LEARNING) {
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
        lull_trial_take_unplaced(&controller->trial, index, ended, iteration_ms,
                                 !lull_switch_calibration_runs(&gpu->calibration));
        return;
    }
    if (!lull_trial_slot(&controller->trial, index, ended, &slot)) {
        lull_trial_take_unplaced(&controller->trial, index, ended, iteration_ms,
                                 ended > controller->trial_begin);
        return;
    }
    if (slot.measured && !slot.candidate)
        lull_quantile_add(&gpu->reference_iterations_ms, iteration_ms);
    if ((judged >> index & 1) == 0)
        return;
    controller->ranks[index].losses.risk_ratio = risk_of(controller, gpu, ended);
    lull_controller_act_on(controller,
                           lull_trial_add(&controller->trial, index, &slot, iteration_ms, judged));
    seek_steady(controller);
    refine_steady(controller);
    iteration_retry(controller);
}
