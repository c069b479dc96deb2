/* Runs the play once, with the clocks of its gaps. SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
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
};

/* ---- requests ---- */

static int64_t serve_calls(void *context, int64_t now_ns)
{
    struct lull_oracle_play *oracle = context;

    return lull_oracle_queue_serve(&oracle->queue, now_ns);
}

/* ---- one run ---- */

static uint32_t run_step_of(const struct lull_oracle_play *oracle, uint32_t rank, uint32_t step)
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
                          run_step_of(oracle, rank, oracle->steps[index]), 0);
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
                          run_step_of(oracle, rank, oracle->top_step), 0);
    if (oracle->mode == LULL_ORACLE_MODE_REAL)
        plan_lowering(oracle, rank, index, now_ns);
}

static void run_begin_period(struct lull_oracle_play *oracle, uint32_t rank, uint64_t period,
                             int64_t now_ns)
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

static void run_observe(void *context, uint32_t rank, const struct lull_play_event *event)
{
    struct lull_oracle_play *oracle = context;
    const uint32_t count = oracle->play.ranks[rank].count;
    const uint32_t op = (uint32_t)(event->number % count);

    if (!event->is_end && op == 0)
        run_begin_period(oracle, rank, event->number / count, event->begin_ns);
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
static uint32_t run_periods_of(const struct lull_oracle_play *oracle, enum lull_oracle_mode mode)
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
    oracle->periods = run_periods_of(oracle, mode);
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
            course = find_course(oracle, rank, run_step_of(oracle, rank, step));
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
            .step = run_step_of(oracle, rank, step),
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
    const struct lull_play_observer observer = {run_observe, serve_calls, oracle};
    int result =
        lull_play_sim_create_at(&oracle->play, &oracle->model, WARM_PERIODS + oracle->periods + 1,
                                starts_ns, &oracle->sim, err);

    if (result < 0)
        return result;
    oracle->queue.sim = oracle->sim;
    for (uint32_t rank = 0; rank < oracle->play.rank_count; rank++) {
        if (starts_ns[rank] == LULL_PLAY_ABSENT)
            continue;
        lull_physics_lock(lull_play_sim_gpu(oracle->sim, rank), run_step_of(oracle, rank, step), 0);
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
