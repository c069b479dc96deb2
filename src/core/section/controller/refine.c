/*
 * Refinement: points of single GPUs. All GPUs of a target search together first; that ends where
 * the most sensitive of them does. GPUs that arrive clearly earlier than others, and so have the
 * longer sections, then have a turn each, longest first: they search below the common point while
 * the others stay where they are. If those that arrive last leave no common point at all, they are
 * kept at the reference and the others search again without them.
 *
 * Whose turn it is follows from the sections and the verdicts alone, and blocks follow from
 * iteration numbers, so no messages are needed.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <assert.h>

#include "core/section/controller/state.h"

/* Sections longer than the shortest by this factor count as longer; others are alike. A section
 * takes at least this share of the iteration to be worth a turn. With both, uneven ranks save 14.1
 * % instead of 6.8 % jointly, and even ranks have no turns (test_ranks). */
static const double longer_ratio = 1.1;
static const double min_share = 0.05;
/* The search of a turn distinguishes this many clocks, and needs at least one of them below the
 * GPU's point. The same values as for gaps (plan.c). */
enum { TURN_CLOCKS = 8 };
/* Turns in a row without effect after which the others are not tried. */
enum { MAX_WITHOUT_EFFECT = 2 };

/* ---- points ------------------------------------------------------------------------------ */

static uint64_t refine_bit(uint32_t gpu)
{
    return UINT64_C(1) << gpu;
}

uint32_t lull_target_common_point(const struct lull_target *target, uint32_t gpu, uint32_t point)
{
    if ((target->held_up & refine_bit(gpu)) != 0)
        return 0;
    return point;
}

uint32_t lull_target_point_for(const struct lull_target *target, uint32_t gpu, bool under_test)
{
    if (under_test && target->turn == (int32_t)gpu)
        return target->own.candidate;
    if (!under_test && !target->settled)
        return 0;
    if (target->has_own)
        return target->own_point[gpu];
    return lull_target_common_point(target, gpu,
                                    under_test ? target->descent.candidate : target->descent.good);
}

uint32_t lull_target_candidate(const struct lull_target *target)
{
    if (target->turn == LULL_CONTROLLER_NO_TURN)
        return target->descent.candidate;
    return target->own.candidate;
}

void lull_target_drop_own(struct lull_target *target)
{
    target->has_own = false;
    target->is_refined = true;
    target->turn = LULL_CONTROLLER_NO_TURN;
    target->turns_left = 0;
}

/* ---- whose turn -------------------------------------------------------------------------- */

/* Time that a target's sections take per iteration on a GPU; 0: the GPU has none, or takes no part.
 */
static double section_ms(const struct lull_targets *targets, uint32_t index,
                         const struct lull_target *target)
{
    const struct lull_controlled_gpu *gpu = &targets->gpus[index];
    const int32_t target_index = (int32_t)(target - targets->list);
    const struct lull_section *sections;
    double sum_ms = 0.0;
    uint32_t count;

    if (!lull_controller_takes_part(gpu))
        return 0.0;
    sections = lull_track_sections(gpu->track, &count);
    for (uint32_t i = 0; i < count; i++)
        if (gpu->target_of[i] == target_index)
            sum_ms += sections[i].length_ms.mean;
    return sum_ms;
}

/* The GPUs whose sections are clearly longer than the shortest; *others_out: those with others. */
static uint64_t early_gpus(const struct lull_targets *targets, const struct lull_target *target,
                           uint64_t *others_out)
{
    double shortest_ms = 0.0;
    uint64_t early = 0;

    *others_out = 0;
    for (uint32_t i = 0; i < targets->gpu_count; i++) {
        const double ms = section_ms(targets, i, target);

        if (ms > 0.0 && (shortest_ms == 0.0 || ms < shortest_ms))
            shortest_ms = ms;
    }
    for (uint32_t i = 0; i < targets->gpu_count; i++) {
        const double ms = section_ms(targets, i, target);

        if (ms > shortest_ms * longer_ratio)
            early |= refine_bit(i);
        else if (ms > 0.0)
            *others_out |= refine_bit(i);
    }
    return early;
}

