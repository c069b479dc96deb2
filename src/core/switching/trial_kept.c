/* The accepted candidate: the evidence for and against it. SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <string.h>

#include "core/switching/trial_state.h"

/* Pairs of a watch that one verdict covers; verdicts follow each other. */
enum { WATCHED_PAIRS = 14 };
/* A block at the accepted candidate counts as slow if it
 * exceeds the tolerance by so many deviations of a pair. */
static const double watched_deviations = 3.0;
/* If an accepted candidate turns out to be slower, the next proof takes so many
 * times the iterations that revealed it. Chosen with tools/audit-guard: a
 * candidate that slows one in a hundred iterations is then hardly ever accepted
 * twice. */
enum { PROOF_FACTOR = 2 };
/* A check, or a watch that no check can follow, refuses the accepted candidate if all its
 * iterations together are slower by this many standard errors and by more than the tolerance. */
static const double pooled_errors = 2.0;

void lull_trial_demand(struct lull_trial *trial, uint64_t iterations)
{
    const uint32_t least = iterations < LULL_TRIAL_MIN_MEASURED_MAX ? (uint32_t)iterations
                                                                    : LULL_TRIAL_MIN_MEASURED_MAX;

    if (least > trial->min_proof)
        trial->min_proof = least;
}

void lull_trial_learn_from_harm(struct lull_trial *trial, uint32_t rank)
{
    uint32_t iterations = trial->min_measured;

    if (trial->kind != LULL_TRIAL_CHECK)
        return;
    if (trial->ranks[rank].measured > iterations)
        iterations = trial->ranks[rank].measured;
    lull_trial_demand(trial, (uint64_t)PROOF_FACTOR * iterations);
}

void lull_trial_keep(struct lull_trial *trial)
{
    assert(trial->kind == LULL_TRIAL_PROOF || trial->kind == LULL_TRIAL_CHECK);
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        struct lull_guard *kept = &trial->ranks[i].kept;
        const struct lull_guard *proven = &trial->guard.ranks[i].guard;

        kept->config = proven->config;
        lull_moments_merge(&kept->differences, &proven->differences);
        lull_moments_merge(&kept->level, &proven->level);
        trial->ranks[i].kept_before = *kept;
        trial->ranks[i].watched = (struct lull_guard){0};
    }
}

void lull_trial_drop_kept(struct lull_trial *trial)
{
    trial->stretch = trial->config.first_stretch;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        trial->ranks[i].kept = (struct lull_guard){0};
        trial->ranks[i].kept_before = (struct lull_guard){0};
        trial->ranks[i].watched = (struct lull_guard){0};
    }
}

void lull_trial_forget_last_pair(struct lull_trial *trial)
{
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        trial->ranks[i].kept = trial->ranks[i].kept_before;
        trial->ranks[i].watched = (struct lull_guard){0};
    }
}

void lull_trial_lengthen(struct lull_trial *trial)
{
    if (trial->stretch < trial->config.most_stretch)
        trial->stretch *= 2;
}

void lull_trial_estimate(const struct lull_trial *trial, struct lull_guard_estimate *estimate_out)
{
    const struct lull_guard *worst = &trial->ranks[0].kept;

    for (uint32_t i = 1; i < trial->config.rank_count; i++) {
        const struct lull_guard *kept = &trial->ranks[i].kept;

        if (kept->differences.count > 0 &&
            (worst->differences.count == 0 || kept->differences.mean > worst->differences.mean))
            worst = kept;
    }
    lull_guard_estimate(worst, estimate_out);
}

double lull_trial_rarest_excluded(const struct lull_trial *trial)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        if (trial->ranks[i].kept.differences.count > 0 && trial->ranks[i].kept_iterations < least)
            least = trial->ranks[i].kept_iterations;
    if (least == UINT64_MAX || least == 0)
        return 1.0;
    /* An event of probability p per iteration is absent from n iterations with probability (1 -
     * p)^n. */
    return 1.0 - pow(1.0 - trial->config.confidence, 1.0 / (double)least);
}

