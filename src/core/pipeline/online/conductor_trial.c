/*
 * Which iterations run at the plan and which at the highest clocks, and what their lengths say.
 * Each iteration is decided while the one before it runs, so that the raising for its first
 * operation can be asked for in time. SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "core/pipeline/online/conductor_state.h"

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

static double allowed_ratio(const struct lull_conductor *conductor, int32_t plan)
{
    const double own = plan < 0 ? 0.0 : conductor->plans[plan]->slowdown_ratio;

    return (1.0 + own) * (1.0 + conductor->config.tolerance_ratio) - 1.0;
}

/* While a plan is held nothing is evidence, so there are no windows. */
static bool has_windows(const struct conductor_trial *trial)
{
    return !trial->is_held &&
           (trial->phase == LULL_CONDUCTOR_TRYING || trial->phase == LULL_CONDUCTOR_KEPT);
}

void conductor_begin_test(struct lull_conductor *conductor, enum lull_conductor_phase phase,
                          uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;

    trial->phase = phase;
    trial->test++;
    if (!has_windows(trial))
        return;
    lull_trial_begin(&trial->evidence,
                     phase == LULL_CONDUCTOR_KEPT ? LULL_TRIAL_WATCH : LULL_TRIAL_TEST,
                     conductor->config.window_iterations);
    lull_trial_place(&trial->evidence, LEADER_RANK, since);
}

void conductor_trial_init(struct lull_conductor *conductor, int32_t plan, uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;
    const double tolerance = allowed_ratio(conductor, plan);
    const struct lull_trial_config config = {
        .rank_count = 1,
        .confidence = conductor->config.confidence,
        .min_pairs = conductor->config.min_pairs,
        .max_pairs = conductor->config.max_pairs,
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

    assert(plan < 0 || conductor->plans[plan] != NULL);
    trial->plan = plan;
    trial->is_held = conductor->config.is_trusted;
    trial->warming = WARMING;
    lull_trial_init(&trial->evidence, &config, &conductor->rank);
    lull_trial_set_terms(&trial->evidence, &terms, leader_present);
    conductor_begin_test(conductor, plan < 0 ? LULL_CONDUCTOR_GIVEN_UP : LULL_CONDUCTOR_WARMING,
                         since);
}

const struct conductor_trial *conductor_trial_of_plan(const struct lull_conductor *conductor)
{
    return conductor->is_detoured ? &conductor->resting : &conductor->trial;
}

void conductor_trial_interrupt(struct lull_conductor *conductor)
{
    const bool is_held = conductor->trial.is_held;

    for (uint64_t number = conductor->iteration; number <= conductor->iteration + 1; number++)
        conductor->slots[number % CONDUCTOR_SLOTS] =
            (struct conductor_slot){.number = number, .plan = CONDUCTOR_HIGHEST};
    conductor->is_whole = false;
    conductor_trial_init(conductor, conductor->trial.plan, conductor->iteration + 2);
    conductor->trial.is_held = is_held;
}

/* ---- deciding ---------------------------------------------------------------------------- */

/* Lets a few iterations pass at the plan; then its test begins. */
static void warm_up(struct lull_conductor *conductor, uint64_t number)
{
    struct conductor_trial *trial = &conductor->trial;

    if (trial->warming > 0)
        trial->warming--;
    else if (!trial->is_held)
        conductor_begin_test(conductor, LULL_CONDUCTOR_TRYING, number);
    else if (conductor->config.is_trusted)
        trial->phase = LULL_CONDUCTOR_KEPT;
}

void conductor_decide(struct lull_conductor *conductor, uint64_t number)
{
    struct conductor_trial *trial = &conductor->trial;
    struct conductor_slot *slot = &conductor->slots[number % CONDUCTOR_SLOTS];

    *slot = (struct conductor_slot){.number = number, .test = trial->test, .plan = trial->plan};
    if (conductor->config.observe_only || conductor->queue.suspended) {
        slot->plan = CONDUCTOR_HIGHEST;
        return;
    }
    if (trial->phase == LULL_CONDUCTOR_WARMING)
        warm_up(conductor, number);
    slot->test = trial->test;
    if (!has_windows(trial) ||
        !lull_trial_slot(&trial->evidence, LEADER_RANK, number, &slot->place))
        return;
    if (!slot->place.candidate)
        slot->plan = CONDUCTOR_HIGHEST;
}

/* ---- judging ----------------------------------------------------------------------------- */

static void give_way(struct lull_conductor *conductor, uint64_t since)
{
    const int32_t next = conductor->trial.plan + 1;

    conductor_trial_init(conductor,
                         (uint32_t)next < conductor->plan_count ? next : CONDUCTOR_HIGHEST, since);
}

/* A pair of a kept plan has ended, counted or not. */
static void go_on_watching(struct lull_conductor *conductor, uint64_t since)
{
    if (conductor->trial.phase != LULL_CONDUCTOR_KEPT)
        return;
    lull_trial_lengthen(&conductor->trial.evidence);
    conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, since);
}

static void act_on(struct lull_conductor *conductor, enum lull_trial_result result, uint64_t since)
{
    switch (result) {
    case LULL_TRIAL_NOT_DEGRADED:
        lull_trial_keep(&conductor->trial.evidence);
        conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, since);
        break;
    case LULL_TRIAL_DEGRADED:
    case LULL_TRIAL_HURTS:
        give_way(conductor, since);
        break;
    case LULL_TRIAL_SET_ASIDE:
    case LULL_TRIAL_HOLDS:
    case LULL_TRIAL_SLOW_PAIR:
        go_on_watching(conductor, since);
        break;
    case LULL_TRIAL_GOES_ON:
    case LULL_TRIAL_SLOW_BLOCK:
        break;
    }
}

void conductor_take_iteration(struct lull_conductor *conductor,
                              const struct lull_conductor_iteration *iteration)
{
    const struct conductor_slot *slot = conductor_slot_of(conductor, iteration->number);
    struct conductor_trial *trial = &conductor->trial;
    const double length_ms = (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;

    if (slot->number != iteration->number || slot->test != trial->test || !has_windows(trial))
        return;
    if (!iteration->is_whole)
        lull_trial_disturb(&trial->evidence);
    /* The iteration that begins now was decided before. */
    act_on(conductor,
           lull_trial_add(&trial->evidence, LEADER_RANK, &slot->place, length_ms, leader_present),
           iteration->number + 2);
}
