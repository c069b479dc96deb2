/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/trial.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

/* Share of the wanted changes of clocks that must be made for a pair to count, and after how many
 * pairs in a test that fall short of it one counts all the same. Measured on a recorded job in
 * virtual time (bench/bench_latency.py): with the rule gaps save 93 to 99 % of what is possible,
 * before 73 to 100 %. */
static const double least_tried = 0.25;
enum { MAX_UNTRIED = 14 };
/* A rank that is ahead of the slowest by more pairs does not wait for it: a rank that waits in
 * every iteration is in the same iteration or the next, hence in the same pair or the next. */
enum { AHEAD_MAX = 2 };

void lull_trial_init(struct lull_trial *trial, const struct lull_trial_config *config,
                     struct lull_trial_rank *ranks)
{
    assert(config->rank_count >= 1 && config->rank_count <= LULL_JOINT_GUARD_MAX_RANKS);
    assert(config->first_stretch >= 1 && ranks != NULL);
    *trial = (struct lull_trial){
        .config = *config,
        .ranks = ranks,
        .stretch = config->first_stretch,
        .worst_rank = LULL_TRIAL_COUPLED,
    };
}

/* ---- beginning --------------------------------------------------------------------------- */

static bool takes_part(uint64_t present, uint32_t rank)
{
    return (present & (UINT64_C(1) << rank)) != 0;
}

void lull_trial_set_terms(struct lull_trial *trial, const struct lull_trial_terms *terms,
                          uint64_t present)
{
    struct lull_guard_config guard = {
        .tolerance_ratio = terms->tolerance_ratio,
        .worth_ratio = terms->worth_ratio,
        .confidence = trial->config.confidence,
        .min_pairs = trial->config.min_pairs,
        .max_pairs = trial->config.max_pairs,
        .abort_ratio = terms->abort_ratio,
    };

    lull_joint_guard_init(&trial->guard, &guard, trial->config.rank_count);
    if (trial->kept.log_ratios.count == 0) {
        guard.max_pairs = trial->config.kept_pairs;
        lull_guard_init(&trial->kept, &guard);
        guard.max_pairs = trial->config.max_pairs;
    }
    trial->before_guard = trial->guard.mean;
    trial->before_kept = trial->kept;
    if (trial->config.tail_tolerance_ratio > 0.0)
        guard.tolerance_ratio = trial->config.tail_tolerance_ratio;
    guard.worth_ratio = 0.0;
    lull_joint_guard_init(&trial->tail_guard, &guard, trial->config.rank_count);
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        if (takes_part(present, i))
            continue;
        lull_joint_guard_leave(&trial->guard, i);
        lull_joint_guard_leave(&trial->tail_guard, i);
    }
}

void lull_trial_begin(struct lull_trial *trial, enum lull_trial_kind kind,
                      uint32_t window_iterations)
{
    assert(window_iterations >= 1 && trial->stretch >= 1);
    trial->kind = kind;
    trial->schedule = (struct lull_window_schedule){window_iterations, window_iterations, false};
    if (kind == LULL_TRIAL_WATCH) {
        trial->schedule.candidate_first = true;
        trial->schedule.candidate_iterations = window_iterations * trial->stretch;
    }
    trial->block = (struct lull_quantile){0};
    trial->next_pair = 0;
    trial->is_disturbed = false;
    trial->wanted_changes = 0;
    trial->made_changes = 0;
    trial->untried_pairs = 0;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        struct lull_trial_rank *rank = &trial->ranks[i];

        rank->slow_iterations = 0;
        memset(rank->windows, 0, sizeof(rank->windows));
        memset(rank->pairs, 0, sizeof(rank->pairs));
    }
}

void lull_trial_place(struct lull_trial *trial, uint32_t rank, uint64_t base)
{
    assert(rank < trial->config.rank_count);
    trial->ranks[rank].base = base;
}

void lull_trial_join(struct lull_trial *trial, uint64_t iterations)
{
    trial->next_pair = lull_window_slot(&trial->schedule, iterations).window / 2 + 1;
}

