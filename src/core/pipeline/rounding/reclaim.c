/*
 * Rounds durations down to steps, and turns slack back into slower steps.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/pipeline/rounding/state.h"

#include <assert.h>

/* The saving required of a nanosecond falls by this ratio from one pass to the next. Commit 2e0c524
 * measured it. */
#define LEVEL_RATIO 0.7

uint32_t lull_ladder_fit(const struct lull_rounding_ladder *ladder, int64_t time_ns)
{
    uint32_t low = 0;
    uint32_t high = ladder->count;

    while (low < high) {
        uint32_t middle = (low + high) / 2;

        if (ladder->steps[middle].time_ns <= time_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low - 1;
}

/* The same as lull_ladder_fit; it first looks at `guess`, any step. */
static inline uint32_t fit_near(const struct lull_rounding_ladder *ladder, int64_t time_ns,
                                uint32_t guess)
{
    const struct lull_rounding_ladder_step *step = &ladder->steps[guess];

    if (step->time_ns <= time_ns && (guess + 1 == ladder->count || step[1].time_ns > time_ns))
        return guess;
    return lull_ladder_fit(ladder, time_ns);
}

/* Arrival of the last data that operation op waits for. */
static inline int64_t reclaim_ready(const struct lull_pipeline_rounding *rounding,
                                    const int64_t *end_ns, uint32_t op)
{
    int64_t begin = 0;

    for (uint32_t k = rounding->first_in[op]; k < rounding->first_in[op + 1]; k++) {
        int64_t arrival = end_ns[rounding->in[k].op] + rounding->in[k].latency_ns;

        if (arrival > begin)
            begin = arrival;
    }
    return begin;
}

/* Time at which op must end so that all that wait for it can begin. */
static inline int64_t reclaim_due(const struct lull_pipeline_rounding *rounding,
                                  const int64_t *latest_begin_ns, int64_t deadline_ns, uint32_t op)
{
    int64_t end = deadline_ns;

    for (uint32_t k = rounding->first_out[op]; k < rounding->first_out[op + 1]; k++) {
        int64_t latest = latest_begin_ns[rounding->out[k].op] - rounding->out[k].latency_ns;

        if (latest < end)
            end = latest;
    }
    return end;
}

int64_t lull_round_longest(struct lull_pipeline_rounding *rounding, const int64_t *duration_ns)
{
    int64_t longest = 0;

    for (uint32_t op = 0; op < rounding->count; op++) {
        rounding->end_ns[op] = reclaim_ready(rounding, rounding->end_ns, op) + duration_ns[op];
        if (rounding->end_ns[op] > longest)
            longest = rounding->end_ns[op];
    }
    return longest;
}

int64_t lull_round_earliest(struct lull_pipeline_rounding *rounding, const uint32_t *step)
{
    int64_t makespan = 0;

    for (uint32_t op = 0; op < rounding->count; op++) {
        rounding->end_ns[op] = reclaim_ready(rounding, rounding->end_ns, op) +
                               step_at(rounding, op, step[op])->time_ns;
        if (rounding->end_ns[op] > makespan)
            makespan = rounding->end_ns[op];
    }
    return makespan;
}

bool lull_round_latest(struct lull_pipeline_rounding *rounding, const uint32_t *step,
                       int64_t deadline_ns)
{
    bool holds = true;

    for (uint32_t op = rounding->count; op-- > 0;) {
        rounding->latest_begin_ns[op] =
            reclaim_due(rounding, rounding->latest_begin_ns, deadline_ns, op) -
            step_at(rounding, op, step[op])->time_ns;
        holds = holds && rounding->latest_begin_ns[op] >= 0;
    }
    return holds;
}

int64_t lull_round_cost(const struct lull_pipeline_rounding *rounding, const uint32_t *step)
{
    int64_t cost = 0;

    for (uint32_t op = 0; op < rounding->count; op++)
        cost += step_at(rounding, op, step[op])->cost;
    return cost;
}

/*
 * From the last operation to the first: an operation may begin no earlier than in the relaxed
 * optimum, and end when the operations after it, already rounded, have to begin.
 */
bool lull_round_down(struct lull_pipeline_rounding *rounding, const int64_t *relaxed_ns,
                     int64_t deadline_ns, uint32_t *step_inout)
{
    bool holds = true;

    lull_round_longest(rounding, relaxed_ns);
    for (uint32_t op = rounding->count; op-- > 0;) {
        int64_t end = reclaim_due(rounding, rounding->latest_begin_ns, deadline_ns, op);
        int64_t begin = rounding->end_ns[op] - relaxed_ns[op];
        const struct lull_rounding_ladder *ladder = ladder_at(rounding, op);
        uint32_t step = fit_near(ladder, end - begin, step_inout[op]);

        step_inout[op] = step == UINT32_MAX ? 0 : step;
        rounding->latest_begin_ns[op] = end - ladder->steps[step_inout[op]].time_ns;
        holds = holds && rounding->latest_begin_ns[op] >= 0;
    }
    return holds;
}

/* Saving per nanosecond between two steps. */
static double reclaim_rate(const struct lull_rounding_ladder *ladder, uint32_t from, uint32_t to)
{
    assert(from < to && to < ladder->count);
    return (double)(ladder->steps[from].cost - ladder->steps[to].cost) /
           (double)(ladder->steps[to].time_ns - ladder->steps[from].time_ns);
}

/* The slowest step within window_ns that saves at least `least` per nanosecond. */
static uint32_t reclaim_slow_down(const struct lull_rounding_ladder *ladder, uint32_t from,
                                  int64_t window_ns, double least)
{
    uint32_t to = from;

    if (from + 1 == ladder->count || ladder->steps[from + 1].time_ns > window_ns)
        return from;
    for (uint32_t step = from + 1; step < ladder->count && ladder->steps[step].time_ns <= window_ns;
         step++)
        if (reclaim_rate(ladder, from, step) >= least)
            to = step;
    return to;
}

/* The most that a nanosecond of slack would save anywhere; latest starts must be of this plan. */
static double best_rate(struct lull_pipeline_rounding *rounding, const uint32_t *step)
{
    double best = 0.0;

    lull_round_earliest(rounding, step);
    for (uint32_t op = 0; op < rounding->count; op++) {
        const struct lull_rounding_ladder *ladder = ladder_at(rounding, op);
        int64_t slack = rounding->latest_begin_ns[op] -
                        (rounding->end_ns[op] - ladder->steps[step[op]].time_ns);

        for (uint32_t to = step[op] + 1;
             to < ladder->count &&
             ladder->steps[to].time_ns - ladder->steps[step[op]].time_ns <= slack;
             to++)
            if (reclaim_rate(ladder, step[op], to) > best)
                best = reclaim_rate(ladder, step[op], to);
    }
    return best;
}

/* One pass from the first operation to the last: each takes what it may of the time until the
 * operations after it must begin. Latest begins must be those of the plan before the pass. */
void lull_round_sweep(struct lull_pipeline_rounding *rounding, double least, uint32_t *step)
{
    for (uint32_t op = 0; op < rounding->count; op++) {
        const struct lull_rounding_ladder *ladder = ladder_at(rounding, op);
        int64_t begin = reclaim_ready(rounding, rounding->end_ns, op);
        int64_t end = rounding->latest_begin_ns[op] + ladder->steps[step[op]].time_ns;

        step[op] = reclaim_slow_down(ladder, step[op], end - begin, least);
        rounding->end_ns[op] = begin + ladder->steps[step[op]].time_ns;
    }
}

/* Slack is spent where it saves most first: the price of a nanosecond falls level by level, and a
 * last pass takes whatever fits. */
void lull_round_reclaim(struct lull_pipeline_rounding *rounding, int64_t deadline_ns,
                        unsigned levels, uint32_t *step)
{
    double least;

    lull_round_latest(rounding, step, deadline_ns);
    least = best_rate(rounding, step);
    for (unsigned level = 0; level < levels && least > 0.0; level++) {
        least *= LEVEL_RATIO;
        lull_round_sweep(rounding, least, step);
        lull_round_latest(rounding, step, deadline_ns);
    }
    if (least > 0.0)
        lull_round_sweep(rounding, 0.0, step);
}
