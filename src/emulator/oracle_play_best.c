/*
 * The gaps are found once, in a period at the highest clock. Runs then differ only in the clock of
 * each gap. One run measures a clock for all gaps at once, which is possible because what a gap
 * costs hardly depends on the clocks of the other gaps; the runs with the chosen clocks show what
 * is left of it.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include "emulator/oracle_play.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "emulator/oracle_play_state.h"

enum { TIGHTENINGS = 6 };

/*
 * The share of the permitted lateness that lowerings use up by beginning before their gap; the
 * raisings get the rest. Chosen so that both together keep the permitted share, not measured.
 */
static const double early_ratio = 0.125;

/* The times of a run differ from those foreseen by rounding; this much covers it. */
#define MARGIN_NS (20 * LULL_NS_PER_US)

/* A real driver needs time for the raising, so a gap that is shorter cannot be lowered. */
static bool may_be_lowered(const struct lull_oracle_play *oracle, enum lull_oracle_mode mode,
                           uint32_t gap)
{
    return mode != LULL_ORACLE_MODE_REAL || oracle->gaps[gap].length_ns > oracle->raise_lead_ns;
}

static bool may_any_be_lowered(const struct lull_oracle_play *oracle, enum lull_oracle_mode mode)
{
    for (uint32_t gap = 0; gap < oracle->gap_count; gap++)
        if (may_be_lowered(oracle, mode, gap))
            return true;
    return false;
}

/* Chooses for each gap the step that takes least energy among those within the tolerance. */
static void oracle_play_choose(struct lull_oracle_play *oracle, enum lull_oracle_mode mode,
                               const struct lull_oracle_tally *table, double tolerance)
{
    const uint32_t stride = oracle->question->stride;

    for (uint32_t gap = 0; gap < oracle->gap_count; gap++) {
        const struct lull_oracle_tally *top = &table[gap];
        double best_j = top->energy_j;

        oracle->steps[gap] = oracle->top_step;
        if (!may_be_lowered(oracle, mode, gap))
            continue;
        for (uint32_t row = 1; row * stride <= oracle->top_step; row++) {
            const struct lull_oracle_tally *tally = &table[row * oracle->gap_count + gap];

            if (tally->time_s > top->time_s * (1.0 + tolerance) || tally->energy_j >= best_j)
                continue;
            best_j = tally->energy_j;
            oracle->steps[gap] = oracle->top_step - row * stride;
        }
    }
}

/* Fills the table: row r holds what every gap takes r strides below the highest clock. */
static int oracle_play_sweep(struct lull_oracle_play *oracle, enum lull_oracle_mode mode,
                             const struct lull_oracle_outcome *reference,
                             struct lull_oracle_tally *table, struct lull_error *err)
{
    const uint32_t stride = oracle->question->stride;
    struct lull_oracle_outcome ignored;

    for (uint32_t row = 0; row * stride <= oracle->top_step; row++) {
        int result;

        for (uint32_t i = 0; i < oracle->gap_count; i++)
            oracle->steps[i] =
                oracle->top_step - (may_be_lowered(oracle, mode, i) ? row * stride : 0);
        result = lull_oracle_play_run(oracle, mode, 0, reference, &ignored, err);
        if (result < 0)
            return result;
        memcpy(&table[(size_t)row * oracle->gap_count], oracle->tallies,
               oracle->gap_count * sizeof(table[0]));
    }
    return 0;
}

/* Ranks of a recorded play wait for no other rank, so their relative start is unknown. They begin
 * either all at once, or evenly over a period. */
static void spread_ranks(struct lull_oracle_play *oracle, bool is_even)
{
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++)
        oracle->starts_ns[rank] = is_even ? oracle->period_ns * rank / oracle->play.rank_count : 0;
}

/* Number of variants that try_steps() has to compare: the least gain only matters if GPUs share a
 * driver, and the times at which ranks begin vary only for recorded plays. */
static uint32_t count_tries(const struct lull_oracle_play *oracle, enum lull_oracle_mode mode)
{
    if (mode != LULL_ORACLE_MODE_REAL || oracle->play.rank_count < 2)
        return 1;
    if (oracle->play.is_recorded)
        return 4;
    return 2;
}

/*
 * Runs with the chosen clocks and keeps the best of several variants. If GPUs share a driver, a
 * lowering that gains little time delays the calls of others, so requiring a gain of one call's
 * length is tried beside requiring none; so are the two ways in which ranks may begin.
 */
static int try_steps(struct lull_oracle_play *oracle, enum lull_oracle_mode mode,
                     const struct lull_oracle_outcome *reference,
                     struct lull_oracle_outcome *best_out, struct lull_error *err)
{
    const double wanted = oracle->question->tolerance_ratio;
    const uint32_t tries = count_tries(oracle, mode);

    for (uint32_t i = 0; i < tries; i++) {
        struct lull_oracle_outcome outcome;
        int result;

        oracle->queue.min_gain_ns = i % 2 * oracle->queue.call_ns;
        spread_ranks(oracle, i / 2 == 1);
        result = lull_oracle_play_run(oracle, mode, 0, reference, &outcome, err);
        if (result < 0)
            return result;
        if (i == 0 ||
            (outcome.slowdown_ratio <= wanted &&
             (best_out->slowdown_ratio > wanted || outcome.saving_ratio > best_out->saving_ratio)))
            *best_out = outcome;
    }
    oracle->queue.min_gain_ns = 0;
    spread_ranks(oracle, false);
    return 0;
}

