/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "base/minmax.h"
#include "core/switching/trial_state.h"

/* Share of the wanted changes of clocks that must be made for a pair of a screen or watch to count.
 * After so many pairs that fall short of it the next one counts all the same. A proof or check is
 * given up after as many pairs if fewer of all its changes were made. Measured on a recorded job in
 * virtual time (bench/bench_latency.py): with the rule gaps save 93 to 99 % of what is possible,
 * before 73 to 100 %. */
static const double min_tried = 0.25;
enum { MAX_UNTRIED = 14 };
/* Pairs of a screen that fall short before its owner is informed. */
enum { UNTRIED_IN_SCREEN = 3 };
/* A proof or check that lacks a larger share of its changes and comes to nothing is given up: a
 * higher clock would not be proven either. */
static const double most_untried = 0.25;
/* A rank that is behind another one by more pairs is not waited for: a rank that waits for the
 * others in every iteration is in the same iteration or the next, hence in the same pair or the
 * next. */
enum { AHEAD_MAX = 2 };
/* Pairs until a proof or check ends in any case. Default: with so many a job whose
 * pairs deviate by twice the tolerance is still decided. */
enum { MAX_PAIRS = 60 };
/* Pairs that any trial may have. Default: with fewer a proof could hardly pass. */
enum { MIN_PAIRS = 12 };
/* The chance that a harmless candidate is refused by the guard's lower bound. Default: a refusal
 * costs only savings. */
static const double refusal_error = 0.05;
/* Iterations at the candidate, the slowest left out, that refuse it at once if they exceed the
 * reference by so many of its deviations, and by so many times what is tolerated. Default: noise
 * does not reach this by chance, and a smaller slowdown costs little until there are pairs. With a
 * factor of one a preset job lost a point that slows it down by 0.7 of the tolerance, because its
 * deviation was known from only four quiet iterations. */
enum { EARLY_ITERATIONS = 2 };
static const double early_deviations = 6.0;
static const double early_tolerances = 2.0;
/* The reference's deviation is trusted from so many iterations on. */
static const double min_level = 4.0;
/* The blocks of a check follow the length of the run in which harm has shown, up to this one. */
enum { MIN_CHECK_BLOCK_MAX = 64 };
/* A reference block that is off the level by so many standard errors shows that the job has
 * changed. */
static const double changed_errors = 4.0;
/* The most restarts of trials in a run. Default: an
 * intermittent rhythm must not keep trials from ending. */
enum { MAX_RESTARTS = 16 };
/* A level is used for comparisons once it has so many iterations. */
static const double min_compared = 4.0;

void lull_trial_init(struct lull_trial *trial, const struct lull_trial_config *config,
                     struct lull_trial_rank *ranks)
{
    assert(config->rank_count >= 1 && config->rank_count <= LULL_JOINT_GUARD_MAX_RANKS);
    assert(config->first_stretch >= 1 && ranks != NULL);
    *trial = (struct lull_trial){
        .config = *config,
        .ranks = ranks,
        .stretch = config->first_stretch,
        .cut = {.from = UINT64_MAX},
    };
    for (uint32_t i = 0; i < config->rank_count; i++)
        lull_whole_bound_init(&ranks[i].whole, (1.0 - config->confidence) / config->rank_count);
}

/* ---- beginning --------------------------------------------------------------------------- */

/* Returns whether the proof or check that runs could have passed by now, with the pairs of any
 * rank.
 */
static bool has_spent_error(const struct lull_trial *trial)
{
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        struct lull_guard_estimate estimate;

        lull_guard_estimate(&trial->guard.ranks[i].guard, &estimate);
        if (isfinite(estimate.upper_ratio))
            return true;
    }
    return false;
}

/* A proof that ends too early to have passed returns its share of the error budget. */
static void end_proof(struct lull_trial *trial)
{
    const bool is_proof = trial->kind == LULL_TRIAL_PROOF || trial->kind == LULL_TRIAL_CHECK;

    if (is_proof && trial->proofs > 0 && !has_spent_error(trial))
        trial->proofs--;
}

