/*
 * Which iterations run at the plan and which at the highest clocks, and what their lengths say.
 * Each iteration is decided while the one before it runs, so that the raising for its first
 * operation can be asked for in time. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "core/pipeline/follow/plan_controller_state.h"

/* Iterations at a plan before it is judged. Chosen, not measured. */
enum { WARMING = 3 };
/* Windows that a kept plan runs between two references, at first and at most. Chosen, not measured.
 */
enum { FIRST_STRETCH = 16, LONGEST_STRETCH = 512 };
/* Pairs over which the slowdown of a plan is estimated at most. Chosen, not measured. */
enum { WATCHED_PAIRS = 1000 };
/* A single pair of windows this much slower than the plan may cost ends a trial. Chosen, not
 * measured. */
static const double abort_ratio = 0.2;

/* Only the leader's iterations are evidence. */
enum { LEADER_RANK = 0 };
static const uint64_t leader_present = 1;

static double allowed_ratio(const struct lull_plan_controller *plan_controller, int32_t plan)
{
    double own = 0.0;

    if (plan >= 0)
        own = plan_controller->plans[plan]->slowdown_ratio;

    return (1.0 + own) * (1.0 + plan_controller->config.tolerance_ratio) - 1.0;
}

/* While a plan is held nothing is evidence, so there are no windows. */
static bool has_windows(const struct lull_plan_controller_trial *trial)
{
    return !trial->is_held && (trial->phase == LULL_PLAN_CONTROLLER_TRYING ||
                               trial->phase == LULL_PLAN_CONTROLLER_KEPT);
}

void lull_plan_controller_begin_test(struct lull_plan_controller *plan_controller,
                                     enum lull_plan_controller_phase phase, uint64_t since)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;

    trial->phase = phase;
    trial->test++;
    if (!has_windows(trial))
        return;
    lull_trial_begin(&trial->evidence,
                     phase == LULL_PLAN_CONTROLLER_KEPT ? LULL_TRIAL_WATCH : LULL_TRIAL_TEST,
                     plan_controller->config.window_iterations);
    lull_trial_place(&trial->evidence, LEADER_RANK, since);
}

void lull_plan_controller_trial_init(struct lull_plan_controller *plan_controller, int32_t plan,
                                     uint64_t since)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;
    const double tolerance = allowed_ratio(plan_controller, plan);
    const struct lull_trial_config config = {
        .rank_count = 1,
        .confidence = plan_controller->config.confidence,
        .min_pairs = plan_controller->config.min_pairs,
        .max_pairs = plan_controller->config.max_pairs,
        .kept_pairs = WATCHED_PAIRS,
        .most_set_aside = UINT32_MAX,
        .first_stretch = FIRST_STRETCH,
        .most_stretch = LONGEST_STRETCH,
        .uses_plain_mean = true,
        .spans_lost_iterations = true,
        .estimates_tests = true,
        .watch_rule = LULL_WATCH_BOUND,
    };
    const struct lull_trial_terms terms = {.tolerance_ratio = tolerance,
                                           .abort_ratio = tolerance + abort_ratio};

    assert(plan < 0 || plan_controller->plans[plan] != NULL);
    trial->plan = plan;
    trial->is_held = plan_controller->config.is_trusted;
    trial->warming = WARMING;
    lull_trial_init(&trial->evidence, &config, &plan_controller->rank);
    lull_trial_set_terms(&trial->evidence, &terms, leader_present);
    lull_plan_controller_begin_test(
        plan_controller, plan < 0 ? LULL_PLAN_CONTROLLER_GIVEN_UP : LULL_PLAN_CONTROLLER_WARMING,
        since);
}

const struct lull_plan_controller_trial *
lull_plan_controller_trial_of_plan(const struct lull_plan_controller *plan_controller)
{
    if (plan_controller->is_detoured)
        return &plan_controller->resting;
    return &plan_controller->trial;
}

