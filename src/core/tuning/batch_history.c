/*
 * Evaluates the runs of a recurring job: the results of each size, the cheapest size, the results
 * in logarithms, and whether they are still of the same data: a two-sided CUSUM of results against
 * what their size has cost until now (Page 1954), in deviations.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "core/tuning/batch_state.h"

/* ---- runs and results ---------------------------------------------------------------------- */

size_t lull_batch_results(const struct lull_batch *batch, uint32_t arm,
                          const struct lull_batch_run **runs, size_t capacity)
{
    size_t count = 0;

    if (batch->config.window != 0 && batch->config.window < capacity)
        capacity = batch->config.window;
    for (size_t i = batch->result_count; i > batch->first_result && count < capacity; i--) {
        const struct lull_batch_run *run = &batch->runs[batch->results[i - 1]];

        if (run->arm == arm)
            runs[count++] = run;
    }
    return count;
}

/* Only runs that reached the target count: one that failed early looks inexpensive. */
static int cheapest_since(const struct lull_batch *batch, size_t first_result)
{
    double sum[LULL_BATCH_SIZES] = {0.0};
    uint32_t count[LULL_BATCH_SIZES] = {0};
    int best = -1;

    for (size_t i = first_result; i < batch->result_count; i++) {
        const struct lull_batch_run *run = &batch->runs[batch->results[i]];

        if (run->has_reached) {
            sum[run->arm] += run->cost;
            count[run->arm]++;
        }
    }
    for (uint32_t arm = 0; arm < batch->config.size_count; arm++)
        if (count[arm] > 0 && (best < 0 || sum[arm] / count[arm] < sum[best] / count[best]))
            best = (int)arm;
    return best;
}

int lull_batch_cheapest_arm(const struct lull_batch *batch)
{
    const int cheapest = cheapest_since(batch, batch->first_result);

    if (cheapest >= 0)
        return cheapest;
    return cheapest_since(batch, 0);
}

struct lull_batch_run *lull_batch_find_run(const struct lull_batch *batch, uint64_t id)
{
    for (size_t i = batch->run_count; i > 0; i--)
        if (batch->runs[i - 1].id == id)
            return &batch->runs[i - 1];
    return NULL;
}

/* ---- crashes ------------------------------------------------------------------------------- */

/* The last crashes in a row of an arm, and what ran before and beside them. */
struct crash_row {
    uint32_t count;
    bool has_result;       /* of the arm, ever */
    bool has_other_since;  /* another arm had a result after the first of these crashes */
    bool has_other_before; /* or before it */
};

static struct crash_row crash_row_of(const struct lull_batch *batch, uint32_t arm)
{
    struct crash_row row = {0};
    bool has_other = false;

    for (size_t i = batch->run_count; i > 0; i--) {
        const struct lull_batch_run *run = &batch->runs[i - 1];

        if (run->arm != arm) {
            has_other |= run->has_result;
        } else if (run->has_crashed && !row.has_result) {
            row.count++;
            row.has_other_since |= has_other;
            has_other = false;
        } else {
            row.has_result |= run->has_result;
        }
    }
    row.has_other_before = has_other;
    return row;
}

uint32_t lull_batch_crashes(const struct lull_batch *batch, uint32_t arm)
{
    return crash_row_of(batch, arm).count;
}

/* One crash may be a node's. Two in a row of one size, while others run, are the size's. */
bool lull_batch_has_crashed(const struct lull_batch *batch, uint32_t arm)
{
    enum { IN_ROW = 2 };
    const struct crash_row row = crash_row_of(batch, arm);

    return row.count >= IN_ROW &&
           (row.has_other_since || (row.has_other_before && !row.has_result));
}

uint64_t lull_batch_draw_seed(const struct lull_batch *batch)
{
    const uint64_t golden = 0x9e3779b97f4a7c15u;

    return batch->config.seed ^ (golden * batch->run_count);
}

/* ---- results in logarithms ----------------------------------------------------------------- */

/* A run that has missed would have cost more than it did; how much more is unknown. */
static double result_log(const struct lull_batch *batch, const struct lull_batch_run *run)
{
    const double missed = 2.0; /* docs/research/measurements/batch-jobs.md */
    const double nothing = 1e-9;
    double cost = run->cost;

    if (!run->has_reached && isfinite(batch->min_cost))
        cost = fmax(cost, batch->min_cost);
    if (!run->has_reached)
        cost *= missed;
    return log(fmax(cost, nothing));
}

double lull_batch_summarize(const struct lull_batch *batch, struct lull_batch_summary *summaries)
{
    const double prior_deviation = 0.1;
    const double prior_weight = 4.0;
    const struct lull_batch_run *runs[LULL_BATCH_RESULTS];
    double squares = prior_weight * prior_deviation * prior_deviation;
    double weight = prior_weight;

    for (uint32_t arm = 0; arm < batch->config.size_count; arm++) {
        struct lull_batch_summary *s = &summaries[arm];
        const size_t count = lull_batch_results(batch, arm, runs, LULL_BATCH_RESULTS);
        double own_squares = 0.0;

        *s = (struct lull_batch_summary){.count = (uint32_t)count};
        for (size_t i = 0; i < count; i++) {
            s->mean_log += result_log(batch, runs[i]) / (double)count;
            s->reached_count += runs[i]->has_reached;
        }
        if (s->reached_count < count || count == 0)
            continue;
        for (size_t i = 0; i < count; i++)
            own_squares += pow(result_log(batch, runs[i]) - s->mean_log, 2.0);
        squares += own_squares;
        weight += (double)count - 1.0;
    }
    return squares / weight;
}

void lull_batch_reset_min_cost(struct lull_batch *batch)
{
    batch->min_cost = INFINITY;
    for (size_t i = batch->first_result; i < batch->result_count; i++) {
        const struct lull_batch_run *run = &batch->runs[batch->results[i]];

        if (run->has_reached && run->cost < batch->min_cost)
            batch->min_cost = run->cost;
    }
}

/* ---- changed data -------------------------------------------------------------------------- */

/* One side: how far results lie beyond what is expected. Returns true when it is too far. */
static bool batch_history_accumulate(struct lull_batch_side *side, double surprise, size_t result)
{
    const double slack = 0.5;
    const double limit = 8.0;

    if (side->sum == 0.0)
        side->since = result;
    side->sum = fmax(0.0, side->sum + surprise - slack);
    return side->sum > limit;
}

/* A result is compared with what its own size has cost, so that trying another size does not look
 * like a change of the data. */
bool lull_batch_change_test(struct lull_batch *batch, const struct lull_batch_run *run)
{
    enum { MIN_RESULTS = 2 };
    const double most = 3.0; /* deviations that one result counts: three at least make a change */
    struct lull_batch_summary summaries[LULL_BATCH_SIZES];
    const double variance = lull_batch_summarize(batch, summaries);
    const struct lull_batch_summary *s = &summaries[run->arm];
    double surprise;
    bool is_above;
    bool is_below;

    if (s->count < MIN_RESULTS || s->reached_count == 0)
        return false;
    surprise = (result_log(batch, run) - s->mean_log) / sqrt(variance * (1.0 + 1.0 / s->count));
    surprise = fmax(-most, fmin(most, surprise));
    is_above = batch_history_accumulate(&batch->above, surprise, batch->result_count);
    is_below = batch_history_accumulate(&batch->below, -surprise, batch->result_count);
    if (!is_above && !is_below)
        return false;
    batch->first_result = batch->below.since;
    if (is_above)
        batch->first_result = batch->above.since;
    batch->above = batch->below = (struct lull_batch_side){0};
    batch->change_count++;
    return true;
}