bool lull_trial_slot(const struct lull_trial *trial, uint32_t rank, uint64_t iteration,
                     struct lull_window_slot *slot_out)
{
    assert(rank < trial->config.rank_count);
    if (iteration < trial->ranks[rank].base)
        return false;
    *slot_out = lull_window_slot(&trial->schedule, iteration - trial->ranks[rank].base);
    return true;
}

void lull_trial_disturb(struct lull_trial *trial)
{
    trial->is_disturbed = true;
}

void lull_trial_discard_pair(struct lull_trial *trial)
{
    if (trial->kind != LULL_TRIAL_WATCH)
        trial->is_disturbed = true;
}

void lull_trial_want_change(struct lull_trial *trial)
{
    trial->wanted_changes++;
}

void lull_trial_make_change(struct lull_trial *trial)
{
    trial->made_changes++;
}

/* ---- what is kept ------------------------------------------------------------------------ */

/* The rank that was slowed most, where ranks are not coupled. */
static int32_t find_worst_rank(const struct lull_joint_guard *guard)
{
    for (uint32_t i = 0; i < guard->rank_count; i++)
        if (&guard->ranks[i].guard == lull_joint_guard_worst(guard))
            return (int32_t)i;
    return LULL_TRIAL_COUPLED;
}

void lull_trial_keep(struct lull_trial *trial)
{
    assert(trial->kind != LULL_TRIAL_WATCH);
    if (!trial->config.estimates_tests)
        trial->kept = *lull_joint_guard_worst(&trial->guard);
    if (trial->kind == LULL_TRIAL_TEST)
        trial->worst_rank = find_worst_rank(&trial->guard);
}

void lull_trial_drop_kept(struct lull_trial *trial)
{
    memset(&trial->kept, 0, sizeof(trial->kept));
    trial->stretch = trial->config.first_stretch;
}

void lull_trial_lengthen(struct lull_trial *trial)
{
    if (trial->stretch < trial->config.most_stretch)
        trial->stretch *= 2;
}

void lull_trial_forget_last_pair(struct lull_trial *trial)
{
    assert(trial->config.rank_count == 1);
    trial->guard.mean = trial->before_guard;
    trial->kept = trial->before_kept;
}

void lull_trial_estimate(const struct lull_trial *trial, struct lull_guard_estimate *estimate_out)
{
    lull_guard_estimate(&trial->kept, estimate_out);
}

void lull_trial_estimate_test(const struct lull_trial *trial,
                              struct lull_guard_estimate *estimate_out)
{
    lull_guard_estimate(lull_joint_guard_worst(&trial->guard), estimate_out);
}

/* ---- what a pair says -------------------------------------------------------------------- */

static bool is_slow(const struct lull_trial *trial, double reference_ms, double candidate_ms)
{
    return candidate_ms > reference_ms * (1.0 + trial->guard.mean.config.tolerance_ratio);
}

/* A verdict on watched pairs, again and again. Noise that hides a slowdown too well makes the guard
 * say "degraded" as well, so the estimate must be beyond the tolerance, too. */
static bool watched_verdict_hurts(struct lull_trial *trial, double reference_ms,
                                  double candidate_ms)
{
    struct lull_guard *guard = &trial->watched;
    struct lull_guard_estimate estimate;
    enum lull_verdict verdict;

    if (guard->config.max_pairs == 0)
        lull_guard_init(guard, &trial->guard.mean.config);
    lull_guard_add(guard, reference_ms, candidate_ms);
    verdict = lull_guard_verdict(guard);
    if (verdict == LULL_VERDICT_UNDECIDED)
        return false;
    lull_guard_estimate(guard, &estimate);
    lull_guard_init(guard, &trial->guard.mean.config);
    return verdict == LULL_VERDICT_DEGRADED &&
           estimate.slowdown_ratio > guard->config.tolerance_ratio;
}

static bool bound_hurts(const struct lull_trial *trial)
{
    struct lull_guard_estimate estimate;

    lull_guard_estimate(&trial->kept, &estimate);
    return estimate.pairs >= trial->config.min_pairs &&
           estimate.lower_ratio > trial->guard.mean.config.tolerance_ratio;
}