/* The share of the error budget that the next proof may spend: see trial.h. */
static double next_error(struct lull_trial *trial)
{
    const double k = (double)++trial->proofs;

    return (1.0 - trial->config.confidence) * 2.0 / ((k + 1.0) * (k + 2.0));
}

static void init_guards(struct lull_trial *trial, uint64_t present)
{
    const bool is_screen = trial->kind == LULL_TRIAL_SCREEN;
    struct lull_guard_config guard = {
        .tolerance_ratio = trial->terms.tolerance_ratio,
        .worth_ratio = trial->terms.worth_ratio,
        .error = 1.0 - trial->config.confidence,
        .refusal_error = refusal_error,
        .max_pairs = MAX_PAIRS + trial->min_measured / trial->schedule.block_iterations,
    };

    if (trial->terms.max_iterations > 0)
        guard.max_pairs =
            lull_min_u32(guard.max_pairs, lull_max_u32(trial->terms.max_iterations /
                                                           trial->schedule.block_iterations,
                                                       MIN_PAIRS));
    if (!is_screen && trial->kind != LULL_TRIAL_WATCH)
        guard.error = next_error(trial);
    lull_joint_guard_init(&trial->guard, &guard, trial->config.rank_count, is_screen);
    if (trial->config.tail_tolerance_ratio > 0.0)
        guard.tolerance_ratio = trial->config.tail_tolerance_ratio;
    guard.worth_ratio = 0.0;
    lull_joint_guard_init(&trial->tail_guard, &guard, trial->config.rank_count, is_screen);
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        if (lull_trial_takes_part(present, i))
            continue;
        lull_joint_guard_leave(&trial->guard, i);
        lull_joint_guard_leave(&trial->tail_guard, i);
    }
}

/* The iterations at the candidate that a check needs to outweigh the evidence that started it. */
static uint32_t find_least_measured(const struct lull_trial *trial)
{
    uint64_t most = (uint64_t)2 * LULL_TRIAL_WATCHED_BLOCK;

    if (trial->kind == LULL_TRIAL_PROOF)
        return lull_max_u32(trial->min_proof, trial->terms.min_iterations);
    if (trial->kind != LULL_TRIAL_CHECK)
        return 0;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_loss_budget *losses = &trial->ranks[i].losses;
        double error;
        const bool looks_slow =
            lull_loss_budget_slowdown(losses, &error) > trial->terms.tolerance_ratio;

        if ((looks_slow || lull_trial_is_spent(trial, i)) && losses->excess_ms.count > most)
            most = losses->excess_ms.count;
    }
    return most < LULL_TRIAL_MIN_MEASURED_MAX ? (uint32_t)most : LULL_TRIAL_MIN_MEASURED_MAX;
}

static void trial_begin_pair(struct lull_trial *trial)
{
    memset(trial->is_disturbed, 0, sizeof(trial->is_disturbed));
    trial->wanted_changes = 0;
    trial->made_changes = 0;
}

void lull_trial_begin(struct lull_trial *trial, enum lull_trial_kind kind,
                      const struct lull_trial_terms *terms, uint32_t block_iterations,
                      uint64_t present)
{
    assert(block_iterations >= 1 && trial->stretch >= 1);
    end_proof(trial);
    trial->kind = kind;
    trial->terms = *terms;
    trial->schedule =
        (struct lull_pair_schedule){block_iterations, 1, trial->config.seed, trial->washout};
    if (!trial->config.is_aligned)
        trial->schedule.seed += ++trial->begun << 32;
    if (kind == LULL_TRIAL_WATCH)
        trial->schedule.candidate_blocks = trial->stretch;
    trial->min_measured = find_least_measured(trial);
    trial->first_pair = 0;
    trial->next_pair = 0;
    trial->joined_pair = 0;
    trial->cut.from = UINT64_MAX;
    trial_begin_pair(trial);
    trial->wanted_before = 0;
    trial->made_before = 0;
    trial->untried_pairs = 0;
    init_guards(trial, present);
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        struct lull_trial_rank *rank = &trial->ranks[i];

        if (terms->loss_ratio > 0.0)
            rank->losses.rate = terms->loss_ratio;
        rank->pair = 0;
        rank->done = 0;
        rank->cut.from = UINT64_MAX;
        rank->measured = 0;
        rank->excess_ms = (struct lull_moments){0};
        rank->block_ms = (struct lull_moments){0};
        rank->slowest_ms = -INFINITY;
        memset(rank->sides, 0, sizeof(rank->sides));
        rank->begun = (struct lull_trial_side){0};
        lull_whole_bound_break(&rank->whole);
        rank->rhythm = lull_rhythm_find(&rank->memory);
        if (kind == LULL_TRIAL_WATCH &&
            rank->kept.differences.count > rank->whole.point.differences.count)
            lull_whole_bound_change_point(&rank->whole, &rank->kept);
    }
}

