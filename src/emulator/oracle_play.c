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

#include "base/array.h"
#include "base/clock.h"
#include "emulator/oracle_play_state.h"

enum {

    WARM_PERIODS = 4,
    IDEAL_PERIODS = 3,
    REAL_PERIODS = 24,
    /* Ranks that wait for no other rank drift apart, so the times at which their driver calls
     * collide vary. A mean over few periods would depend on the collisions in them. */
    DRIFT_PERIODS = 64,
    TIGHTENINGS = 6,
};

/*
 * The share of the permitted lateness that lowerings use up by beginning before their gap; the
 * raisings get the rest. Chosen so that both together keep the permitted share, not measured.
 */
static const double early_ratio = 0.125;

/* The times of a run differ from those foreseen by rounding; this much covers it. */
#define MARGIN_NS (20 * LULL_NS_PER_US)

/* No driver is quick enough to use a shorter gap; leaving those out keeps the sweep short. */
#define SHORTEST_GAP_NS (100 * LULL_NS_PER_US)

/* ---- gaps ---- */

struct compute {
    struct lull_play_span span;
    uint32_t op;
};

static int oracle_play_compare_begins(const void *a, const void *b)
{
    const struct compute *x = a;
    const struct compute *y = b;

    return (x->span.begin_ns > y->span.begin_ns) - (x->span.begin_ns < y->span.begin_ns);
}

static void add_gap(struct lull_oracle_play *oracle, uint32_t rank, uint32_t after,
                    int64_t begin_ns, int64_t end_ns)
{
    if (end_ns - begin_ns < SHORTEST_GAP_NS)
        return;
    oracle->gap_after[rank][after] = (int32_t)oracle->gap_count;
    oracle->gaps[oracle->gap_count++] = (struct lull_oracle_gap){
        .rank = rank, .after = after, .begin_ns = begin_ns, .length_ns = end_ns - begin_ns};
}

/* The play repeats, so the gap after the last operation ends with the next period's first one. */
static void find_rank_gaps(struct lull_oracle_play *oracle, uint32_t rank, struct compute *computes,
                           uint32_t count, int64_t period_ns)
{
    const uint32_t first = oracle->gap_count;
    uint32_t latest = 0;

    qsort(computes, count, sizeof(computes[0]), oracle_play_compare_begins);
    for (uint32_t i = 1; i <= count; i++) {
        const int64_t begin_ns =
            i < count ? computes[i].span.begin_ns : computes[0].span.begin_ns + period_ns;

        if (begin_ns > computes[latest].span.end_ns)
            add_gap(oracle, rank, computes[latest].op, computes[latest].span.end_ns, begin_ns);
        if (i < count && computes[i].span.end_ns >= computes[latest].span.end_ns)
            latest = i;
    }
    for (uint32_t i = first; i < oracle->gap_count; i++) {
        const uint32_t next = i + 1 < oracle->gap_count ? i + 1 : first;
        struct lull_oracle_gap *gap = &oracle->gaps[i];

        gap->compute_ns = oracle->gaps[next].begin_ns - gap->begin_ns - gap->length_ns +
                          (next <= i ? period_ns : 0);
    }
}

static int oracle_play_find_gaps(struct lull_oracle_play *oracle,
                                 struct lull_play_span *spans[LULL_PLAY_RANKS], int64_t period_ns,
                                 struct lull_error *err)
{
    const struct lull_play *play = &oracle->play;

    for (uint32_t rank = 0; rank < play->rank_count; rank++) {
        const struct lull_play_rank *ops = &play->ranks[rank];
        struct compute *computes = calloc(ops->count, sizeof(computes[0]));
        uint32_t count = 0;

        if (computes == NULL)
            return lull_error_set(err, -ENOMEM, "oracle: no memory");
        for (uint32_t i = 0; i < ops->count; i++) {
            oracle->gap_after[rank][i] = LULL_ORACLE_NO_GAP;
            if (ops->ops[i].kind == LULL_PLAY_COMPUTE)
                computes[count++] = (struct compute){spans[rank][i], i};
        }
        if (count > 0)
            find_rank_gaps(oracle, rank, computes, count, period_ns);
        free(computes);
    }
    return 0;
}

