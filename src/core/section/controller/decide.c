/* Decides what to do next, and draws from a trial's verdicts what follows. SPDX-License-Identifier:
 * Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/clock.h"
#include "base/minmax.h"
#include "core/section/controller/state.h"

/* Points that are given up at once, at most, after one failed proof more. */
enum { BACK_OFF_MAX = 16 };
/* Iterations between two checks, at first and at most. */
enum { FIRST_CHECK_SPACING = 64, LONGEST_CHECK_SPACING = 8192 };
/* Iterations from the settling until lower points are tried again, at first and at most. Default: a
 * job that has changed gets another chance, and one that has not loses a screen of one point every
 * so often. */
enum { FIRST_RETRY_SPACING = 2048, LONGEST_RETRY_SPACING = 32768 };
/* This share of it where a proof has been given up, because heat or what else has disturbed it may
 * pass. */
enum { GIVEN_UP_SHARE = 8 };
/* Another chance for the job is another one for harm that is too rare for a short proof. So a proof
 * takes this share of the run so far from then on. Chosen with tools/audit-guard: with short proofs
 * harm in one of a hundred iterations is kept at the end of 16 runs in 100, with these in 4. */
enum { RETRY_SHARE = 4 };
/* How long sections are left unchanged before the search for the steady point, in iterations that
 * their own search took, times the share of time that they lower. Every other block of a search
 * runs at the reference, so one that a job does not outlive costs half of what its sections save:
 * that is then at most a tenth or so of what they have saved before. */
static const double rest_factor = 6.0;
/* Sections that are low for a smaller share of the time are not worth a rest, which puts off what
 * the steady point saves: that is 3 % and more in docs/joint.md, and gaps that were low for 12 %
 * and 10 % of a proof saved 2.4 % and 2.0 % (sampled_rank-0 and -1, in virtual time). After 400
 * iterations these two together had saved 2.3 % with a rest, and 6.8 % without. */
static const double min_rest_share = 0.15;
/* The proof of a duty ends after so many iterations at it, or as many as the first search has
 * taken, and half of it is only tried after that where the search for a duty has not taken more
 * than the last number. Chosen: a job that has settled is to be done with it before it has run four
 * times as long. */
enum { REFINED_MAX = 256, REFINED_LONGEST = 4000, REFINED_TWICE = 128 };
/* A steady point is left unchanged for this share of the first search before it is refined. */
enum { REFINEMENT_REST = 4 };
/* A track that is still searching is waited for this many iterations of another one. */
enum { PATIENCE_ITERATIONS = 60 };

/* So many iterations distinguish an iteration from a loop within it. */
enum { INNER_LOOP_ITERATIONS = 16 };