void lull_trial_change_point(struct lull_trial *trial)
{
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        lull_loss_budget_change_point(&trial->ranks[i].losses);
        lull_whole_bound_change_point(&trial->ranks[i].whole, NULL);
        trial->ranks[i].kept_iterations = 0;
    }
}

void lull_trial_forget_level(struct lull_trial *trial, uint32_t rank)
{
    assert(rank < trial->config.rank_count);
    lull_loss_budget_change_point(&trial->ranks[rank].losses);
    trial->ranks[rank].losses.reference = (struct lull_recent_level){0};
    trial->ranks[rank].losses.last_ratio = 0.0;
    trial->ranks[rank].lowered = 0;
    lull_whole_bound_forget_level(&trial->ranks[rank].whole);
    trial->ranks[rank].memory.count = 0;
    trial->ranks[rank].rhythm.period = 0;
}

void lull_trial_place(struct lull_trial *trial, uint32_t rank, uint64_t base)
{
    assert(rank < trial->config.rank_count);
    trial->ranks[rank].base = base;
    if (trial->kind != LULL_TRIAL_WATCH)
        trial->ranks[rank].base +=
            lull_trial_wait_iterations(trial, rank) + lull_trial_rhythm_wait(trial);
}

void lull_trial_join(struct lull_trial *trial, uint64_t iterations)
{
    trial->joined_pair = lull_pair_slot(&trial->schedule, iterations).pair + 1;
    trial->next_pair = trial->joined_pair;
    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        trial->ranks[i].done = trial->next_pair;
}

static bool is_cut(const struct lull_trial_cut *cut, const struct lull_pair_slot *slot)
{
    return slot->pair == cut->pair && slot->offset >= cut->from;
}

bool lull_trial_slot(const struct lull_trial *trial, uint32_t rank, uint64_t iteration,
                     struct lull_pair_slot *slot_out)
{
    assert(rank < trial->config.rank_count);
    if (iteration < trial->ranks[rank].base)
        return false;
    *slot_out = lull_pair_slot(&trial->schedule, iteration - trial->ranks[rank].base);
    slot_out->pair += trial->first_pair;
    if ((trial->kind != LULL_TRIAL_WATCH && slot_out->pair < trial->joined_pair) ||
        (slot_out->candidate &&
         (is_cut(&trial->cut, slot_out) || is_cut(&trial->ranks[rank].cut, slot_out)))) {
        slot_out->candidate = false;
        slot_out->measured = false;
    }
    return true;
}

void lull_trial_disturb(struct lull_trial *trial, const struct lull_pair_slot *slot)
{
    trial->is_disturbed[slot != NULL && slot->candidate] = true;
}

void lull_trial_want_change(struct lull_trial *trial)
{
    trial->wanted_changes++;
}

void lull_trial_make_change(struct lull_trial *trial)
{
    trial->made_changes++;
}

/* ---- estimates so far --------------------------------------------------------------------- */

void lull_trial_estimate_test(const struct lull_trial *trial,
                              struct lull_guard_estimate *estimate_out)
{
    const uint32_t worst = lull_joint_guard_worst(&trial->guard);
    double error;

    lull_guard_estimate(&trial->guard.ranks[worst].guard, estimate_out);
    if (estimate_out->pairs > 0)
        return;
    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        estimate_out->slowdown_ratio =
            fmax(estimate_out->slowdown_ratio,
                 lull_loss_budget_slowdown(&trial->ranks[i].losses, &error));
}

