/*
 * Chooses the iterations that run at the plan and those at the highest clocks, and evaluates their
 * lengths. Each iteration is decided while the one before it runs, so that the raising for its
 * first operation can be requested in time. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "core/pipeline/follow/plan_controller_state.h"

/* Iterations at a plan before it is judged. */
enum { WARMING = 3 };
/* Blocks that a kept plan runs between two references, at first and at most. */
enum { FIRST_STRETCH = 16, LONGEST_STRETCH = 512 };
/* Iterations from a plan's giving way until it is tried again, at first and at most. Default: what
 * disturbed its proof, such as a straggler, has had time to pass. */
enum { FIRST_RETRY_SPACING = 512, LONGEST_RETRY_SPACING = 32768 };
/* A proof takes this share of the run so far from then on, as for sections (decide.c). */
enum { RETRY_SHARE = 4 };
/* A disturbance that continues after so many pairs set aside in a row counts as one that never
 * ends. */
enum { MAX_DISTURBED = 3 };

/* An iteration that has left its order and takes so many times as long as the reference contains
 * something else, such as a validation. Default: far from any harm of a plan. */
static const double other_work = 2.0;

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

/* While a plan is held nothing is evidence, so there are no pairs. */
static bool has_pairs(const struct lull_plan_controller_trial *trial)
{
    return !trial->is_held && (trial->phase == LULL_PLAN_CONTROLLER_TRYING ||
                               trial->phase == LULL_PLAN_CONTROLLER_KEPT);
}

static void begin_evidence(struct lull_plan_controller *plan_controller, enum lull_trial_kind kind,
                           uint64_t since)
{
    const double allowed = allowed_ratio(plan_controller, plan_controller->trial.plan);
    const struct lull_trial_terms terms = {.tolerance_ratio = allowed, .loss_ratio = allowed};

    lull_trial_begin(&plan_controller->evidence, kind, &terms,
                     plan_controller->config.window_iterations, leader_present);
    lull_trial_place(&plan_controller->evidence, LEADER_RANK, since);
}

void lull_plan_controller_begin_test(struct lull_plan_controller *plan_controller,
                                     enum lull_plan_controller_phase phase, uint64_t since)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;

    trial->phase = phase;
    trial->test++;
    if (has_pairs(trial))
        begin_evidence(plan_controller,
                       phase == LULL_PLAN_CONTROLLER_KEPT ? LULL_TRIAL_WATCH : LULL_TRIAL_PROOF,
                       since);
}

/* The plan stays, but its cost is measured again. */
static void begin_check(struct lull_plan_controller *plan_controller, uint64_t since)
{
    plan_controller->trial.test++;
    begin_evidence(plan_controller, LULL_TRIAL_CHECK, since);
}

void lull_plan_controller_init_evidence(struct lull_plan_controller *plan_controller)
{
    const struct lull_trial_config config = {
        .rank_count = 1,
        .confidence = plan_controller->config.confidence,
        .most_set_aside = MAX_DISTURBED,
        .first_stretch = FIRST_STRETCH,
        .seed = plan_controller->config.seed,
        .most_stretch = LONGEST_STRETCH,
    };

    lull_trial_init(&plan_controller->evidence, &config, &plan_controller->rank);
    plan_controller->rank.losses.rate = plan_controller->config.tolerance_ratio;
}

void lull_plan_controller_trial_init(struct lull_plan_controller *plan_controller, int32_t plan,
                                     uint64_t since)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;

    assert(plan < 0 || plan_controller->plans[plan] != NULL);
    trial->plan = plan;
    trial->is_held = plan_controller->config.is_trusted;
    trial->warming = WARMING;
    lull_trial_drop_kept(&plan_controller->evidence);
    lull_trial_change_point(&plan_controller->evidence);
    lull_plan_controller_begin_test(
        plan_controller, plan < 0 ? LULL_PLAN_CONTROLLER_GIVEN_UP : LULL_PLAN_CONTROLLER_WARMING,
        since);
}

