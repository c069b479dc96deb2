/* Properties of the job that a trial learns: rhythms, and what carries over.
 * SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "base/minmax.h"
#include "core/switching/trial_state.h"

/* A carry-over from the candidate to the reference of this share of the
 * tolerance lengthens the unmeasured time after a change, up to so many
 * iterations. */
static const double carry_share = 0.25;
enum { WASHOUT_MAX = 31 };
/* Chance to see a carry-over at one look where there is none. Default: the first costs longer
 * blocks or more pairs only. With the second a proof is given up. */
static const double false_alarm = 0.05;
static const double false_refusal = 0.01;

/* Records the rank's block at the reference, which a coin has placed after the candidate's block or
 * before it. */
void lull_trial_add_to_carry(const struct lull_trial *trial, struct lull_trial_rank *rank)
{
    const uint32_t unmeasured = trial->schedule.washout + 1;
    const bool is_exposed = rank->reference_since == unmeasured;

    if (!is_exposed && rank->reference_since < unmeasured + trial->schedule.block_iterations)
        return;
    if (rank->reference_level_ms > 0.0)
        lull_carry_over_add(
            &rank->carry, is_exposed,
            (rank->sides[0].sum_ms / rank->sides[0].count) / rank->reference_level_ms - 1.0);
}

/* Nodes that keep in step without messages cannot change the schedule individually. */
bool lull_trial_follows_job(const struct lull_trial *trial)
{
    return trial->kind != LULL_TRIAL_WATCH && !trial->config.is_aligned;
}

static double find_carry(const struct lull_trial *trial, const struct lull_trial_rank *rank,
                         double error)
{
    return lull_carry_over_find(&rank->carry, carry_share * trial->terms.tolerance_ratio, error);
}

bool lull_trial_lacks_carry_test(const struct lull_trial *trial, const struct lull_trial_rank *rank)
{
    return trial->kind != LULL_TRIAL_SCREEN && lull_trial_follows_job(trial) &&
           (!lull_carry_over_is_tested(&rank->carry) || find_carry(trial, rank, false_alarm) > 0.0);
}

/* Returns whether a rank's rhythm is known now that was not known when the trial began. */
bool lull_trial_has_new_rhythm(const struct lull_trial *trial)
{
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_trial_rank *rank = &trial->ranks[i];
        const uint32_t period = lull_rhythm_find(&rank->memory).period;

        if (period != 0 && period != rank->rhythm.period)
            return true;
    }
    return false;
}

/* Longer blocks are needed: what has been seen of the pairs so far is too little by the carry-over,
 * on any rank. */
enum lull_trial_carry lull_trial_find_carry(struct lull_trial *trial, bool may_lengthen)
{
    const bool lengthens = may_lengthen && trial->washout < WASHOUT_MAX;
    double most = 0.0;

    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        most = fmax(most,
                    find_carry(trial, &trial->ranks[i], lengthens ? false_alarm : false_refusal));
    if (most <= 0.0)
        return LULL_TRIAL_CARRY_NONE;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        lull_whole_bound_charge_carry(&trial->ranks[i].whole, most);
        trial->ranks[i].carry = (struct lull_carry_over){0};
    }
    if (!lengthens)
        return LULL_TRIAL_CARRY_HIDES;
    trial->washout = 2 * trial->washout + 1;
    return LULL_TRIAL_CARRY_FOUND;
}

/* Iterations at the reference until a rhythm that makes them uneven would have been found. */
uint64_t lull_trial_rhythm_wait(const struct lull_trial *trial)
{
    uint32_t longest = 0;

    if (trial->config.is_aligned)
        return 0;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_trial_rank *rank = &trial->ranks[i];

        if (rank->rhythm.period == 0 && rank->memory.count > 0 &&
            rank->memory.count < UINT64_C(2) * LULL_RHYTHM_MAX &&
            lull_rhythm_unevenness(&rank->memory) > trial->terms.tolerance_ratio)
            longest = lull_max_u32(longest, 2 * LULL_RHYTHM_MAX - (uint32_t)rank->memory.count);
    }
    return longest;
}

double lull_trial_unevenness(const struct lull_trial *trial, uint32_t rank)
{
    const struct lull_trial_rank *state = &trial->ranks[rank];

    assert(rank < trial->config.rank_count);
    if (state->memory.count < UINT64_C(2) * LULL_RHYTHM_MAX || state->rhythm.period != 0 ||
        lull_rhythm_find(&state->memory).period != 0)
        return 0.0;
    return fmax(lull_rhythm_unevenness(&state->memory), 0.0);
}