struct lull_whole_slowdown lull_trial_whole(const struct lull_trial *trial)
{
    struct lull_whole_slowdown worst = {NAN, INFINITY};

    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_whole_slowdown own = lull_whole_bound_find(&trial->ranks[i].whole);

        if (isnan(worst.ratio) || own.ratio > worst.ratio)
            worst = own;
    }
    return worst;
}

struct lull_loss_left lull_trial_loss_left(const struct lull_trial *trial)
{
    struct lull_loss_left least = {NAN, NAN};

    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_loss_budget *losses = &trial->ranks[i].losses;
        const double left_ms = lull_loss_budget_left_ms(losses, 0.0);

        if (losses->earned_ms > 0.0 && !(left_ms >= least.left_ms))
            least = (struct lull_loss_left){.earned_ms = losses->earned_ms, .left_ms = left_ms};
    }
    return least;
}

uint32_t lull_trial_min_check_block(const struct lull_trial *trial)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < trial->config.rank_count; i++)
        if (trial->ranks[i].run > longest)
            longest = trial->ranks[i].run;
    return 2 * longest <= MIN_CHECK_BLOCK_MAX ? 2 * longest : 0;
}

static double trial_mean_of(const struct lull_trial_side *side)
{
    return side->sum_ms / side->count;
}

/* ---- pairs ------------------------------------------------------------------------------- */

static bool trial_proves(const struct lull_trial *trial)
{
    return trial->kind == LULL_TRIAL_PROOF || trial->kind == LULL_TRIAL_CHECK;
}

/* The candidate may be the cause of a disturbance of its own block, so a proof or check counts the
 * pair. */
static bool has_disturbance(const struct lull_trial *trial)
{
    return trial->is_disturbed[0] || (trial->is_disturbed[1] && !trial_proves(trial));
}

/* A disturbance that never ends must not keep the trial from ending. */
static bool is_set_aside(const struct lull_trial *trial)
{
    return has_disturbance(trial) && trial->set_aside < trial->config.most_set_aside;
}

/* Clocks stay high when the allowance or the driver's time is used up, or while
 * latencies are hardly known. A pair without its clock changes steers nothing. */
static bool is_untried(const struct lull_trial *trial)
{
    return !trial_proves(trial) && trial->untried_pairs < MAX_UNTRIED &&
           trial->made_changes < min_tried * trial->wanted_changes;
}

/* Share of the changes of a proof or check that were not made, in the pairs that count. */
static double untried_ratio(const struct lull_trial *trial)
{
    const uint64_t wanted = trial->wanted_before + trial->wanted_changes;
    const uint64_t made = trial->made_before + trial->made_changes;

    return trial_proves(trial) && made < wanted ? 1.0 - (double)made / (double)wanted : 0.0;
}

/* Nothing that this proof or check finds could say how harmless its candidate is. */
static bool proof_is_void(const struct lull_trial *trial)
{
    return trial_proves(trial) && ((has_disturbance(trial) && !is_set_aside(trial)) ||
                                   (trial->next_pair - trial->joined_pair >= MAX_UNTRIED &&
                                    untried_ratio(trial) > 1.0 - min_tried));
}

/* The verdict so far: degraded if either guard says so; not degraded only if both do. */
static enum lull_trial_result trial_read_guards(const struct lull_trial *trial)
{
    const enum lull_verdict mean = lull_joint_guard_verdict(&trial->guard);
    enum lull_verdict tail = mean;

    if (trial->config.tail_tolerance_ratio > 0.0)
        tail = lull_joint_guard_verdict(&trial->tail_guard);
    if (mean == LULL_VERDICT_DEGRADED || tail == LULL_VERDICT_DEGRADED)
        return LULL_TRIAL_DEGRADED;
    if (mean == LULL_VERDICT_UNDECIDED || tail == LULL_VERDICT_UNDECIDED)
        return LULL_TRIAL_GOES_ON;
    if (mean == LULL_VERDICT_UNPROVEN || tail == LULL_VERDICT_UNPROVEN)
        return LULL_TRIAL_UNPROVEN;
    return LULL_TRIAL_NOT_DEGRADED;
}