/*
 * Finds the best clocks of all gaps and runs with them. Gaps that are each within the tolerance may
 * exceed it together, so the tolerance per gap is halved until the whole play is within it. Clocks
 * are swept as if each GPU had a driver of its own, because the gaps are chosen one by one; the run
 * that counts uses the one driver of the node.
 */
static int oracle_play_find_best(struct lull_oracle_play *oracle, enum lull_oracle_mode mode,
                                 const struct lull_oracle_outcome *reference,
                                 struct lull_oracle_outcome *best_out, uint32_t *lowered_out,
                                 struct lull_error *err)
{
    const uint32_t rows = oracle->top_step / oracle->question->stride + 1;
    const double wanted = oracle->question->tolerance_ratio;
    struct lull_oracle_tally *table =
        calloc((size_t)rows * oracle->gap_count + 1, sizeof(table[0]));
    double tolerance = wanted;
    int result = 0;

    if (table == NULL)
        return lull_error_set(err, -ENOMEM, "oracle: no memory for a table of %u clocks", rows);
    if (may_any_be_lowered(oracle, mode)) { /* else the table would decide nothing */
        oracle->queue.is_shared = false;
        result = oracle_play_sweep(oracle, mode, reference, table, err);
        oracle->queue.is_shared = true;
    }
    if (result < 0)
        goto free_table;
    for (int i = 0; i <= TIGHTENINGS; i++, tolerance /= 2) {
        /* A tolerance of -1 lowers no gap, which is always within what was requested. */
        oracle_play_choose(oracle, mode, table, i < TIGHTENINGS ? tolerance : -1);
        result = try_steps(oracle, mode, reference, best_out, err);
        if (result < 0 || best_out->slowdown_ratio <= wanted)
            break;
    }
    *lowered_out = 0;
    for (uint32_t i = 0; i < oracle->gap_count; i++)
        *lowered_out += oracle->steps[i] != oracle->top_step;

free_table:
    free(table);
    return result;
}

int lull_oracle_play_find_steady(struct lull_oracle_play *oracle,
                                 struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    const uint32_t stride = oracle->question->stride;

    answer->steady = answer->reference;
    answer->steady_mhz = oracle->model.sm_max_mhz;
    for (uint32_t below = stride; below <= oracle->highest_step; below += stride) {
        struct lull_oracle_outcome outcome;
        const int result =
            lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, oracle->highest_step - below,
                                 &answer->reference, &outcome, err);

        if (result < 0)
            return result;
        if (outcome.slowdown_ratio > oracle->question->tolerance_ratio)
            break; /* every lower clock is slower still */
        if (outcome.saving_ratio > answer->steady.saving_ratio) {
            answer->steady = outcome;
            answer->steady_mhz =
                lull_gpu_model_step_mhz(&oracle->model, oracle->highest_step - below);
        }
    }
    return 0;
}

double lull_oracle_play_late(const struct lull_oracle_play *oracle)
{
    if (oracle->question->late_ratio > 0)
        return oracle->question->late_ratio;
    return 0.05;
}

void lull_oracle_play_set_leads(struct lull_oracle_play *oracle, double late)
{
    oracle->lower_lead_ns =
        lull_oracle_latency_ns(&oracle->model, 1, 0, fmin(0.01, early_ratio * late));
    oracle->lower_lead_ns -= oracle->lower_lead_ns > 2 * MARGIN_NS ? MARGIN_NS : 0;
    late *= 1.0 - early_ratio;
    oracle->raise_lead_ns = lull_oracle_latency_ns(&oracle->model, 1, oracle->top_step, 1.0 - late);
    oracle->raise_lead_ns += MARGIN_NS;
}

int lull_oracle_play_find_ideal(struct lull_oracle_play *oracle,
                                struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    return oracle_play_find_best(oracle, LULL_ORACLE_MODE_IDEAL, &answer->reference, &answer->ideal,
                                 &answer->ideal_lowered, err);
}

int lull_oracle_play_find_real(struct lull_oracle_play *oracle,
                               struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    return oracle_play_find_best(oracle, LULL_ORACLE_MODE_REAL, &answer->reference, &answer->real,
                                 &answer->real_lowered, err);
}

int lull_oracle_play_find_in_time(struct lull_oracle_play *oracle,
                                  struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    const int64_t raise_lead_ns = oracle->raise_lead_ns;
    const int64_t lower_lead_ns = oracle->lower_lead_ns;
    double iterations = 0.0;

    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++)
        iterations += oracle->play.ranks[rank].steps;
    if (oracle->question->late_iterations_ratio <= 0 || answer->real_lowered == 0 ||
        iterations == 0.0)
        return 0;
    lull_oracle_play_set_leads(oracle, oracle->question->late_iterations_ratio * iterations /
                                           answer->real_lowered);
    if (oracle->raise_lead_ns == raise_lead_ns && oracle->lower_lead_ns == lower_lead_ns)
        return 0;
    return lull_oracle_play_find_real(oracle, answer, err);
}
