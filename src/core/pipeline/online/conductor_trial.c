/*
 * Which iterations run at the plan and which at the highest clocks, and what their lengths say.
 * Decided one iteration ahead, so that the raising for an iteration's first operation can be asked
 * for in the iteration before. SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "core/pipeline/online/conductor_state.h"

/* Iterations at a plan before it is judged. */
enum { WARMING = 3 };
/* A kept plan runs so many windows between two references, and twice as many after each. */
enum { FIRST_STRETCH = 16, LONGEST_STRETCH = 512 };
enum { WATCHED_PAIRS = 1000 };
/* A single pair of windows this much slower than the plan may cost ends a trial. */
static const double abort_ratio = 0.2;

static double allowed_ratio(const struct lull_conductor *conductor, int32_t plan)
{
    const double own = plan < 0 ? 0.0 : conductor->plans[plan]->slowdown_ratio;

    return (1.0 + own) * (1.0 + conductor->config.tolerance_ratio) - 1.0;
}

static void clear_pair(struct conductor_trial *trial)
{
    memset(trial->sum_ms, 0, sizeof(trial->sum_ms));
    memset(trial->measured, 0, sizeof(trial->measured));
    trial->is_broken = false;
}

void conductor_begin_test(struct lull_conductor *conductor, enum lull_conductor_phase phase,
                          uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;
    const uint32_t window = conductor->config.window_iterations;
    const bool is_kept = phase == LULL_CONDUCTOR_KEPT;

    trial->phase = phase;
    trial->test++;
    trial->since = since;
    trial->schedule = (struct lull_window_schedule){
        .reference_iterations = window,
        .candidate_iterations = is_kept ? trial->stretch : window,
        .candidate_first = is_kept,
    };
    clear_pair(trial);
}

void conductor_trial_init(struct lull_conductor *conductor, int32_t plan, uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;
    const double tolerance = allowed_ratio(conductor, plan);
    struct lull_guard_config config = {
        .tolerance_ratio = tolerance,
        .confidence = conductor->config.confidence,
        .min_pairs = conductor->config.min_pairs,
        .max_pairs = conductor->config.max_pairs,
        .abort_ratio = tolerance + abort_ratio,
    };

    trial->plan = plan;
    trial->is_held = conductor->config.is_trusted;
    trial->stretch = FIRST_STRETCH * conductor->config.window_iterations;
    trial->warming = WARMING;
    lull_guard_init(&trial->guard, &config);
    config.max_pairs = WATCHED_PAIRS;
    lull_guard_init(&trial->watch, &config);
    trial->before[0] = trial->guard;
    trial->before[1] = trial->watch;
    conductor_begin_test(conductor, plan < 0 ? LULL_CONDUCTOR_GIVEN_UP : LULL_CONDUCTOR_WARMING,
                         since);
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

const struct conductor_slot *conductor_slot_of(const struct lull_conductor *conductor,
                                               uint64_t number)
{
    static const struct conductor_slot highest = {.plan = CONDUCTOR_HIGHEST};
    const struct conductor_slot *slot = &conductor->slots[number % CONDUCTOR_SLOTS];

    return slot->number == number && number != 0 ? slot : &highest;
}

/* Where the iteration stands in the windows of the present test. */
static void fill_slot(const struct lull_conductor *conductor, struct conductor_slot *slot)
{
    const struct conductor_trial *trial = &conductor->trial;
    const struct lull_window_slot place =
        lull_window_slot(&trial->schedule, slot->number - trial->since);

    slot->is_candidate = place.candidate;
    slot->plan = place.candidate ? trial->plan : CONDUCTOR_HIGHEST;
    slot->is_measured = place.measured;
    slot->ends_window = place.window_ends;
    slot->ends_pair = place.window_ends && place.window % 2 == 1;
}

void conductor_decide(struct lull_conductor *conductor, uint64_t number)
{
    struct conductor_trial *trial = &conductor->trial;
    struct conductor_slot *slot = &conductor->slots[number % CONDUCTOR_SLOTS];

    *slot = (struct conductor_slot){.number = number, .test = trial->test, .plan = trial->plan};
    if (conductor->config.observe_only || conductor->driver.is_withheld)
        slot->plan = CONDUCTOR_HIGHEST;
    else if (trial->phase == LULL_CONDUCTOR_WARMING && trial->warming > 0)
        trial->warming--;
    else if (trial->phase == LULL_CONDUCTOR_WARMING && !trial->is_held) {
        conductor_begin_test(conductor, LULL_CONDUCTOR_TRYING, number);
        slot->test = trial->test;
    } else if (trial->phase == LULL_CONDUCTOR_WARMING && conductor->config.is_trusted) {
        trial->phase = LULL_CONDUCTOR_KEPT;
    }
    if (!conductor->config.observe_only && !conductor->driver.is_withheld && !trial->is_held &&
        (trial->phase == LULL_CONDUCTOR_TRYING || trial->phase == LULL_CONDUCTOR_KEPT))
        fill_slot(conductor, slot);
}

/* ---- judging ----------------------------------------------------------------------------- */

static void give_way(struct lull_conductor *conductor, uint64_t since)
{
    const int32_t next = conductor->trial.plan + 1;

    conductor_trial_init(conductor,
                         (uint32_t)next < conductor->plan_count ? next : CONDUCTOR_HIGHEST, since);
}

static void judge_trial(struct lull_conductor *conductor, uint64_t since)
{
    switch (lull_guard_verdict(&conductor->trial.guard)) {
    case LULL_VERDICT_NOT_DEGRADED:
        conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, since);
        break;
    case LULL_VERDICT_DEGRADED:
        give_way(conductor, since);
        break;
    default:
        break;
    }
}