static enum lull_trial_result find_verdict(struct lull_trial *trial, uint64_t present)
{
    const enum lull_trial_result result = trial_read_guards(trial);

    if (result == LULL_TRIAL_UNPROVEN && untried_ratio(trial) > most_untried)
        return LULL_TRIAL_GIVES_UP;
    if (result == LULL_TRIAL_DEGRADED || result == LULL_TRIAL_UNPROVEN)
        lull_trial_learn_from_harm(trial, lull_joint_guard_worst(&trial->guard));
    if (trial->kind == LULL_TRIAL_CHECK && result == LULL_TRIAL_GOES_ON &&
        lull_trial_pooled_hurts(trial, present))
        return LULL_TRIAL_DEGRADED;
    return result;
}

/* What the pairs so far show of the job calls for another schedule. What carries over after the
 * longest unmeasured time hides harm from any pair. */
static enum lull_trial_result trial_learn_job(struct lull_trial *trial)
{
    const bool may_restart = trial->restarts < MAX_RESTARTS;
    enum lull_trial_carry carry = LULL_TRIAL_CARRY_NONE;
    bool restarts;

    if (!lull_trial_follows_job(trial))
        return LULL_TRIAL_GOES_ON;
    restarts = may_restart && lull_trial_has_new_rhythm(trial);
    if (!restarts)
        carry = lull_trial_find_carry(trial, may_restart);
    if (restarts || carry == LULL_TRIAL_CARRY_FOUND) {
        trial->restarts++;
        return LULL_TRIAL_RESTARTS;
    }
    if (carry == LULL_TRIAL_CARRY_HIDES && trial_proves(trial))
        return LULL_TRIAL_GIVES_UP;
    return LULL_TRIAL_GOES_ON;
}

/* All ranks have completed the pairs before `next`. */
static enum lull_trial_result judge_pairs(struct lull_trial *trial, uint32_t next, uint64_t present)
{
    const bool disturbed = is_set_aside(trial);
    const bool untried = is_untried(trial);
    const bool is_void = proof_is_void(trial);
    enum lull_trial_result learnt;

    trial->next_pair = next;
    trial->set_aside++;
    if (!disturbed) {
        trial->set_aside = 0;
        trial->wanted_before += trial->wanted_changes;
        trial->made_before += trial->made_changes;
    }
    trial->untried_pairs += untried;
    trial_begin_pair(trial);
    if (trial->kind == LULL_TRIAL_WATCH)
        return disturbed || untried ? LULL_TRIAL_SET_ASIDE
                                    : lull_trial_find_watched(trial, present);
    if (is_void)
        return LULL_TRIAL_GIVES_UP;
    learnt = trial_learn_job(trial);
    if (learnt != LULL_TRIAL_GOES_ON)
        return learnt;
    lull_trial_put_off_next_pair(trial);
    if (untried && trial->kind == LULL_TRIAL_SCREEN && trial->untried_pairs == UNTRIED_IN_SCREEN)
        return LULL_TRIAL_UNTRIED;
    if (disturbed || untried)
        return LULL_TRIAL_SET_ASIDE;
    return find_verdict(trial, present);
}

/* Judges the next pair if all ranks that are present have completed it. */
static enum lull_trial_result trial_judge_next_pair(struct lull_trial *trial, uint64_t present)
{
    uint32_t lowest = UINT32_MAX;
    uint32_t highest = 0;

    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const uint32_t done = trial->ranks[i].done;

        if (!lull_trial_takes_part(present, i))
            continue;
        lowest = done < lowest ? done : lowest;
        highest = done > highest ? done : highest;
    }
    if (highest > AHEAD_MAX && lowest < highest - AHEAD_MAX)
        lowest = highest - AHEAD_MAX;
    if (lowest == UINT32_MAX || (lowest <= trial->next_pair && trial->kind == LULL_TRIAL_WATCH))
        return LULL_TRIAL_GOES_ON;
    if (lowest <= trial->next_pair)
        return find_verdict(trial, present);
    return judge_pairs(trial, lowest, present);
}

/* A rank has completed a pair: it counts for the rank's own test, and for the joint test once all
 * ranks have it. */