void lull_plan_controller_start_plan(struct lull_plan_controller *plan_controller, int32_t plan,
                                     uint64_t since)
{
    plan_controller->used_plan = plan;
    plan_controller->retry_spacing = 0;
    lull_plan_controller_trial_init(plan_controller, plan, since);
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

/* ---- trying again ------------------------------------------------------------------------ */

/* The plan in use is replaced by another one. */
static void put_off_retry(struct lull_plan_controller *plan_controller, uint64_t since)
{
    if (plan_controller->retry_spacing == 0)
        plan_controller->retry_spacing = FIRST_RETRY_SPACING;
    else if (plan_controller->retry_spacing < LONGEST_RETRY_SPACING)
        plan_controller->retry_spacing *= 2;
    plan_controller->next_retry = since + plan_controller->retry_spacing;
}

/* The plan in use was replaced, and no trial of the present one is under way. */
static bool is_due_again(const struct lull_plan_controller *plan_controller, uint64_t number)
{
    const struct lull_plan_controller_trial *trial = &plan_controller->trial;
    const bool is_quiet = trial->phase == LULL_PLAN_CONTROLLER_GIVEN_UP ||
                          (trial->phase == LULL_PLAN_CONTROLLER_KEPT &&
                           plan_controller->evidence.kind == LULL_TRIAL_WATCH);

    return plan_controller->retry_spacing > 0 && number >= plan_controller->next_retry &&
           trial->plan != plan_controller->used_plan && is_quiet && !trial->is_held &&
           !plan_controller->is_detoured && !plan_controller->is_disobedient &&
           !plan_controller->queue.suspended;
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* Lets a few iterations pass at the plan; then its test begins. */
static void plan_trial_warm_up(struct lull_plan_controller *plan_controller, uint64_t number)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;

    if (trial->warming > 0)
        trial->warming--;
    else if (!trial->is_held)
        lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_TRYING, number);
    else if (plan_controller->config.is_trusted)
        trial->phase = LULL_PLAN_CONTROLLER_KEPT;
}

/* An iteration is decided while the one before it runs; its test number shows later whether it is
 * still evidence. */
void lull_plan_controller_decide(struct lull_plan_controller *plan_controller, uint64_t number)
{
    struct lull_plan_controller_trial *trial = &plan_controller->trial;
    struct lull_plan_controller_slot *slot =
        &plan_controller->slots[number % LULL_PLAN_CONTROLLER_SLOTS];

    if (is_due_again(plan_controller, number)) {
        lull_trial_demand(&plan_controller->evidence, number / RETRY_SHARE);
        lull_plan_controller_trial_init(plan_controller, plan_controller->used_plan, number);
    }
    *slot = (struct lull_plan_controller_slot){
        .number = number, .test = trial->test, .plan = trial->plan};
    if (plan_controller->config.observe_only || plan_controller->queue.suspended) {
        slot->plan = LULL_PLAN_CONTROLLER_HIGHEST;
        return;
    }
    if (trial->phase == LULL_PLAN_CONTROLLER_WARMING)
        plan_trial_warm_up(plan_controller, number);
    slot->test = trial->test;
    if (!has_pairs(trial))
        return;
    slot->has_place =
        lull_trial_slot(&plan_controller->evidence, LEADER_RANK, number, &slot->place);
    if (!slot->has_place || !slot->place.candidate)
        slot->plan = LULL_PLAN_CONTROLLER_HIGHEST;
}

/* ---- judging ----------------------------------------------------------------------------- */

static void give_way(struct lull_plan_controller *plan_controller, uint64_t since)
{
    const int32_t next = plan_controller->trial.plan + 1;

    if (plan_controller->trial.plan == plan_controller->used_plan)
        put_off_retry(plan_controller, since);
    lull_plan_controller_trial_init(
        plan_controller,
        (uint32_t)next < plan_controller->plan_count ? next : LULL_PLAN_CONTROLLER_HIGHEST, since);
}

/* A pair of a kept plan has ended, counted or not. */
static void plan_trial_watch_next(struct lull_plan_controller *plan_controller, uint64_t since)
{
    if (plan_controller->evidence.kind != LULL_TRIAL_WATCH)
        return;
    lull_trial_lengthen(&plan_controller->evidence);
    lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_KEPT, since);
}