/* Adds a watched pair. After each verdict the next pairs begin a new test. */
static bool watched_verdict_hurts(struct lull_trial_rank *rank, double reference_ms,
                                  double candidate_ms)
{
    struct lull_guard *guard = &rank->watched;
    enum lull_verdict verdict;

    if (guard->differences.count == 0) {
        guard->config = rank->kept.config;
        guard->config.max_pairs = WATCHED_PAIRS;
    }
    lull_guard_add(guard, reference_ms, candidate_ms);
    verdict = lull_guard_verdict(guard);
    if (verdict != LULL_VERDICT_UNDECIDED)
        *guard = (struct lull_guard){0};
    return verdict == LULL_VERDICT_DEGRADED;
}

static bool kept_hurts(const struct lull_trial *trial, const struct lull_trial_rank *rank)
{
    struct lull_guard_estimate estimate;

    lull_guard_estimate(&rank->kept, &estimate);
    return estimate.lower_ratio > trial->terms.tolerance_ratio;
}

/* Relative deviation of a pair at the accepted candidate; until
 * that is known, the deviation of its iterations. */
static double deviation_of(const struct lull_trial_rank *rank)
{
    const struct lull_recent_level *level = &rank->losses.reference;

    if (rank->kept.differences.count > 2)
        return sqrt(lull_moments_variance(&rank->kept.differences));
    return sqrt(level->variance) / level->mean_ms;
}

static bool is_slow(const struct lull_trial *trial, const struct lull_trial_rank *rank,
                    double reference_ms, double candidate_ms)
{
    return candidate_ms / reference_ms - 1.0 >
           trial->terms.tolerance_ratio + watched_deviations * deviation_of(rank);
}

bool lull_trial_watch_pair(struct lull_trial *trial, struct lull_trial_rank *rank,
                           double reference_ms, double candidate_ms)
{
    bool hurts;

    rank->is_slow = is_slow(trial, rank, reference_ms, candidate_ms);
    if (rank->kept.config.max_pairs == 0)
        rank->kept.config = trial->guard.ranks[0].guard.config;
    rank->kept_before = rank->kept;
    lull_guard_add(&rank->kept, reference_ms, candidate_ms);
    hurts = watched_verdict_hurts(rank, reference_ms, candidate_ms);
    return hurts || kept_hurts(trial, rank);
}

bool lull_trial_is_slow_block(const struct lull_trial *trial, struct lull_trial_rank *rank,
                              double iteration_ms)
{
    const struct lull_moments *block = &rank->block_ms;
    double mean_ms;

    rank->block_max_ms = block->count == 0 ? iteration_ms : fmax(rank->block_max_ms, iteration_ms);
    lull_moments_add(&rank->block_ms, iteration_ms);
    if (block->count < LULL_TRIAL_WATCHED_BLOCK)
        return false;
    mean_ms = (block->mean * LULL_TRIAL_WATCHED_BLOCK - rank->block_max_ms) /
              (LULL_TRIAL_WATCHED_BLOCK - 1);
    rank->block_ms = (struct lull_moments){0};
    return is_slow(trial, rank, rank->losses.reference.mean_ms, mean_ms);
}

bool lull_trial_pooled_hurts(struct lull_trial *trial, uint64_t present)
{
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_loss_budget *losses = &trial->ranks[i].losses;
        double error;
        const double slowdown = lull_loss_budget_slowdown(losses, &error);

        if (!lull_trial_takes_part(present, i) || slowdown <= trial->terms.tolerance_ratio ||
            slowdown <= pooled_errors * error)
            continue;
        lull_trial_learn_from_harm(trial, i);
        return true;
    }
    return false;
}

enum lull_trial_result lull_trial_find_watched(struct lull_trial *trial, uint64_t present)
{
    if (trial->config.is_aligned && lull_trial_pooled_hurts(trial, present))
        return LULL_TRIAL_HURTS;
    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        if (lull_trial_takes_part(present, i) && trial->ranks[i].is_slow)
            return LULL_TRIAL_SLOW_PAIR;
    return LULL_TRIAL_HOLDS;
}