/* ---- requests ---- */

static int64_t serve_calls(void *context, int64_t now_ns)
{
    struct lull_oracle_play *oracle = context;

    return lull_oracle_queue_serve(&oracle->queue, now_ns);
}

/* ---- one run ---- */

static uint32_t oracle_play_step_of(const struct lull_oracle_play *oracle, uint32_t rank,
                                    uint32_t step)
{
    return lull_oracle_queue_step(&oracle->queue, rank, step);
}

static void begin_gap(struct lull_oracle_play *oracle, uint32_t rank, uint32_t op, int64_t now_ns)
{
    const int32_t index = oracle->gap_after[rank][op];
    const double now_j = lull_physics_energy_j(lull_play_sim_gpu(oracle->sim, rank));
    struct lull_oracle_tally *tally;

    if (index == LULL_ORACLE_NO_GAP)
        return;
    if (oracle->ranks[rank].gap != LULL_ORACLE_NO_GAP && oracle->ranks[rank].begin_ns > 0 &&
        oracle->ranks[rank].end_ns == 0) {
        tally = &oracle->tallies[oracle->ranks[rank].gap];
        tally->energy_j += now_j - oracle->ranks[rank].since_j;
        tally->time_s += (double)(now_ns - oracle->ranks[rank].since_ns) * 1e-9;
    }
    oracle->ranks[rank].gap = index;
    if (oracle->ranks[rank].awaited == index)
        oracle->ranks[rank].awaited = LULL_ORACLE_NO_GAP;
    oracle->ranks[rank].since_ns = now_ns;
    oracle->ranks[rank].since_j = now_j;
    if (oracle->mode == LULL_ORACLE_MODE_IDEAL)
        lull_physics_lock(lull_play_sim_gpu(oracle->sim, rank),
                          oracle_play_step_of(oracle, rank, oracle->steps[index]), 0);
    if (oracle->mode == LULL_ORACLE_MODE_REAL && oracle->steps[index] != oracle->top_step)
        lull_oracle_queue_raise(
            &oracle->queue, rank,
            lull_later_ns(now_ns, now_ns + oracle->lengths_ns[index] - oracle->raise_lead_ns));
}

static void plan_lowering(struct lull_oracle_play *oracle, uint32_t rank, int32_t index,
                          int64_t now_ns)
{
    const int32_t next = oracle->gaps[index].lowered;
    const int64_t begin_ns = now_ns + oracle->gaps[index].until_lowered_ns;

    if (next == LULL_ORACLE_NO_GAP ||
        (oracle->ranks[rank].awaited == next && oracle->queue.calls[rank].is_low))
        return;
    lull_oracle_queue_lower(
        &oracle->queue, rank, lull_later_ns(now_ns, begin_ns - oracle->lower_lead_ns),
        oracle->steps[next], begin_ns + oracle->lengths_ns[next] - oracle->raise_lead_ns);
    oracle->ranks[rank].awaited = next;
}

static void end_gap(struct lull_oracle_play *oracle, uint32_t rank, int64_t now_ns)
{
    const int32_t index = oracle->ranks[rank].gap;

    if (index == LULL_ORACLE_NO_GAP)
        return;
    if (oracle->mode == LULL_ORACLE_MODE_IDEAL)
        lull_physics_lock(lull_play_sim_gpu(oracle->sim, rank),
                          oracle_play_step_of(oracle, rank, oracle->top_step), 0);
    if (oracle->mode == LULL_ORACLE_MODE_REAL)
        plan_lowering(oracle, rank, index, now_ns);
}

