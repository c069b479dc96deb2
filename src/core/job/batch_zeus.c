/*
 * Zeus's policy: rounds of pruning from a base downwards and upwards, then Thompson sampling with
 * one Gaussian per surviving size (NSDI'23, section 4.3 and 4.4, algorithms 1 to 3).
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>
#include <string.h>

#include "core/job/batch_state.h"
#include "core/stats/random.h"

enum { NONE = UINT32_MAX, LEAST_RESULTS = 2 };

/* ---- pruning ------------------------------------------------------------------------------ */

/* The next size alive from `from` on in the walk's direction; NONE: the walk is over. */
static uint32_t walk(const struct lull_batch *batch, int64_t from, bool is_upward)
{
    for (int64_t arm = from; arm >= 0 && arm < (int64_t)batch->config.size_count;
         arm += is_upward ? 1 : -1)
        if (batch->pruning.is_alive[arm])
            return (uint32_t)arm;
    return NONE;
}

static void begin_round(struct lull_batch *batch)
{
    struct lull_batch_pruning *pruning = &batch->pruning;

    memset(pruning->has_reached, 0, sizeof(pruning->has_reached));
    pruning->cheapest = NONE;
    pruning->cheapest_cost = INFINITY;
    pruning->is_upward = false;
    pruning->next = pruning->base;
}

/* No size is left: the cheapest that ever reached the target, or where it all began. */
static void fall_back(struct lull_batch *batch)
{
    const int cheapest = lull_batch_cheapest_arm(batch);
    struct lull_batch_pruning *pruning = &batch->pruning;

    memset(pruning->is_alive, 0, sizeof(pruning->is_alive));
    pruning->is_alive[cheapest >= 0 ? (uint32_t)cheapest : batch->default_arm] = true;
    pruning->is_over = true;
    batch->is_lifted = true;
}

static void end_round(struct lull_batch *batch)
{
    struct lull_batch_pruning *pruning = &batch->pruning;

    if (pruning->cheapest == NONE) {
        fall_back(batch);
        return;
    }
    memcpy(pruning->is_alive, pruning->has_reached, sizeof(pruning->is_alive));
    pruning->base = pruning->cheapest;
    pruning->round++;
    pruning->is_over = pruning->round == batch->config.rounds;
    begin_round(batch);
}

void lull_batch_zeus_init(struct lull_batch *batch)
{
    struct lull_batch_pruning *pruning = &batch->pruning;

    const int cheapest = lull_batch_cheapest_arm(batch);

    *pruning = (struct lull_batch_pruning){0};
    for (uint32_t arm = 0; arm < batch->config.size_count; arm++)
        pruning->is_alive[arm] = true;
    pruning->base = cheapest >= 0 ? (uint32_t)cheapest : batch->default_arm;
    begin_round(batch);
}

void lull_batch_zeus_submitted(struct lull_batch *batch, const struct lull_batch_run *run)
{
    struct lull_batch_pruning *pruning = &batch->pruning;

    if (!pruning->is_over && pruning->awaited_id == 0 && run->arm == pruning->next)
        pruning->awaited_id = run->id;
}

/* Onwards from an explored size: one that has failed ends its walk. */
static void advance(struct lull_batch *batch, bool has_reached)
{
    struct lull_batch_pruning *pruning = &batch->pruning;
    uint32_t next = NONE;

    if (has_reached)
        next =
            walk(batch, (int64_t)pruning->next + (pruning->is_upward ? 1 : -1), pruning->is_upward);
    if (next == NONE && !pruning->is_upward) {
        pruning->is_upward = true;
        next = walk(batch, (int64_t)pruning->base + 1, true);
    }
    if (next == NONE)
        end_round(batch);
    else
        pruning->next = next;
}