/* A long stretch of what has been kept and its short reference. */
static enum lull_trial_result watch_pair(struct lull_trial *trial, double reference_ms,
                                         double candidate_ms)
{
    bool hurts = false;

    lull_guard_add(&trial->kept, reference_ms, candidate_ms);
    switch (trial->config.watch_rule) {
    case LULL_WATCH_PAIRS:
        break;
    case LULL_WATCH_VERDICTS:
        hurts = watched_verdict_hurts(trial, reference_ms, candidate_ms);
        break;
    case LULL_WATCH_BOUND:
        hurts = bound_hurts(trial);
        break;
    }
    if (hurts)
        return LULL_TRIAL_HURTS;
    if (is_slow(trial, reference_ms, candidate_ms))
        return LULL_TRIAL_SLOW_PAIR;
    return LULL_TRIAL_HOLDS;
}

/* What the guards say so far: degraded by either measure; not degraded only by both. */
static enum lull_trial_result find_verdict(const struct lull_trial *trial)
{
    const enum lull_verdict mean = lull_joint_guard_verdict(&trial->guard);
    enum lull_verdict tail = mean;

    if (trial->config.tail_tolerance_ratio > 0.0)
        tail = lull_joint_guard_verdict(&trial->tail_guard);
    if (mean == LULL_VERDICT_DEGRADED || tail == LULL_VERDICT_DEGRADED)
        return LULL_TRIAL_DEGRADED;
    if (mean == LULL_VERDICT_UNDECIDED || tail == LULL_VERDICT_UNDECIDED)
        return LULL_TRIAL_GOES_ON;
    return LULL_TRIAL_NOT_DEGRADED;
}

/* A disturbance that never ends must not keep the trial from ending. */
static bool is_set_aside(const struct lull_trial *trial)
{
    return trial->is_disturbed && trial->set_aside < trial->config.most_set_aside;
}

/* Clocks stay high for want of allowance or of the driver's time, or while latencies are hardly
 * known: a pair without the changes it is about shows nothing. */
static bool is_untried(const struct lull_trial *trial)
{
    return trial->made_changes < least_tried * trial->wanted_changes &&
           trial->untried_pairs < MAX_UNTRIED;
}

/* Means over the ranks of a pair that all have completed. */
static enum lull_trial_result judge_pair(struct lull_trial *trial,
                                         const struct lull_trial_pair *pair)
{
    const bool disturbed = is_set_aside(trial);
    const bool untried = is_untried(trial);

    trial->next_pair++;
    trial->set_aside++;
    if (!disturbed)
        trial->set_aside = 0;
    trial->untried_pairs += untried;
    trial->is_disturbed = false;
    trial->wanted_changes = 0;
    trial->made_changes = 0;
    if (disturbed || untried)
        return LULL_TRIAL_SET_ASIDE;
    trial->before_guard = trial->guard.mean;
    trial->before_kept = trial->kept;
    if (trial->kind == LULL_TRIAL_WATCH)
        return watch_pair(trial, pair->reference.mean_ms, pair->candidate.mean_ms);
    if (trial->config.estimates_tests)
        lull_guard_add(&trial->kept, pair->reference.mean_ms, pair->candidate.mean_ms);
    lull_joint_guard_add_mean(&trial->guard, pair->reference.mean_ms, pair->candidate.mean_ms);
    lull_joint_guard_add_mean(&trial->tail_guard, pair->reference.p99_ms, pair->candidate.p99_ms);
    return find_verdict(trial);
}

/* ---- pairs ------------------------------------------------------------------------------- */

/* The next pair of this rank; null: it is not complete yet. */
static const struct lull_trial_pair *next_pair_of(const struct lull_trial *trial, uint32_t rank)
{
    const struct lull_trial_pair *pair =
        &trial->ranks[rank].pairs[trial->next_pair % LULL_TRIAL_PAIRS_KEPT];

    if (!pair->is_complete || pair->number != trial->next_pair)
        return NULL;
    return pair;
}

