/* Draws from a trial's verdicts what follows. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Points that are given up at once, at most, after one failed proof more. */
enum { BACK_OFF_MAX = 16 };
/* Iterations between two checks, at most. */
enum { LONGEST_CHECK_SPACING = 8192 };
/* This share of the spacing of retries where a proof has been given up, because heat or what else
 * has disturbed it may pass. */
enum { GIVEN_UP_SHARE = 8 };
/* Time for which sections are left unchanged before the search for the steady point, in iterations
 * that their own search took, times the share of time that they lower. Every other block of a
 * search runs at the reference, so one that a job does not outlive costs half of what its sections
 * save: that is then at most a tenth or so of what they have saved before. */
static const double rest_factor = 6.0;
/* Sections that are low for a smaller share of the time are not worth a rest, which puts off what
 * the steady point saves: that is 3 % and more in docs/research/measurements/joint.md, and gaps
 * that were low for 12 % and 10 % of a proof saved 2.4 % and 2.0 % (sampled_rank-0 and -1, in
 * virtual time). After 400 iterations these two together had saved 2.3 % with a rest, and 6.8 %
 * without. */
static const double min_rest_share = 0.15;
/* Half of a duty is only tried after a failed proof where the search for a duty has not taken more
 * iterations. */
enum { REFINED_TWICE = 128 };

/* The share of the proof's lowered iterations, half of all, in which the GPUs' clocks were low. */
static double lowered_share(const struct lull_controller *controller)
{
    const double proof_ns = (double)(controller->now_ns - controller->proof_from_ns);
    double low_ns = 0.0;
    uint32_t gpus = 0;

    for (uint32_t i = 0; i < controller->gpu_count; i++) {
        if (!lull_controller_takes_part(&controller->gpus[i]))
            continue;
        low_ns += (double)controller->gpus[i].low_ns;
        gpus++;
    }
    return gpus > 0 && proof_ns > 0.0 ? fmin(2.0 * low_ns / (proof_ns * gpus), 1.0) : 0.0;
}

/* The sections have been proven: when the steady point is to be sought. Nodes that rest for about
 * as long begin in the same iteration, a power of two. */
static void conclude_rest(struct lull_controller *controller)
{
    const uint64_t iteration = lull_controller_iteration(controller);
    /* A rank whose sections became known once more counts from 0. */
    const double searched = fmax((double)iteration - (double)controller->searched_from, 0.0);
    const double share = lowered_share(controller);
    uint64_t from = iteration;

    assert(share >= 0.0);
    if (share >= min_rest_share)
        from += (uint64_t)(rest_factor * searched * share);
    controller->steady_from = from;
    if (!controller->config.together || from == iteration)
        return;
    for (controller->steady_from = 1; controller->steady_from < from;)
        controller->steady_from *= 2;
}

static void conclude_record(struct lull_controller *controller, struct lull_target *target,
                            enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;
    struct lull_descent_record *entry;

    lull_trial_estimate_test(&controller->trial, &estimate);
    if (target->record_count == LULL_CONTROLLER_MAX_HISTORY)
        return;
    entry = &target->records[target->record_count++];
    *entry = (struct lull_descent_record){
        .point = lull_target_candidate(target),
        .gpu = target->turn,
        .slowdown_ratio = estimate.slowdown_ratio,
        .upper_ratio = estimate.upper_ratio,
        .pairs = estimate.pairs,
        .iterations = (uint32_t)(lull_controller_iteration(controller) - controller->trial_begin),
        .verdict = verdict,
    };
}

/* The screen of the target under test has come out: the patent's steps S225 to S227. */
static void conclude_screen(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_target *target;

    assert(controller->targets.current != LULL_CONTROLLER_NO_TARGET);
    target = &controller->targets.list[controller->targets.current];
    conclude_record(controller, target, verdict);
    lull_trial_change_point(&controller->trial);
    target->power_lowered_w = (struct lull_moments){0};
    lull_targets_conclude(&controller->targets, target, verdict);
    if (controller->targets.current == controller->targets.steady && !controller->config.together)
        lull_controller_aim(controller, target);
    lull_controller_reconsider(controller);
}

/* Backs off from the settled points: they are harmful, or cannot be proven harmless. What has been
 * proven before stays. If screens do not see the harm that proofs see, the next proof must not be
 * only one point higher. */
static void conclude_back_off(struct lull_controller *controller)
{
    const uint32_t points = UINT32_C(1) << lull_min_u32(controller->failures, 4);

    assert(points <= BACK_OFF_MAX);
    lull_targets_back_off(&controller->targets, points);
    lull_slack_back_off(&controller->slack, points);
    lull_trial_change_point(&controller->trial);
    controller->failures++;
    controller->next_retry = 0;
    lull_controller_reconsider(controller);
}

/* Nothing can be proven for the time being, so what has been proven before, or the reference, is
 * kept until something is tried again. */
static void conclude_abandon(struct lull_controller *controller)
{
    lull_targets_give_up(&controller->targets);
    lull_trial_change_point(&controller->trial);
    controller->next_retry =
        lull_controller_iteration(controller) + controller->retry_spacing / GIVEN_UP_SHARE;
    lull_controller_reconsider(controller);
}

/* The target's clock could hardly ever be changed in time, so its screen would take long: what is
 * left to search comes first. */
static void conclude_defer(struct lull_controller *controller)
{
    struct lull_targets *targets = &controller->targets;

    if (targets->takes_all || targets->current == targets->steady)
        return;
    targets->list[targets->current].is_untried = true;
    lull_trial_change_point(&controller->trial);
    lull_controller_reconsider(controller);
}