static void oracle_play_begin_period(struct lull_oracle_play *oracle, uint32_t rank,
                                     uint64_t period, int64_t now_ns)
{
    const struct lull_oracle_play_question *const question = oracle->question;
    struct lull_physics *gpu = lull_play_sim_gpu(oracle->sim, rank);
    const double energy_j = lull_physics_energy_j(gpu);

    if (question->watch != NULL)
        question->watch(question->watch_context, oracle->runs, period + 1);
    if (question->heat_w > 0)
        lull_physics_warm(gpu, question->heat_w);
    else if (period > 0) /* as if every earlier period had been like the last one:
                          * waiting for the real temperature to settle would take minutes */
        lull_physics_warm(gpu, (energy_j - oracle->ranks[rank].period_j) /
                                   ((double)(now_ns - oracle->ranks[rank].period_ns) * 1e-9));
    oracle->ranks[rank].period_ns = now_ns;
    oracle->ranks[rank].period_j = energy_j;
    if (period == WARM_PERIODS) {
        oracle->ranks[rank].begin_ns = now_ns;
        oracle->ranks[rank].begin_j = energy_j;
    }
    if (period == WARM_PERIODS + oracle->periods) {
        oracle->ranks[rank].end_ns = now_ns;
        oracle->ranks[rank].end_j = energy_j;
    }
}

static void oracle_play_observe(void *context, uint32_t rank, const struct lull_play_event *event)
{
    struct lull_oracle_play *oracle = context;
    const uint32_t count = oracle->play.ranks[rank].count;
    const uint32_t op = (uint32_t)(event->number % count);

    if (!event->is_end && op == 0)
        oracle_play_begin_period(oracle, rank, event->number / count, event->begin_ns);
    if (event->op->kind != LULL_PLAY_COMPUTE)
        return;
    if (event->is_end && --oracle->ranks[rank].computing == 0)
        begin_gap(oracle, rank, op, event->end_ns);
    if (!event->is_end && oracle->ranks[rank].computing++ == 0)
        end_gap(oracle, rank, event->begin_ns);
}

/*
 * Finds the next gap of the same rank that is lowered in this run, passing over those that stay at
 * the highest clock, and how long after the end of each gap it begins. A lowering may have to be
 * requested before a short gap that is itself left at the highest clock. Gaps of a rank follow each
 * other in a circle, so walking it twice backwards finds what follows the last one, too.
 */
static void find_lowered(struct lull_oracle_play *oracle, uint32_t first, uint32_t count)
{
    int32_t lowered = LULL_ORACLE_NO_GAP;
    int64_t until_ns = 0;

    for (uint32_t i = 2 * count; i-- > 0;) {
        const uint32_t next = first + (i + 1) % count;
        struct lull_oracle_gap *gap = &oracle->gaps[first + i % count];

        if (oracle->steps[next] != oracle->top_step) {
            lowered = (int32_t)next;
            until_ns = gap->compute_ns;
        } else {
            until_ns += gap->compute_ns + oracle->gaps[next].length_ns;
        }
        gap->lowered = lowered;
        gap->until_lowered_ns = until_ns;
    }
}

static void find_all_lowered(struct lull_oracle_play *oracle)
{
    uint32_t first = 0;

    while (first < oracle->gap_count) {
        uint32_t count = 1;

        while (first + count < oracle->gap_count &&
               oracle->gaps[first + count].rank == oracle->gaps[first].rank)
            count++;
        find_lowered(oracle, first, count);
        first += count;
    }
}

/* One period is enough if nothing varies; random latencies and colliding calls need a mean. */
static uint32_t oracle_play_periods_of(const struct lull_oracle_play *oracle,
                                       enum lull_oracle_mode mode)
{
    const bool varies =
        oracle->model.api_sigma > 0 || oracle->model.settle_p99_ms > oracle->model.settle_ms;

    if (mode != LULL_ORACLE_MODE_REAL)
        return IDEAL_PERIODS;
    if (oracle->queue.is_shared && oracle->play.rank_count > 1)
        return DRIFT_PERIODS;
    if (varies)
        return REAL_PERIODS;
    return IDEAL_PERIODS;
}

static void reset_run(struct lull_oracle_play *oracle, enum lull_oracle_mode mode)
{
    oracle->mode = mode;
    oracle->periods = oracle_play_periods_of(oracle, mode);
    lull_oracle_queue_reset(&oracle->queue);
    memset(oracle->ranks, 0, sizeof(oracle->ranks));
    for (uint32_t rank = 0; rank < LULL_PLAY_RANKS; rank++)
        oracle->ranks[rank].gap = oracle->ranks[rank].awaited = LULL_ORACLE_NO_GAP;
    memset(oracle->tallies, 0, oracle->gap_count * sizeof(oracle->tallies[0]));
    if (mode == LULL_ORACLE_MODE_REAL)
        find_all_lowered(oracle);
}