static enum lull_trial_result end_pair(struct lull_trial *trial, uint32_t index, uint32_t pair,
                                       uint64_t present)
{
    struct lull_trial_rank *rank = &trial->ranks[index];
    struct lull_trial_side *sides = rank->sides;
    bool counts;
    bool may_pass;

    /* The loss budget has cut the pair, because the candidate began slowly. */
    if (sides[1].count == 0)
        sides[1] = rank->begun;
    counts = sides[0].count > 0 && sides[1].count > 0 && !is_set_aside(trial) && !is_untried(trial);

    if (pair < trial->joined_pair)
        return LULL_TRIAL_GOES_ON;
    rank->done = pair + 1;
    if (counts && trial->kind == LULL_TRIAL_WATCH &&
        lull_trial_watch_pair(trial, rank, trial_mean_of(&sides[0]), trial_mean_of(&sides[1])))
        return LULL_TRIAL_HURTS;
    if (counts && trial->kind != LULL_TRIAL_WATCH) {
        lull_trial_add_to_carry(trial, rank);
        may_pass =
            rank->measured >= trial->min_measured && !lull_trial_lacks_carry_test(trial, rank);
        lull_joint_guard_set_untried(&trial->guard, untried_ratio(trial));
        lull_joint_guard_set_untried(&trial->tail_guard, untried_ratio(trial));
        lull_joint_guard_add(&trial->guard, index, trial_mean_of(&sides[0]),
                             trial_mean_of(&sides[1]), may_pass);
        lull_joint_guard_add(&trial->tail_guard, index, lull_upper_tail_p99(&sides[0].tail_ms),
                             lull_upper_tail_p99(&sides[1].tail_ms), may_pass);
    }
    return trial_judge_next_pair(trial, present);
}

enum lull_trial_result lull_trial_leave(struct lull_trial *trial, uint32_t rank, uint64_t present)
{
    assert(rank < trial->config.rank_count && !lull_trial_takes_part(present, rank));
    lull_joint_guard_leave(&trial->guard, rank);
    lull_joint_guard_leave(&trial->tail_guard, rank);
    return trial_judge_next_pair(trial, present);
}

/* ---- iterations -------------------------------------------------------------------------- */

/* A block at the reference has ended. If the job became slower or faster since the block
 * before, the lowered iterations in between are compared with the mean of both levels. */
static void follow_level(struct lull_trial_rank *rank)
{
    const struct lull_trial_side *block = &rank->sides[0];
    struct lull_recent_level *level = &rank->losses.reference;
    const double block_ms = trial_mean_of(block);
    const double error_ms = sqrt(level->variance / block->count);

    if (rank->lowered > 0 && fabs(block_ms - rank->level_ms) > changed_errors * error_ms) {
        lull_loss_budget_correct(&rank->losses, rank->level_ms, block_ms, rank->lowered);
        level->mean_ms = block_ms;
        level->count = block->count;
    }
    rank->level_ms = level->mean_ms;
    rank->lowered = 0;
}

void lull_trial_take_unplaced(struct lull_trial *trial, uint32_t index, uint64_t iteration,
                              double iteration_ms, bool is_reference)
{
    struct lull_trial_rank *rank = &trial->ranks[index];
    const double even_ms = lull_rhythm_even_ms(&rank->rhythm, iteration, iteration_ms);

    rank->run = 0;
    rank->since_low = is_reference ? rank->since_low + 1 : 0;
    lull_whole_bound_take_unplaced(&rank->whole, even_ms, is_reference);
    if (!is_reference) {
        lull_loss_budget_take_other(&rank->losses, even_ms);
        return;
    }
    lull_rhythm_remember(&rank->memory, iteration, iteration_ms);
    lull_loss_budget_take_reference(&rank->losses, even_ms);
}

static void account_for(struct lull_trial_rank *rank, const struct lull_pair_slot *slot,
                        double iteration_ms)
{
    if (slot->candidate) {
        if (rank->lowered == 0)
            rank->level_ms = rank->losses.reference.mean_ms;
        rank->run++;
        rank->since_low = 0;
        rank->lowered++;
        rank->measured += slot->measured;
        rank->kept_iterations += slot->measured;
        lull_loss_budget_take_lowered(&rank->losses, iteration_ms);
        return;
    }
    rank->run = 0;
    rank->since_low++;
    if (slot->measured)
        lull_loss_budget_take_reference(&rank->losses, iteration_ms);
    else
        lull_loss_budget_take_other(&rank->losses, iteration_ms);
}