/* There is much to save for this GPU below its point. */
static bool is_worth_a_turn(const struct lull_targets *targets, uint32_t gpu,
                            const struct lull_target *target)
{
    const double iteration_ms = lull_track_iteration_ms(targets->gpus[gpu].track)->mean;
    const uint32_t below = target->descent.count - 1 - target->own_point[gpu];

    return below > target->descent.count / TURN_CLOCKS &&
           section_ms(targets, gpu, target) > min_share * iteration_ms;
}

/* The GPU with the longest section among those that wait for their turn; -1: none does. */
static int32_t next_turn(const struct lull_targets *targets, struct lull_target *target)
{
    int32_t best = LULL_CONTROLLER_NO_TURN;
    double longest_ms = 0.0;

    for (uint32_t i = 0; i < targets->gpu_count; i++) {
        const double ms = section_ms(targets, i, target);

        if ((target->turns_left & refine_bit(i)) == 0 || ms <= longest_ms ||
            !is_worth_a_turn(targets, i, target))
            continue;
        longest_ms = ms;
        best = (int32_t)i;
    }
    if (best != LULL_CONTROLLER_NO_TURN)
        target->turns_left &= ~refine_bit((uint32_t)best);
    return best;
}

/* ---- searches ---------------------------------------------------------------------------- */

static bool refine_begin_turn(const struct lull_targets *targets, struct lull_target *target)
{
    const uint32_t count = target->descent.count;

    target->turn = next_turn(targets, target);
    if (target->turn == LULL_CONTROLLER_NO_TURN) {
        target->is_refined = true;
        return false;
    }
    lull_descent_init_below(&target->own, LULL_DESCENT_BISECT, count,
                            target->own_point[target->turn]);
    lull_descent_coarsen(&target->own, count / TURN_CLOCKS);
    return true;
}

static void end_turn(struct lull_target *target)
{
    assert(target->own.good >= target->own_point[target->turn]);
    if (target->own.good > target->own_point[target->turn])
        target->without_effect = 0;
    else
        target->without_effect++;
    target->own_point[target->turn] = target->own.good;
    if (target->without_effect == MAX_WITHOUT_EFFECT)
        target->turns_left = 0;
}

/* The joint search is over: which GPU may go lower, or must be left out? */
static bool begin_refinement(const struct lull_targets *targets, struct lull_target *target)
{
    uint64_t others;
    const uint64_t early = early_gpus(targets, target, &others);

    if (early == 0 || target->descent.good == target->descent.count - 1) {
        target->is_refined = true;
        return false;
    }
    if (target->descent.good == 0 && target->held_up == 0) {
        target->held_up = others;
        lull_descent_init(&target->descent, target->descent.strategy, target->descent.count);
        return true;
    }
    for (uint32_t i = 0; i < targets->gpu_count; i++)
        target->own_point[i] = lull_target_common_point(target, i, target->descent.good);
    target->has_own = true;
    target->turns_left = early;
    target->without_effect = 0;
    return refine_begin_turn(targets, target);
}

void lull_target_take_verdict(struct lull_target *target, enum lull_verdict verdict)
{
    if (target->turn == LULL_CONTROLLER_NO_TURN)
        lull_descent_take(&target->descent, verdict);
    else
        lull_descent_take(&target->own, verdict);
}

static bool refine_may(const struct lull_targets *targets, const struct lull_target *target)
{
    return !target->is_refined && !target->of_gaps && target->signature != 0 &&
           !targets->config->together;
}

bool lull_target_goes_on(const struct lull_targets *targets, struct lull_target *target)
{
    if (target->turn != LULL_CONTROLLER_NO_TURN) {
        if (!lull_descent_done(&target->own))
            return true;
        end_turn(target);
        return refine_begin_turn(targets, target);
    }
    if (!lull_descent_done(&target->descent))
        return true;
    return refine_may(targets, target) && begin_refinement(targets, target);
}

void lull_target_reopen(const struct lull_targets *targets, struct lull_target *target)
{
    uint64_t others;

    assert(target->settled && target->turn == LULL_CONTROLLER_NO_TURN);
    if (!target->has_own) {
        lull_descent_reopen(&target->descent);
        target->settled = lull_descent_done(&target->descent);
        return;
    }
    target->turns_left = early_gpus(targets, target, &others);
    target->without_effect = 0;
    target->settled = !refine_begin_turn(targets, target);
}