/* Fills the means of the run that has ended; its times are the reference's where there is none. */
static void conclude_run(struct lull_oracle_play *oracle,
                         const struct lull_oracle_outcome *reference,
                         struct lull_oracle_outcome *outcome)
{
    const uint32_t ranks = oracle->play.rank_count;
    double most = 0.0;

    for (uint32_t rank = 0; rank < ranks; rank++) {
        const double period_s =
            (double)(oracle->ranks[rank].end_ns - oracle->ranks[rank].begin_ns) * 1e-9 /
            oracle->periods;

        outcome->energy_j +=
            (oracle->ranks[rank].end_j - oracle->ranks[rank].begin_j) / oracle->periods;
        outcome->time_s += period_s / ranks;
        if (reference == NULL)
            oracle->reference_s[rank] = period_s;
        most = fmax(most, period_s / oracle->reference_s[rank]);
    }
    if (reference == NULL)
        return;
    lull_oracle_compare(outcome, reference);
    outcome->slowdown_ratio = most - 1.0;
}

/* ---- courses that are known ---- */

/* Ranks of recorded traces never wait; those of a pipeline, which is recorded as well, do. */
static bool waits_for_others(const struct lull_play *play, uint32_t rank)
{
    for (uint32_t collective = 0; collective < play->collective_count; collective++)
        if ((play->collective_members[collective] >> rank & 1) != 0)
            return true;
    return false;
}

/*
 * A rank that waits for no other, stays at one clock and makes no driver call always takes the same
 * time at that clock. Sweeps still run it, because they measure each gap. The ideal mode still runs
 * it, because it sets clocks that are set already.
 */
static bool has_one_clock(const struct lull_oracle_play *oracle, uint32_t rank)
{
    if (waits_for_others(&oracle->play, rank))
        return false;
    if (oracle->mode != LULL_ORACLE_MODE_REAL)
        return oracle->mode == LULL_ORACLE_MODE_STEADY;
    for (uint32_t gap = 0; gap < oracle->gap_count; gap++)
        if (oracle->gaps[gap].rank == rank && oracle->steps[gap] != oracle->top_step)
            return false;
    return oracle->queue.is_shared;
}

static const struct lull_oracle_course *find_course(const struct lull_oracle_play *oracle,
                                                    uint32_t rank, uint32_t step)
{
    for (size_t i = 0; i < oracle->course_count; i++) {
        const struct lull_oracle_course *const course = &oracle->courses[i];

        if (course->rank == rank && course->step == step && course->periods == oracle->periods &&
            course->start_ns == oracle->starts_ns[rank])
            return course;
    }
    return NULL;
}

/* Fills in the ranks whose courses are known, which are absent from the run. Returns how many ranks
 * are left to run. */
static uint32_t leave_out_known(struct lull_oracle_play *oracle, uint32_t step,
                                int64_t starts_ns[LULL_PLAY_RANKS])
{
    uint32_t left = 0;

    memcpy(starts_ns, oracle->starts_ns, sizeof(oracle->starts_ns));
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++) {
        const struct lull_oracle_course *course = NULL;

        if (has_one_clock(oracle, rank))
            course = find_course(oracle, rank, oracle_play_step_of(oracle, rank, step));
        if (course == NULL) {
            left++;
            continue;
        }
        starts_ns[rank] = LULL_PLAY_ABSENT;
        oracle->ranks[rank].begin_ns = course->begin_ns;
        oracle->ranks[rank].end_ns = course->end_ns;
        oracle->ranks[rank].begin_j = course->begin_j;
        oracle->ranks[rank].end_j = course->end_j;
    }
    return left;
}