static void add_times(struct lull_trial_times *sum, const struct lull_trial_times *times)
{
    sum->mean_ms += times->mean_ms;
    sum->p99_ms += times->p99_ms;
}

static void divide_times(struct lull_trial_times *sum, uint32_t count)
{
    sum->mean_ms /= count;
    sum->p99_ms /= count;
}

/* Judges the next pair if all ranks that are present have completed it. */
static enum lull_trial_result look_for_pair(struct lull_trial *trial, uint64_t present)
{
    struct lull_trial_pair sum = {0};
    uint32_t count = 0;

    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        const struct lull_trial_pair *pair = next_pair_of(trial, i);

        if (!takes_part(present, i))
            continue;
        if (pair == NULL)
            return LULL_TRIAL_GOES_ON;
        /* Watched ranks that do not wait for each other: the worst stands for all. */
        if (trial->kind == LULL_TRIAL_WATCH && trial->worst_rank == (int32_t)i) {
            sum = *pair;
            count = 1;
            break;
        }
        add_times(&sum.reference, &pair->reference);
        add_times(&sum.candidate, &pair->candidate);
        count++;
    }
    if (count == 0)
        return LULL_TRIAL_GOES_ON;
    divide_times(&sum.reference, count);
    divide_times(&sum.candidate, count);
    return judge_pair(trial, &sum);
}

/* A rank's own pair: for its own test, and for the one of all once each has it. */
static enum lull_trial_result take_pair(struct lull_trial *trial, uint32_t rank,
                                        const struct lull_trial_pair *pair, uint64_t present)
{
    const bool is_watch = trial->kind == LULL_TRIAL_WATCH;

    trial->ranks[rank].pairs[pair->number % LULL_TRIAL_PAIRS_KEPT] = *pair;
    if (!is_watch && !is_set_aside(trial) && !is_untried(trial)) {
        lull_joint_guard_add(&trial->guard, rank, pair->reference.mean_ms, pair->candidate.mean_ms);
        lull_joint_guard_add(&trial->tail_guard, rank, pair->reference.p99_ms,
                             pair->candidate.p99_ms);
    }
    if (pair->number <= trial->next_pair + AHEAD_MAX)
        return look_for_pair(trial, present);
    lull_joint_guard_part(&trial->guard);
    lull_joint_guard_part(&trial->tail_guard);
    if (is_watch)
        return LULL_TRIAL_GOES_ON;
    return find_verdict(trial);
}

enum lull_trial_result lull_trial_leave(struct lull_trial *trial, uint32_t rank, uint64_t present)
{
    assert(rank < trial->config.rank_count && !takes_part(present, rank));
    lull_joint_guard_leave(&trial->guard, rank);
    lull_joint_guard_leave(&trial->tail_guard, rank);
    return look_for_pair(trial, present);
}

/* ---- windows ----------------------------------------------------------------------------- */

static struct lull_trial_times times_of(const struct lull_trial *trial,
                                        const struct lull_trial_window *window)
{
    struct lull_trial_times times = {.p99_ms = lull_upper_tail_p99(&window->tail_ms)};

    if (trial->config.uses_plain_mean)
        times.mean_ms = window->sum_ms / window->count;
    else
        times.mean_ms = lull_quantile_lower_mean(&window->iterations_ms);
    return times;
}

/* The windows belong to the pair whose second one has just ended, and it has not been judged. */
static bool is_whole_pair(const struct lull_trial *trial, const struct lull_trial_window *first,
                          uint32_t second_window)
{
    return first->number + 1 == second_window && first->is_complete &&
           second_window / 2 >= trial->next_pair;
}