/* The search for a duty has cost enough: the steady point stays as it has been proven. */
static void stop_refining(struct lull_controller *controller)
{
    lull_targets_give_up(&controller->targets);
    lull_trial_change_point(&controller->trial);
    lull_controller_reconsider(controller);
}

/* The proven points hurt after all, so nothing is proven any more. */
static void conclude_withdraw(struct lull_controller *controller)
{
    lull_controller_forget_proof(controller);
    conclude_back_off(controller);
}

/* Returns whether sections are still to be searched: the profile comes before them. */
static bool awaits_sections(const struct lull_targets *targets)
{
    const int32_t next = lull_targets_next(targets);

    return next != LULL_CONTROLLER_NO_TARGET && lull_targets_is_within(targets, (uint32_t)next);
}

/* The pairs of what was kept before say nothing of what has been proven now. */
static void conclude_proof(struct lull_controller *controller, enum lull_verdict verdict)
{
    if (verdict != LULL_VERDICT_NOT_DEGRADED) {
        if (lull_controller_is_refining(controller) &&
            lull_controller_iteration(controller) > controller->refined_from + REFINED_TWICE)
            stop_refining(controller);
        else
            conclude_back_off(controller);
        return;
    }
    if (!lull_controller_profile_pays(controller)) {
        lull_trial_change_point(&controller->trial);
        lull_controller_reconsider(controller);
        return;
    }
    lull_trial_drop_kept(&controller->trial);
    lull_trial_keep(&controller->trial);
    lull_targets_prove(&controller->targets);
    lull_swing_limit_renew(&controller->swings);
    if (controller->steady_from == 0 && !awaits_sections(&controller->targets))
        conclude_rest(controller);
    controller->checks_passed = 0;
    controller->check_spacing = LULL_CONTROLLER_FIRST_CHECK;
    lull_controller_reconsider(controller);
}

/* Accepted points that are not proven again are kept as long as their estimated slowdown is
 * tolerated. */
static void conclude_check(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;

    lull_trial_estimate_test(&controller->trial, &estimate);
    if (verdict == LULL_VERDICT_DEGRADED ||
        (verdict == LULL_VERDICT_UNPROVEN &&
         estimate.slowdown_ratio > controller->config.tolerance_ratio)) {
        conclude_withdraw(controller);
        return;
    }
    lull_trial_keep(&controller->trial);
    controller->checks_passed++;
    controller->next_check = lull_controller_iteration(controller) + controller->check_spacing;
    if (controller->check_spacing < LONGEST_CHECK_SPACING)
        controller->check_spacing *= 2;
    lull_controller_begin_trial(controller, LULL_TRIAL_WATCH);
}

static void conclude_verdict(struct lull_controller *controller, enum lull_verdict verdict)
{
    switch (controller->trial.kind) {
    case LULL_TRIAL_SCREEN:
        conclude_screen(controller, verdict);
        break;
    case LULL_TRIAL_PROOF:
        conclude_proof(controller, verdict);
        break;
    case LULL_TRIAL_CHECK:
        conclude_check(controller, verdict);
        break;
    case LULL_TRIAL_WATCH:
        assert(false && "a watch gives no verdicts");
    }
}

/*
 * With other nodes there are no checks: a node that goes to the reference alone sees nothing if
 * another one holds the job up. There the watched pairs, which are the same on all, decide.
 */
static bool may_check(const struct lull_controller *controller)
{
    return !controller->config.together && lull_controller_is_lowered(controller) &&
           lull_controller_iteration(controller) >= controller->next_check;
}

/* The next stretch of what is settled, longer than the one before. */
static void conclude_watch(struct lull_controller *controller)
{
    lull_trial_lengthen(&controller->trial);
    lull_controller_begin_trial(controller, LULL_TRIAL_WATCH);
}

void lull_controller_act_on(struct lull_controller *controller, enum lull_trial_result result)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        conclude_verdict(controller, LULL_VERDICT_NOT_DEGRADED);
        break;
    case LULL_TRIAL_DEGRADED:
        conclude_verdict(controller, LULL_VERDICT_DEGRADED);
        break;
    case LULL_TRIAL_UNPROVEN:
        conclude_verdict(controller, LULL_VERDICT_UNPROVEN);
        break;
    case LULL_TRIAL_GIVES_UP:
        if (controller->trial.kind == LULL_TRIAL_CHECK)
            conclude_verdict(controller, LULL_VERDICT_UNPROVEN);
        else
            conclude_abandon(controller);
        break;
    case LULL_TRIAL_UNTRIED:
        conclude_defer(controller);
        break;
    case LULL_TRIAL_RESTARTS:
        lull_controller_begin_trial(controller, controller->trial.kind);
        break;
    case LULL_TRIAL_HURTS:
        conclude_withdraw(controller);
        break;
    case LULL_TRIAL_SPENT:
        if (lull_trial_affords_check(&controller->trial))
            lull_controller_begin_trial(controller, LULL_TRIAL_CHECK);
        else
            conclude_withdraw(controller);
        break;
    case LULL_TRIAL_HOLDS:
        conclude_watch(controller);
        break;
    case LULL_TRIAL_SLOW_PAIR:
        if (may_check(controller))
            lull_controller_begin_trial(controller, LULL_TRIAL_CHECK);
        else
            conclude_watch(controller);
        break;
    case LULL_TRIAL_SLOW_BLOCK:
        if (may_check(controller))
            lull_controller_begin_trial(controller, LULL_TRIAL_CHECK);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SET_ASIDE:
        break;
    }
}
