/*
 * All levers together: the ranks that wait cost nothing, so that for each steady clock they are
 * lowered first; gaps come on top of that.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <string.h>

#include "emulator/oracle_play_state.h"

/* A period that is longer by at most this share counts as
 * equally long. Default: rounding is a hundredth of it. */
static const double alike_ratio = 1e-4;
/* All waiting ranks together are tried up to this many steps below the lowest harmless step of each
 * alone. */
enum { BEYOND = 2 };
/* Ranks that wait for no other rank are tried up to this many steps above the best step of each.
 * Chosen: two is best for the recorded pair in docs/research/measurements/joint.md. */
enum { APART_HIGHER = 4 };

/* ---- ranks that wait --------------------------------------------------------------------- */

/* Finds the step below `step` that saves most for this rank alone, and costs no time. */
static int find_rank(struct lull_oracle_play *oracle, uint32_t rank, uint32_t step,
                     const struct lull_oracle_outcome *reference,
                     const struct lull_oracle_outcome *base, uint32_t *below_out,
                     struct lull_error *err)
{
    double best_j = base->energy_j;

    *below_out = 0;
    for (uint32_t below = 1; below <= step; below++) {
        struct lull_oracle_outcome outcome;
        int result;

        oracle->queue.below[rank] = below;
        result =
            lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, step, reference, &outcome, err);
        oracle->queue.below[rank] = 0;
        if (result < 0)
            return result;
        if (outcome.time_s > base->time_s * (1.0 + alike_ratio) || outcome.energy_j >= best_j)
            return 0;
        best_j = outcome.energy_j;
        *below_out = below;
    }
    return 0;
}

static void set_below(struct lull_oracle_play *oracle, const uint32_t below[LULL_PLAY_RANKS],
                      int beyond)
{
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++) {
        const int steps = (int)below[rank] + beyond;

        oracle->queue.below[rank] = below[rank] == 0 || steps < 0 ? 0 : (uint32_t)steps;
    }
}

/*
 * Lowers the ranks that wait below this step, to the clocks that save most within the tolerance.
 * Without a tolerance it lowers them as far as it costs no time. A better outcome replaces that of
 * the step alone.
 */
static int lower_waiting(struct lull_oracle_play *oracle, uint32_t step, double tolerance,
                         const struct lull_oracle_outcome *reference,
                         struct lull_oracle_outcome *best, struct lull_error *err)
{
    const struct lull_oracle_outcome base = *best;
    const double most = tolerance > 0.0 ? tolerance : base.slowdown_ratio + alike_ratio;
    uint32_t below[LULL_PLAY_RANKS] = {0};
    int chosen = -(int)step;
    int result = 0;

    for (uint32_t rank = 0; rank < oracle->play.rank_count && result == 0; rank++)
        result = find_rank(oracle, rank, step, reference, &base, &below[rank], err);
    for (int beyond = BEYOND; beyond > -(int)step && result == 0; beyond--) {
        struct lull_oracle_outcome outcome;

        set_below(oracle, below, beyond);
        result =
            lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, step, reference, &outcome, err);
        if (outcome.slowdown_ratio <= most && outcome.saving_ratio > best->saving_ratio) {
            *best = outcome;
            chosen = beyond;
        } else if (outcome.slowdown_ratio <= most) {
            break; /* higher clocks save less still */
        }
    }
    set_below(oracle, below, chosen);
    return result;
}

static bool may_wait(const struct lull_oracle_play *oracle)
{
    return oracle->play.rank_count > 1 && !oracle->play.is_recorded;
}

static int find_slack(struct lull_oracle_play *oracle, struct lull_oracle_play_answer *answer,
                      struct lull_error *err)
{
    int result = 0;

    answer->slack = answer->reference;
    if (may_wait(oracle))
        result = lower_waiting(oracle, oracle->highest_step, 0.0, &answer->reference,
                               &answer->slack, err);
    memset(oracle->queue.below, 0, sizeof(oracle->queue.below));
    return result;
}

/* ---- ranks that wait for no other -------------------------------------------------------- */

/* Finds the step below the highest clock that saves most for this rank alone, within the tolerance.
 */
static int find_rank_apart(struct lull_oracle_play *oracle, uint32_t rank,
                           const struct lull_oracle_outcome *reference, uint32_t *below_out,
                           struct lull_error *err)
{
    double best_j = reference->energy_j;
    int result = 0;

    *below_out = 0;
    for (uint32_t below = 1; below <= oracle->highest_step && result == 0; below++) {
        struct lull_oracle_outcome outcome;

        oracle->queue.below[rank] = below;
        result = lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, oracle->highest_step,
                                      reference, &outcome, err);
        if (result < 0 || outcome.slowdown_ratio > oracle->question->tolerance_ratio)
            break; /* every lower clock is slower still */
        if (outcome.energy_j < best_j) {
            best_j = outcome.energy_j;
            *below_out = below;
        }
    }
    oracle->queue.below[rank] = 0;
    return result;
}

/* ---- gaps below a steady clock ----------------------------------------------------------- */