/* The second window of a pair has ended. */
static enum lull_trial_result end_pair(struct lull_trial *trial, uint32_t rank,
                                       const struct lull_window_slot *slot, uint64_t present)
{
    struct lull_trial_window *windows = trial->ranks[rank].windows;
    const bool has_both = windows[0].count > 0 && windows[1].count > 0;
    struct lull_trial_pair pair = {.is_complete = true, .number = slot->window / 2};

    assert(slot->window % 2 == 1);
    if (!trial->config.spans_lost_iterations &&
        !is_whole_pair(trial, &windows[!slot->candidate], slot->window))
        return LULL_TRIAL_SET_ASIDE;
    if (has_both) {
        pair.reference = times_of(trial, &windows[false]);
        pair.candidate = times_of(trial, &windows[true]);
    }
    if (trial->config.spans_lost_iterations) {
        memset(windows, 0, sizeof(trial->ranks[rank].windows));
        trial->next_pair = pair.number;
        trial->is_disturbed &= has_both;
    }
    if (!has_both)
        return LULL_TRIAL_SET_ASIDE;
    return take_pair(trial, rank, &pair, present);
}

static void add_to_window(const struct lull_trial *trial, struct lull_trial_window *window,
                          const struct lull_window_slot *slot, double iteration_ms)
{
    const bool is_new = window->number != slot->window || window->is_complete;

    if (is_new && !trial->config.spans_lost_iterations)
        *window = (struct lull_trial_window){0};
    window->number = slot->window;
    window->is_complete = slot->window_ends;
    if (!slot->measured)
        return;
    window->count++;
    window->sum_ms += iteration_ms;
    lull_quantile_add(&window->iterations_ms, iteration_ms);
    lull_upper_tail_add(&window->tail_ms, iteration_ms);
}

/* ---- iterations -------------------------------------------------------------------------- */

/* True if every rank has run clearly slow at the candidate: no need to wait for the guard. */
static bool is_hopeless(const struct lull_trial *trial, uint64_t present)
{
    bool any = false;

    if (trial->kind != LULL_TRIAL_TEST || trial->config.abort_iterations == 0)
        return false;
    for (uint32_t i = 0; i < trial->config.rank_count; i++) {
        if (!takes_part(present, i))
            continue;
        if (trial->ranks[i].slow_iterations < trial->config.abort_iterations)
            return false;
        any = true;
    }
    return any;
}

static void count_slow(const struct lull_trial *trial, struct lull_trial_rank *rank,
                       double reference_ms, double candidate_ms)
{
    if (candidate_ms > (1.0 + trial->guard.mean.config.abort_ratio) * reference_ms)
        rank->slow_iterations++;
    else
        rank->slow_iterations = 0;
}

/* A block of what is kept that is slower than the reference: the next pair may be far away. */
static enum lull_trial_result watch_block(struct lull_trial *trial, double reference_ms,
                                          double iteration_ms)
{
    bool slow;

    lull_quantile_add(&trial->block, iteration_ms);
    if (trial->block.count < trial->config.block_iterations)
        return LULL_TRIAL_GOES_ON;
    slow = is_slow(trial, reference_ms, lull_quantile_lower_mean(&trial->block));
    trial->block = (struct lull_quantile){0};
    if (slow)
        return LULL_TRIAL_SLOW_BLOCK;
    return LULL_TRIAL_GOES_ON;
}

enum lull_trial_result lull_trial_add(struct lull_trial *trial, uint32_t rank,
                                      const struct lull_window_slot *slot, double iteration_ms,
                                      uint64_t present)
{
    struct lull_trial_rank *own = &trial->ranks[rank];
    struct lull_trial_window *window = &own->windows[slot->candidate];
    const double reference_ms = own->reference_ms;

    assert(rank < trial->config.rank_count);
    add_to_window(trial, window, slot, iteration_ms);
    if (!slot->candidate && slot->window_ends)
        own->reference_ms = lull_quantile_lower_mean(&window->iterations_ms);
    if (slot->candidate)
        count_slow(trial, own, reference_ms, iteration_ms);
    if (is_hopeless(trial, present)) {
        lull_joint_guard_add_mean(&trial->guard, reference_ms, iteration_ms);
        return LULL_TRIAL_DEGRADED;
    }
    if (slot->window_ends && slot->window % 2 == 1)
        return end_pair(trial, rank, slot, present);
    if (trial->kind == LULL_TRIAL_WATCH && trial->config.block_iterations > 0 && rank == 0 &&
        slot->candidate && slot->measured)
        return watch_block(trial, reference_ms, iteration_ms);
    return LULL_TRIAL_GOES_ON;
}