/* A kept plan goes only when it is proven to be slower than it may be. */
static void judge_kept(struct lull_conductor *conductor, uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;
    struct lull_guard_estimate estimate;

    lull_guard_estimate(&trial->watch, &estimate);
    if (estimate.pairs >= conductor->config.min_pairs &&
        estimate.lower_ratio > allowed_ratio(conductor, trial->plan)) {
        give_way(conductor, since);
        return;
    }
    if (trial->stretch < LONGEST_STRETCH * conductor->config.window_iterations)
        trial->stretch *= 2;
    conductor_begin_test(conductor, LULL_CONDUCTOR_KEPT, since);
}

static void end_pair(struct lull_conductor *conductor, uint64_t since)
{
    struct conductor_trial *trial = &conductor->trial;
    const bool is_usable = !trial->is_broken && trial->measured[0] > 0 && trial->measured[1] > 0;

    if (is_usable) {
        const double reference_ms = trial->sum_ms[0] / trial->measured[0];
        const double candidate_ms = trial->sum_ms[1] / trial->measured[1];

        trial->before[0] = trial->guard;
        trial->before[1] = trial->watch;
        lull_guard_add(&trial->guard, reference_ms, candidate_ms);
        lull_guard_add(&trial->watch, reference_ms, candidate_ms);
    }
    clear_pair(trial);
    if (trial->phase == LULL_CONDUCTOR_KEPT)
        judge_kept(conductor, since);
    else if (is_usable)
        judge_trial(conductor, since);
}

void conductor_take_iteration(struct lull_conductor *conductor,
                              const struct lull_conductor_iteration *iteration)
{
    const struct conductor_slot *slot = conductor_slot_of(conductor, iteration->number);
    struct conductor_trial *trial = &conductor->trial;

    if (slot->number != iteration->number || slot->test != trial->test ||
        (trial->phase != LULL_CONDUCTOR_TRYING && trial->phase != LULL_CONDUCTOR_KEPT) ||
        trial->is_held)
        return;
    trial->is_broken |= !iteration->is_whole;
    if (slot->is_measured) {
        trial->sum_ms[slot->is_candidate] +=
            (double)(iteration->end_ns - iteration->begin_ns) * 1e-6;
        trial->measured[slot->is_candidate]++;
    }
    /* The one that begins now was decided before. */
    if (slot->ends_pair)
        end_pair(conductor, iteration->number + 2);
}