void lull_controller_init_decisions(struct lull_controller *controller)
{
    controller->check_spacing = FIRST_CHECK_SPACING;
    controller->retry_spacing = FIRST_RETRY_SPACING;
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

/* True where something runs below the reference: for a section, for all, or because its rank waits.
 */
static bool is_lowered(const struct lull_controller *controller)
{
    return lull_targets_are_lowered(&controller->targets) || lull_slack_is_used(&controller->slack);
}

/* What is to be proven is a duty of a steady point that is proven already. */
static bool is_refining(const struct lull_controller *controller)
{
    const struct lull_target *steady = lull_targets_steady(&controller->targets);

    return steady != NULL && steady->proven.common == steady->descent.good &&
           lull_target_duty(steady).low > steady->proven.duty.low;
}

/* A fresh trial: guards, pairs, and the iteration from which the schedule counts. */
static void begin_trial(struct lull_controller *controller, enum lull_trial_kind kind)
{
    struct lull_trial_terms terms = {
        .tolerance_ratio = controller->config.tolerance_ratio,
        .worth_ratio = decide_worth_of(controller),
        .loss_ratio = controller->config.tolerance_ratio,
    };

    assert(controller->phase != LULL_PHASE_LEARNING);
    if (kind == LULL_TRIAL_PROOF && is_refining(controller))
        terms.max_iterations = lull_max_u32(
            REFINED_MAX, (uint32_t)fmin((double)controller->settled_after, REFINED_LONGEST));
    /* Where nothing is lowered nothing can be lost. */
    if (kind == LULL_TRIAL_WATCH && !is_lowered(controller)) {
        terms.loss_ratio = 0.0;
        terms.is_idle = true;
    }
    lull_trial_begin(&controller->trial, kind, &terms, lull_controller_block(controller, kind),
                     lull_controller_judged(controller));
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

    if (targets->steady == LULL_CONTROLLER_NO_TARGET && !controller->config.only_sections)
        targets->steady = lull_targets_add(targets, 0, LULL_DESCENT_GALLOP);
    if (controller->config.only_steady)
        return;
    for (uint32_t i = 0; i < controller->gpu_count; i++)
        if (lull_controller_takes_part(&controller->gpus[i]))
            lull_controller_map_sections(controller, &controller->gpus[i]);
}

/* What has been proven, or the reference where nothing has, stays until something calls for more.
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
    begin_trial(controller, LULL_TRIAL_WATCH);
}

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
static void decide_rest(struct lull_controller *controller)
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

/* The target to search now, if any. */
static int32_t next_target(const struct lull_controller *controller)
{
    const struct lull_targets *targets = &controller->targets;
    const int32_t next = lull_targets_next(targets);

    if (lull_targets_want_proof_first(targets) ||
        (next == targets->steady &&
         lull_controller_iteration(controller) < controller->steady_from))
        return LULL_CONTROLLER_NO_TARGET;
    return next;
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
    controller->targets.current = next_target(controller);
    if (controller->targets.current != LULL_CONTROLLER_NO_TARGET) {
        controller->phase = LULL_PHASE_DESCENDING;
        begin_trial(controller, LULL_TRIAL_SCREEN);
        return;
    }
    if (!lull_targets_are_proven(&controller->targets)) {
        controller->phase = LULL_PHASE_DESCENDING;
        begin_trial(controller, LULL_TRIAL_PROOF);
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

/* ---- what the trial has found ------------------------------------------------------------ */

static void decide_record(struct lull_controller *controller, struct lull_target *target,
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

void lull_controller_forget_proof(struct lull_controller *controller)
{
    lull_targets_disprove(&controller->targets);
    lull_trial_drop_kept(&controller->trial);
    controller->searched_from = lull_controller_iteration(controller);
    controller->steady_from = 0;
}

/* The screen of the target under test has come out: the patent's steps S225 to S227. */
static void conclude_screen(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_target *target;

    assert(controller->targets.current != LULL_CONTROLLER_NO_TARGET);
    target = &controller->targets.list[controller->targets.current];
    decide_record(controller, target, verdict);
    lull_trial_change_point(&controller->trial);
    target->power_lowered_w = (struct lull_moments){0};
    lull_targets_conclude(&controller->targets, target, verdict);
    if (controller->targets.current == controller->targets.steady && !controller->config.together)
        lull_controller_aim(controller, target);
    lull_controller_reconsider(controller);
}

/* What is settled hurts, or cannot be proven harmless; what has been proven before stays. Where
 * screens do not see what proofs see, the next proof must not be only one point higher. */
static void decide_back_off(struct lull_controller *controller)
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
static void decide_abandon(struct lull_controller *controller)
{
    lull_targets_give_up(&controller->targets);
    lull_trial_change_point(&controller->trial);
    controller->next_retry =
        lull_controller_iteration(controller) + controller->retry_spacing / GIVEN_UP_SHARE;
    lull_controller_reconsider(controller);
}

/* The target's clock could hardly ever be changed in time, so its screen would take long: what is
 * left to search comes first. */
static void decide_defer(struct lull_controller *controller)
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
static void decide_withdraw(struct lull_controller *controller)
{
    lull_controller_forget_proof(controller);
    decide_back_off(controller);
}

/* The pairs of what was kept before say nothing of what has been proven now. */
static void conclude_proof(struct lull_controller *controller, enum lull_verdict verdict)
{
    if (verdict != LULL_VERDICT_NOT_DEGRADED) {
        if (is_refining(controller) &&
            lull_controller_iteration(controller) > controller->refined_from + REFINED_TWICE)
            stop_refining(controller);
        else
            decide_back_off(controller);
        return;
    }
    lull_trial_drop_kept(&controller->trial);
    lull_trial_keep(&controller->trial);
    lull_targets_prove(&controller->targets);
    lull_swing_limit_renew(&controller->swings);
    if (controller->steady_from == 0)
        decide_rest(controller);
    controller->checks_passed = 0;
    controller->check_spacing = FIRST_CHECK_SPACING;
    lull_controller_reconsider(controller);
}

/* What is not proven again is kept as long as it does not look slower than is tolerated. */
static void conclude_check(struct lull_controller *controller, enum lull_verdict verdict)
{
    struct lull_guard_estimate estimate;

    lull_trial_estimate_test(&controller->trial, &estimate);
    if (verdict == LULL_VERDICT_DEGRADED ||
        (verdict == LULL_VERDICT_UNPROVEN &&
         estimate.slowdown_ratio > controller->config.tolerance_ratio)) {
        decide_withdraw(controller);
        return;
    }
    lull_trial_keep(&controller->trial);
    controller->checks_passed++;
    controller->next_check = lull_controller_iteration(controller) + controller->check_spacing;
    if (controller->check_spacing < LONGEST_CHECK_SPACING)
        controller->check_spacing *= 2;
    begin_trial(controller, LULL_TRIAL_WATCH);
}

static void decide_conclude(struct lull_controller *controller, enum lull_verdict verdict)
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
    return !controller->config.together && is_lowered(controller) &&
           lull_controller_iteration(controller) >= controller->next_check;
}

/* The next stretch of what is settled, longer than the one before. */
static void decide_watch_next(struct lull_controller *controller)
{
    lull_trial_lengthen(&controller->trial);
    begin_trial(controller, LULL_TRIAL_WATCH);
}

void lull_controller_act_on(struct lull_controller *controller, enum lull_trial_result result)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        decide_conclude(controller, LULL_VERDICT_NOT_DEGRADED);
        break;
    case LULL_TRIAL_DEGRADED:
        decide_conclude(controller, LULL_VERDICT_DEGRADED);
        break;
    case LULL_TRIAL_UNPROVEN:
        decide_conclude(controller, LULL_VERDICT_UNPROVEN);
        break;
    case LULL_TRIAL_GIVES_UP:
        decide_abandon(controller);
        break;
    case LULL_TRIAL_UNTRIED:
        decide_defer(controller);
        break;
    case LULL_TRIAL_RESTARTS:
        begin_trial(controller, controller->trial.kind);
        break;
    case LULL_TRIAL_HURTS:
        decide_withdraw(controller);
        break;
    case LULL_TRIAL_SPENT:
        if (lull_trial_affords_check(&controller->trial))
            begin_trial(controller, LULL_TRIAL_CHECK);
        else
            decide_withdraw(controller);
        break;
    case LULL_TRIAL_HOLDS:
        decide_watch_next(controller);
        break;
    case LULL_TRIAL_SLOW_PAIR:
        if (may_check(controller))
            begin_trial(controller, LULL_TRIAL_CHECK);
        else
            decide_watch_next(controller);
        break;
    case LULL_TRIAL_SLOW_BLOCK:
        if (may_check(controller))
            begin_trial(controller, LULL_TRIAL_CHECK);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SET_ASIDE:
        break;
    }
}

/* The sections have rested: the steady point is searched for, and what has been proven stays the
 * result. */
static void seek_steady(struct lull_controller *controller)
{
    if (controller->phase != LULL_PHASE_SETTLED || controller->trial.kind != LULL_TRIAL_WATCH ||
        next_target(controller) == LULL_CONTROLLER_NO_TARGET)
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
static void decide_retry(struct lull_controller *controller)
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
        return 0.0;
    return fmin(risk / (gpu->points - 1) * (1.0 - gpu->lowest_ratio), 1.0);
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
    decide_retry(controller);
}