static void oracle_joint_store(const struct lull_oracle_play *oracle, uint32_t step,
                               const struct lull_oracle_outcome *outcome,
                               struct lull_oracle_play_answer *answer)
{
    answer->joint = *outcome;
    answer->joint_mhz = lull_gpu_model_step_mhz(&oracle->model, step);
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++)
        answer->joint_rank_mhz[rank] = lull_gpu_model_step_mhz(
            &oracle->model, lull_oracle_queue_step(&oracle->queue, rank, step));
}

/* Lowers gaps below one steady clock; keeps the outcome if it saves more than all before. */
static int try_gaps(struct lull_oracle_play *oracle, uint32_t step,
                    struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    struct lull_oracle_play_answer trial = {.reference = answer->reference};
    int64_t period_ns;
    int result;

    oracle->top_step = step;
    oracle->queue.top_step = step;
    lull_oracle_play_set_leads(oracle, lull_oracle_play_late(oracle));
    result = lull_oracle_play_foresee(oracle, &period_ns, err);
    if (result < 0)
        return result;
    result = lull_oracle_play_find_real(oracle, &trial, err);
    if (result == 0)
        result = lull_oracle_play_find_in_time(oracle, &trial, err);
    if (result == 0 && trial.real.slowdown_ratio <= oracle->question->tolerance_ratio &&
        trial.real.saving_ratio > answer->joint.saving_ratio)
        oracle_joint_store(oracle, step, &trial.real, answer);
    return result;
}

/* Tries one steady clock with all further levers. `most`: the most that gaps may add. */
static int try_base(struct lull_oracle_play *oracle, uint32_t step,
                    const struct lull_oracle_outcome *steady, double most,
                    struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    struct lull_oracle_outcome best = *steady;
    int result = 0;

    memset(oracle->queue.below, 0, sizeof(oracle->queue.below));
    if (may_wait(oracle))
        result = lower_waiting(oracle, step, oracle->question->tolerance_ratio, &answer->reference,
                               &best, err);
    if (result == 0 && best.saving_ratio > answer->joint.saving_ratio)
        oracle_joint_store(oracle, step, &best, answer);
    /* With every rank at the highest clock gaps have been tried already. */
    if (result == 0 && best.saving_ratio + most > answer->joint.saving_ratio &&
        best.energy_j < answer->reference.energy_j)
        result = try_gaps(oracle, step, answer, err);
    return result;
}

/* Each rank at the clock that is best for it alone, and all of them up to some steps higher, so
 * that there is time left for gaps. */
static int try_apart(struct lull_oracle_play *oracle, struct lull_oracle_play_answer *answer,
                     struct lull_error *err)
{
    uint32_t below[LULL_PLAY_RANKS] = {0};
    int result = 0;

    memset(oracle->queue.below, 0, sizeof(oracle->queue.below));
    for (uint32_t rank = 0; rank < oracle->play.rank_count && result == 0; rank++)
        result = find_rank_apart(oracle, rank, &answer->reference, &below[rank], err);
    for (uint32_t higher = 0; higher <= APART_HIGHER && result == 0; higher++) {
        struct lull_oracle_outcome steady;

        for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++)
            oracle->queue.below[rank] = below[rank] > higher ? below[rank] - higher : 0;
        result = lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, oracle->highest_step,
                                      &answer->reference, &steady, err);
        if (result == 0 && steady.saving_ratio > answer->joint.saving_ratio &&
            steady.slowdown_ratio <= oracle->question->tolerance_ratio)
            oracle_joint_store(oracle, oracle->highest_step, &steady, answer);
        if (result == 0)
            result = try_gaps(oracle, oracle->highest_step, answer, err);
    }
    memset(oracle->queue.below, 0, sizeof(oracle->queue.below));
    return result;
}

/*
 * Gaps on top of each steady clock that is within the tolerance, the lowest first. From a lower
 * clock gaps save less than from the highest, because computation and waiting draw less there; so a
 * clock whose own saving is behind the best so far by much more than that is left out. Steady
 * clocks are tried one by one, whatever the stride of those of gaps: each is a seventh of what a
 * tolerance of 1 % buys.
 */
int lull_oracle_play_find_joint(struct lull_oracle_play *oracle,
                                struct lull_oracle_play_answer *answer, struct lull_error *err)
{
    struct lull_oracle_outcome steady[LULL_ORACLE_CLOCKS];
    const double most = 1.5 * answer->real.saving_ratio + 0.002;
    uint32_t count = 0;
    int result = find_slack(oracle, answer, err);

    oracle_joint_store(oracle, oracle->highest_step, &answer->real, answer);
    while (result == 0 && count <= oracle->highest_step && count < LULL_ORACLE_CLOCKS) {
        result = lull_oracle_play_run(oracle, LULL_ORACLE_MODE_STEADY, oracle->highest_step - count,
                                      &answer->reference, &steady[count], err);
        if (steady[count].slowdown_ratio > oracle->question->tolerance_ratio)
            break; /* every lower clock is slower still */
        count++;
    }
    while (result == 0 && count-- > 0)
        result = try_base(oracle, oracle->highest_step - count, &steady[count], most, answer, err);
    if (result == 0 && oracle->play.is_recorded && oracle->play.rank_count > 1)
        result = try_apart(oracle, answer, err);
    return result;
}