void lull_plan_controller_trial_interrupt(struct lull_plan_controller *plan_controller)
{
    const bool is_held = plan_controller->trial.is_held;

    for (uint64_t number = plan_controller->iteration; number <= plan_controller->iteration + 1;
         number++)
        plan_controller->slots[number % LULL_PLAN_CONTROLLER_SLOTS] =
            (struct lull_plan_controller_slot){.number = number,
                                               .plan = LULL_PLAN_CONTROLLER_HIGHEST};
    plan_controller->is_whole = false;
    lull_plan_controller_trial_init(plan_controller, plan_controller->trial.plan,
                                    plan_controller->iteration + 2);
    plan_controller->trial.is_held = is_held;
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* Lets a few iterations pass at the plan; then its test begins. */
static void warm_up(struct lull_plan_controller *plan_controller, uint64_t number)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;

    if (trial->warming > 0)
        trial->warming--;
    else if (!trial->is_held)
        lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_TRYING, number);
    else if (plan_controller->config.is_trusted)
        trial->phase = LULL_PLAN_CONTROLLER_KEPT;
}

/* An iteration is decided while the one before it runs; its test number tells later whether it is
 * still evidence. */
void lull_plan_controller_decide(struct lull_plan_controller *plan_controller, uint64_t number)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;
    struct lull_plan_controller_slot *slot =
        &plan_controller->slots[number % LULL_PLAN_CONTROLLER_SLOTS];

    *slot = (struct lull_plan_controller_slot){
        .number = number, .test = trial->test, .plan = trial->plan};
    if (plan_controller->config.observe_only || plan_controller->queue.suspended) {
        slot->plan = LULL_PLAN_CONTROLLER_HIGHEST;
        return;
    }
    if (trial->phase == LULL_PLAN_CONTROLLER_WARMING)
        warm_up(plan_controller, number);
    slot->test = trial->test;
    if (!has_windows(trial) ||
        !lull_trial_slot(&trial->evidence, LEADER_RANK, number, &slot->place))
        return;
    if (!slot->place.candidate)
        slot->plan = LULL_PLAN_CONTROLLER_HIGHEST;
}

/* ---- judging ----------------------------------------------------------------------------- */

static void give_way(struct lull_plan_controller *plan_controller, uint64_t since)
{
    const int32_t next = plan_controller->trial.plan + 1;

    lull_plan_controller_trial_init(
        plan_controller,
        (uint32_t)next < plan_controller->plan_count ? next : LULL_PLAN_CONTROLLER_HIGHEST, since);
}

/* A pair of a kept plan has ended, counted or not. */
static void go_on_watching(struct lull_plan_controller *plan_controller, uint64_t since)
{
    if (plan_controller->trial.phase != LULL_PLAN_CONTROLLER_KEPT)
        return;
    lull_trial_lengthen(&plan_controller->trial.evidence);
    lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_KEPT, since);
}

/* A kept plan is only ever given up by evidence that it hurts; a pair that was set aside or slow by
 * chance lets the watch go on. */
static void act_on(struct lull_plan_controller *plan_controller, enum lull_trial_result result,
                   uint64_t since)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        lull_trial_keep(&plan_controller->trial.evidence);
        lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_KEPT, since);
        break;
    case LULL_TRIAL_DEGRADED:
    case LULL_TRIAL_HURTS:
        give_way(plan_controller, since);
        break;
    case LULL_TRIAL_SET_ASIDE:
    case LULL_TRIAL_HOLDS:
    case LULL_TRIAL_SLOW_PAIR:
        go_on_watching(plan_controller, since);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SLOW_BLOCK:
        break;
    }
}

void lull_plan_controller_take_iteration(struct lull_plan_controller *plan_controller,
                                         const struct lull_plan_controller_iteration *iteration)
{
    const struct lull_plan_controller_slot *slot =
        lull_plan_controller_slot_of(plan_controller, iteration->number);
    struct lull_plan_controller_trial *trial = &plan_controller->trial;
    const double length_ms = (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;

    if (slot->number != iteration->number || slot->test != trial->test || !has_windows(trial))
        return;
    if (!iteration->is_whole)
        lull_trial_disturb(&trial->evidence);
    /* The iteration that begins now was decided before. */
    act_on(plan_controller,
           lull_trial_add(&trial->evidence, LEADER_RANK, &slot->place, length_ms, leader_present),
           iteration->number + 2);
}