static void add_to_pair(const struct lull_trial *trial, struct lull_trial_rank *rank,
                        const struct lull_pair_slot *slot, double iteration_ms, double even_ms)
{
    struct lull_trial_side *side = &rank->sides[slot->candidate];

    if (slot->pair != rank->pair) {
        memset(rank->sides, 0, sizeof(rank->sides));
        rank->begun = (struct lull_trial_side){0};
        rank->pair = slot->pair;
    }
    if (!slot->measured && slot->candidate)
        side = &rank->begun;
    else if (!slot->measured)
        return;
    if (!slot->candidate && side->count == 0) {
        const bool is_known = rank->whole.level_count >= min_compared;

        rank->reference_since = rank->since_low - 1;
        rank->reference_level_ms = is_known ? rank->whole.level_ms : 0.0;
    }
    side->count++;
    side->sum_ms += even_ms;
    if (trial->config.tail_tolerance_ratio > 0.0)
        lull_upper_tail_add(&side->tail_ms, iteration_ms);
    if (!slot->candidate && side->count == trial->schedule.block_iterations)
        follow_level(rank);
}

/* True if the first iterations at the candidate are far slower: no need to wait for pairs. */
static bool trial_is_hopeless(const struct lull_trial *trial, struct lull_trial_rank *rank,
                              double iteration_ms)
{
    const struct lull_recent_level *level = &rank->losses.reference;
    const double excess_ms = iteration_ms - level->mean_ms;
    struct lull_moments *all = &rank->excess_ms;
    double rest_ms;

    if (level->count < min_level)
        return false;
    lull_moments_add(all, excess_ms);
    rank->slowest_ms = fmax(rank->slowest_ms, excess_ms);
    if (trial->kind == LULL_TRIAL_WATCH || all->count < EARLY_ITERATIONS)
        return false;
    rest_ms = (all->mean * (double)all->count - rank->slowest_ms) / (double)(all->count - 1);
    return rest_ms > fmax(early_deviations * sqrt(level->variance),
                          early_tolerances * trial->terms.tolerance_ratio * level->mean_ms);
}

enum lull_trial_result lull_trial_add(struct lull_trial *trial, uint32_t index,
                                      const struct lull_pair_slot *slot, double iteration_ms,
                                      uint64_t present)
{
    struct lull_trial_rank *rank = &trial->ranks[index];
    const bool is_watch = trial->kind == LULL_TRIAL_WATCH;
    const uint64_t iteration = rank->base + slot->offset;
    const double even_ms = lull_rhythm_even_ms(&rank->rhythm, iteration, iteration_ms);
    enum lull_trial_result result = LULL_TRIAL_GOES_ON;

    assert(index < trial->config.rank_count);
    if (slot->measured && !slot->candidate)
        lull_rhythm_remember(&rank->memory, iteration, iteration_ms);
    account_for(rank, slot, even_ms);
    add_to_pair(trial, rank, slot, iteration_ms, even_ms);
    if (trial->terms.is_idle)
        lull_whole_bound_take_unplaced(&rank->whole, even_ms, true);
    else
        lull_whole_bound_take(&rank->whole, slot, even_ms);
    if (slot->candidate && trial_is_hopeless(trial, rank, even_ms)) {
        lull_trial_learn_from_harm(trial, index);
        return LULL_TRIAL_DEGRADED;
    }
    if (slot->candidate && lull_trial_is_spent(trial, index)) {
        if (is_watch && !trial->config.is_aligned)
            return LULL_TRIAL_SPENT;
        lull_trial_cut_pair(trial, rank, slot);
    }
    if (is_watch && slot->candidate && slot->measured &&
        lull_trial_is_slow_block(trial, rank, even_ms))
        result = LULL_TRIAL_SLOW_BLOCK;
    if (slot->pair_ends)
        return end_pair(trial, index, slot->pair, present);
    return result;
}