/* Remembers the courses of the ranks that have run. */
static int remember_courses(struct lull_oracle_play *oracle, uint32_t step,
                            const int64_t starts_ns[LULL_PLAY_RANKS])
{
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++) {
        if (starts_ns[rank] == LULL_PLAY_ABSENT || !has_one_clock(oracle, rank))
            continue;
        if (lull_array_grow(&oracle->courses, oracle->course_count, sizeof(*oracle->courses)) < 0)
            return -ENOMEM;
        oracle->courses[oracle->course_count++] = (struct lull_oracle_course){
            .rank = rank,
            .step = oracle_play_step_of(oracle, rank, step),
            .periods = oracle->periods,
            .start_ns = oracle->starts_ns[rank],
            .begin_ns = oracle->ranks[rank].begin_ns,
            .end_ns = oracle->ranks[rank].end_ns,
            .begin_j = oracle->ranks[rank].begin_j,
            .end_j = oracle->ranks[rank].end_j,
        };
    }
    return 0;
}

/* Runs the ranks that begin at some time; each begins at a clock `step`. */
static int run_ranks(struct lull_oracle_play *oracle, uint32_t step,
                     const int64_t starts_ns[LULL_PLAY_RANKS], struct lull_error *err)
{
    const struct lull_play_observer observer = {oracle_play_observe, serve_calls, oracle};
    int result =
        lull_play_sim_create_at(&oracle->play, &oracle->model, WARM_PERIODS + oracle->periods + 1,
                                starts_ns, &oracle->sim, err);

    if (result < 0)
        return result;
    oracle->queue.sim = oracle->sim;
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++) {
        if (starts_ns[rank] == LULL_PLAY_ABSENT)
            continue;
        lull_physics_lock(lull_play_sim_gpu(oracle->sim, rank),
                          oracle_play_step_of(oracle, rank, step), 0);
        lull_physics_advance(lull_play_sim_gpu(oracle->sim, rank), 0);
    }
    result = lull_play_sim_run(oracle->sim, &observer, err);
    lull_play_sim_destroy(oracle->sim);
    return result;
}

int lull_oracle_play_run(struct lull_oracle_play *oracle, enum lull_oracle_mode mode, uint32_t step,
                         const struct lull_oracle_outcome *reference,
                         struct lull_oracle_outcome *outcome_out, struct lull_error *err)
{
    const uint32_t first_step = mode == LULL_ORACLE_MODE_STEADY ? step : oracle->top_step;
    int64_t starts_ns[LULL_PLAY_RANKS];
    int result = 0;

    *outcome_out = (struct lull_oracle_outcome){0};
    reset_run(oracle, mode);
    oracle->runs++;
    if (leave_out_known(oracle, first_step, starts_ns) > 0)
        result = run_ranks(oracle, first_step, starts_ns, err);
    if (result < 0)
        return result;
    if (remember_courses(oracle, first_step, starts_ns) < 0)
        return lull_error_set(err, -ENOMEM, "oracle: no memory");
    conclude_run(oracle, reference, outcome_out);
    return 0;
}

/* ---- the best clocks ---- */

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

/* How many variants try_steps() has to compare: the least gain only matters where GPUs share a
 * driver, and when ranks begin is open only for recorded plays. */
static uint32_t count_tries(const struct lull_oracle_play *oracle, enum lull_oracle_mode mode)
{
    if (mode != LULL_ORACLE_MODE_REAL || oracle->play.rank_count < 2)
        return 1;
    if (oracle->play.is_recorded)
        return 4;
    return 2;
}

/*
 * Runs with the chosen clocks and keeps the best of several variants. Where GPUs share a driver, a
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

int lull_oracle_play_foresee(struct lull_oracle_play *oracle, int64_t *period_ns_out,
                             struct lull_error *err)
{
    const struct lull_play *play = &oracle->play;
    struct lull_play_span *spans[LULL_PLAY_RANKS];
    uint32_t steps[LULL_PLAY_RANKS];
    int result;

    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        steps[rank] = oracle_play_step_of(oracle, rank, oracle->top_step);
    result = lull_play_sim_spans(play, &oracle->model, steps, spans, period_ns_out, err);
    if (result < 0)
        return result;
    oracle->gap_count = 0;
    result = oracle_play_find_gaps(oracle, spans, *period_ns_out, err);
    for (uint32_t rank = 0; rank < play->rank_count; rank++)
        free(spans[rank]);
    for (uint32_t i = 0; i < oracle->gap_count; i++)
        oracle->lengths_ns[i] = oracle->gaps[i].length_ns;
    return result;
}