void lull_batch_zeus_ended(struct lull_batch *batch, const struct lull_batch_run *run,
                           bool has_result)
{
    struct lull_batch_pruning *pruning = &batch->pruning;

    if (run->id != pruning->awaited_id)
        return;
    pruning->awaited_id = 0;
    if (!has_result)
        return;
    pruning->has_reached[run->arm] = run->has_reached;
    if (run->has_reached && run->cost < pruning->cheapest_cost) {
        pruning->cheapest = run->arm;
        pruning->cheapest_cost = run->cost;
    }
    advance(batch, run->has_reached);
}

/* ---- bandit ------------------------------------------------------------------------------- */

/* Refitted from the results in the window: with no prior, the mean and its standard error. */
void lull_batch_zeus_believe(const struct lull_batch *batch, uint32_t arm,
                             struct lull_batch_belief *belief)
{
    const struct lull_batch_run *runs[LULL_BATCH_RESULTS];
    const size_t count = lull_batch_results(batch, arm, runs, LULL_BATCH_RESULTS);
    double sum = 0.0;
    double squares = 0.0;
    double least;

    *belief = (struct lull_batch_belief){.count = count,
                                         .mean = NAN,
                                         .deviation = NAN,
                                         .is_candidate = batch->pruning.is_alive[arm]};
    if (count == 0)
        return;
    for (size_t i = 0; i < count; i++)
        sum += runs[i]->cost;
    belief->mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (runs[i]->cost - belief->mean) * (runs[i]->cost - belief->mean);
    belief->deviation = sqrt(squares / (double)count / (double)count);
    least = batch->config.deviation_floor_ratio * fabs(belief->mean);
    if (belief->deviation < least)
        belief->deviation = least;
}

static void permute(void *context, uint32_t *arms, size_t count)
{
    for (size_t i = count; i > 1; i--) {
        const size_t other = (size_t)lull_random_below(context, i);
        const uint32_t arm = arms[i - 1];

        arms[i - 1] = arms[other];
        arms[other] = arm;
    }
}

static double draw_normal(void *context, uint32_t arm, double mean, double deviation)
{
    (void)arm;
    return lull_random_normal(context, mean, deviation);
}

static uint32_t sample(const struct lull_batch *batch, const struct lull_batch_draws *draws)
{
    uint32_t order[LULL_BATCH_SIZES];
    struct lull_batch_belief beliefs[LULL_BATCH_SIZES];
    double least = INFINITY;
    uint32_t best = NONE;
    size_t count = 0;

    for (uint32_t arm = 0; arm < batch->config.size_count; arm++)
        if (batch->pruning.is_alive[arm]) {
            lull_batch_zeus_believe(batch, arm, &beliefs[arm]);
            order[count++] = arm;
        }
    draws->permute(draws->context, order, count);
    for (size_t i = 0; i < count; i++)
        if (beliefs[order[i]].count < LEAST_RESULTS)
            return order[i];
    for (uint32_t arm = 0; arm < batch->config.size_count; arm++) {
        double cost;

        if (!batch->pruning.is_alive[arm])
            continue;
        cost = draws->normal(draws->context, arm, beliefs[arm].mean, beliefs[arm].deviation);
        if (best == NONE || cost < least) {
            least = cost;
            best = arm;
        }
    }
    return best;
}

void lull_batch_zeus_choose(const struct lull_batch *batch, struct lull_batch_choice *choice)
{
    const struct lull_batch_pruning *pruning = &batch->pruning;
    const int cheapest = lull_batch_cheapest_arm(batch);
    struct lull_random random;
    const struct lull_batch_draws seeded = {&random, permute, draw_normal};

    if (!pruning->is_over && pruning->awaited_id == 0) {
        choice->size = batch->sizes[pruning->next];
        choice->is_exploring = true;
    } else if (!pruning->is_over) {
        choice->size = batch->sizes[cheapest >= 0 ? (uint32_t)cheapest : batch->default_arm];
    } else {
        lull_random_init(&random, lull_batch_draw_seed(batch));
        choice->size = batch->sizes[sample(
            batch, batch->config.draws.normal != NULL ? &batch->config.draws : &seeded)];
    }
}