static void plan_trial_accept(struct lull_plan_controller *plan_controller, uint64_t since)
{
    lull_trial_keep(&plan_controller->evidence);
    lull_plan_controller_begin_test(plan_controller, LULL_PLAN_CONTROLLER_KEPT, since);
}

/* A check that proves nothing does not end a kept plan unless the estimated slowdown exceeds the
 * tolerance. */
static bool looks_harmless_in_check(const struct lull_plan_controller *plan_controller)
{
    struct lull_guard_estimate estimate;

    lull_trial_estimate_test(&plan_controller->evidence, &estimate);
    return plan_controller->evidence.kind == LULL_TRIAL_CHECK &&
           estimate.slowdown_ratio <= plan_controller->evidence.terms.tolerance_ratio;
}

/* A kept plan is given up only on evidence that it slows the job
 * down; the watch continues after a pair that was set aside. */
static void act_on(struct lull_plan_controller *plan_controller, enum lull_trial_result result,
                   uint64_t since)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        plan_trial_accept(plan_controller, since);
        break;
    case LULL_TRIAL_UNPROVEN:
    case LULL_TRIAL_GIVES_UP:
        if (looks_harmless_in_check(plan_controller))
            plan_trial_accept(plan_controller, since);
        else
            give_way(plan_controller, since);
        break;
    case LULL_TRIAL_DEGRADED:
    case LULL_TRIAL_HURTS:
        give_way(plan_controller, since);
        break;
    case LULL_TRIAL_UNTRIED:
    case LULL_TRIAL_SET_ASIDE:
    case LULL_TRIAL_HOLDS:
        plan_trial_watch_next(plan_controller, since);
        break;
    case LULL_TRIAL_RESTARTS:
        plan_controller->trial.test++;
        begin_evidence(plan_controller, plan_controller->evidence.kind, since);
        break;
    case LULL_TRIAL_SPENT:
        if (lull_trial_affords_check(&plan_controller->evidence))
            begin_check(plan_controller, since);
        else
            give_way(plan_controller, since);
        break;
    case LULL_TRIAL_SLOW_PAIR:
        begin_check(plan_controller, since);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SLOW_BLOCK: /* a straggler is an equally likely cause */
        break;
    }
}

static bool has_other_work(const struct lull_plan_controller *plan_controller,
                           const struct lull_plan_controller_iteration *iteration, double length_ms)
{
    const double level_ms = plan_controller->rank.losses.reference.mean_ms;

    return !iteration->is_whole && level_ms > 0.0 && length_ms > other_work * level_ms;
}

/* A GPU that is not followed runs at its highest clock, not at those of the plan. */
static void note_clocks(struct lull_plan_controller *plan_controller,
                        const struct lull_plan_controller_iteration *iteration,
                        const struct lull_pair_slot *place)
{
    if (!place->candidate)
        return;
    lull_trial_want_change(&plan_controller->evidence);
    if (iteration->is_whole)
        lull_trial_make_change(&plan_controller->evidence);
}

void lull_plan_controller_take_iteration(struct lull_plan_controller *plan_controller,
                                         const struct lull_plan_controller_iteration *iteration)
{
    const struct lull_plan_controller_slot *slot =
        lull_plan_controller_slot_of(plan_controller, iteration->number);
    struct lull_plan_controller_trial *trial = &plan_controller->trial;
    const double length_ms = (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;

    if (slot->number != iteration->number || slot->test != trial->test || !has_pairs(trial) ||
        has_other_work(plan_controller, iteration, length_ms))
        return;
    if (!slot->has_place) {
        lull_trial_take_unplaced(&plan_controller->evidence, LEADER_RANK, iteration->number,
                                 length_ms, slot->plan == LULL_PLAN_CONTROLLER_HIGHEST);
        return;
    }
    if (iteration->is_disturbed)
        lull_trial_disturb(&plan_controller->evidence, &slot->place);
    note_clocks(plan_controller, iteration, &slot->place);
    /* The iteration that begins now was decided before. */
    act_on(plan_controller,
           lull_trial_add(&plan_controller->evidence, LEADER_RANK, &slot->place, length_ms,
                          leader_present),
           iteration->number + 2);
}
