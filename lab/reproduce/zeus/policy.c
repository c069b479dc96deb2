/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/reproduce/zeus/policy.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/tuning/batch_state.h"
#include "core/stats/random.h"

/* As published: pruning rounds, results of a size that a Gaussian needs, and attempts at one
 * recurrence before its bound is lifted. */
enum { NONE = UINT32_MAX, ROUNDS = 2, MIN_RESULTS = 2, MAX_ATTEMPTS = 20 };

struct lull_zeus {
    bool is_published;
    struct lull_zeus_draws draws;
    struct lull_batch *batch;
    bool is_alive[LULL_BATCH_SIZES];
    bool has_reached[LULL_BATCH_SIZES]; /* in this round */
    bool is_lifted;                     /* all sizes have failed: runs have no bound any more */
    bool is_over;                       /* pruning is; the Gaussians choose among those alive */
    bool is_upward;                     /* the walk of this round: first downward, then upward */
    uint32_t round;
    uint32_t base;     /* the arm where both walks of this round begin */
    uint32_t next;     /* the arm to explore */
    uint32_t cheapest; /* of the arms that have reached the target in this round; NONE: none */
    double cheapest_cost;
    uint64_t awaited_id; /* the run that explores `next`; 0: there is none */
};

void lull_zeus_config_default(struct lull_zeus_config *config, bool is_published)
{
    *config = (struct lull_zeus_config){.is_published = is_published};
    lull_batch_config_default(&config->batch);
    if (is_published)
        config->batch.window = 0;
}

/* The arm to use when none is explored. */
static uint32_t zeus_policy_fallback(const struct lull_batch *batch)
{
    const int cheapest = lull_batch_cheapest_arm(batch);

    return cheapest >= 0 ? (uint32_t)cheapest : batch->default_arm;
}

/* ---- pruning ------------------------------------------------------------------------------ */

/* The next arm alive from `from` on in the walk's direction; NONE: the walk is over. */
static uint32_t zeus_policy_walk(const struct lull_zeus *zeus, int64_t from)
{
    const int64_t count = (int64_t)zeus->batch->config.size_count;

    for (int64_t arm = from; arm >= 0 && arm < count; arm += zeus->is_upward ? 1 : -1)
        if (zeus->is_alive[arm])
            return (uint32_t)arm;
    return NONE;
}

static void zeus_policy_begin_round(struct lull_zeus *zeus)
{
    memset(zeus->has_reached, 0, sizeof(zeus->has_reached));
    zeus->cheapest = NONE;
    zeus->cheapest_cost = INFINITY;
    zeus->is_upward = false;
    zeus->next = zeus->base;
}

/* All sizes have failed: only the cheapest that ever reached the target is left, or the default. */
static void zeus_policy_keep_one(struct lull_zeus *zeus)
{
    memset(zeus->is_alive, 0, sizeof(zeus->is_alive));
    zeus->is_alive[zeus_policy_fallback(zeus->batch)] = true;
    zeus->is_over = true;
    zeus->is_lifted = true;
}

static void end_round(struct lull_zeus *zeus)
{
    if (zeus->cheapest == NONE) {
        zeus_policy_keep_one(zeus);
        return;
    }
    memcpy(zeus->is_alive, zeus->has_reached, sizeof(zeus->is_alive));
    zeus->base = zeus->cheapest;
    zeus->round++;
    zeus->is_over = zeus->round == ROUNDS;
    zeus_policy_begin_round(zeus);
}

/* Continues from an explored arm; one that has failed ends its walk. */
static void zeus_policy_advance(struct lull_zeus *zeus, bool has_reached)
{
    uint32_t next = NONE;

    if (has_reached)
        next = zeus_policy_walk(zeus, (int64_t)zeus->next + (zeus->is_upward ? 1 : -1));
    if (next == NONE && !zeus->is_upward) {
        zeus->is_upward = true;
        next = zeus_policy_walk(zeus, (int64_t)zeus->base + 1);
    }
    if (next == NONE)
        end_round(zeus);
    else
        zeus->next = next;
}

static void note_end(struct lull_zeus *zeus, const struct lull_batch_run *run, bool has_result)
{
    if (run->id != zeus->awaited_id)
        return;
    zeus->awaited_id = 0;
    if (!has_result)
        return;
    zeus->has_reached[run->arm] = run->has_reached;
    if (run->has_reached && run->cost < zeus->cheapest_cost) {
        zeus->cheapest = run->arm;
        zeus->cheapest_cost = run->cost;
    }
    zeus_policy_advance(zeus, run->has_reached);
}

/* ---- Thompson sampling -------------------------------------------------------------------- */

/* The estimate of an arm's mean cost from its counted results, without a prior. */
struct zeus_belief {
    size_t count;
    double mean; /* J; NAN without a result */
    double deviation;
};

static struct zeus_belief zeus_policy_accept(const struct lull_batch *batch, uint32_t arm)
{
    const struct lull_batch_run *runs[LULL_BATCH_RESULTS];
    const size_t count = lull_batch_results(batch, arm, runs, LULL_BATCH_RESULTS);
    struct zeus_belief belief = {.count = count, .mean = NAN, .deviation = NAN};
    double sum = 0.0;
    double squares = 0.0;

    if (count == 0)
        return belief;
    for (size_t i = 0; i < count; i++)
        sum += runs[i]->cost;
    belief.mean = sum / (double)count;
    for (size_t i = 0; i < count; i++)
        squares += (runs[i]->cost - belief.mean) * (runs[i]->cost - belief.mean);
    belief.deviation = sqrt(squares / (double)count / (double)count);
    return belief;
}

static void zeus_policy_permute(void *context, uint32_t *arms, size_t count)
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

static uint32_t zeus_policy_sample(const struct lull_zeus *zeus,
                                   const struct lull_zeus_draws *draws)
{
    const size_t size_count = zeus->batch->config.size_count;
    uint32_t order[LULL_BATCH_SIZES];
    struct zeus_belief beliefs[LULL_BATCH_SIZES];
    double least = INFINITY;
    uint32_t best = NONE;
    size_t count = 0;

    for (uint32_t arm = 0; arm < size_count; arm++)
        if (zeus->is_alive[arm]) {
            beliefs[arm] = zeus_policy_accept(zeus->batch, arm);
            order[count++] = arm;
        }
    draws->permute(draws->context, order, count);
    for (size_t i = 0; i < count; i++)
        if (beliefs[order[i]].count < MIN_RESULTS)
            return order[i];
    for (uint32_t arm = 0; arm < size_count; arm++) {
        double cost;

        if (!zeus->is_alive[arm])
            continue;
        cost = draws->normal(draws->context, arm, beliefs[arm].mean, beliefs[arm].deviation);
        if (best == NONE || cost < least) {
            least = cost;
            best = arm;
        }
    }
    return best;
}

static uint32_t sample_seeded(const struct lull_zeus *zeus)
{
    struct lull_random random;
    const struct lull_zeus_draws seeded = {&random, zeus_policy_permute, draw_normal};

    if (zeus->draws.normal != NULL)
        return zeus_policy_sample(zeus, &zeus->draws);
    lull_random_init(&random, lull_batch_draw_seed(zeus->batch));
    return zeus_policy_sample(zeus, &seeded);
}

/* ---- the search --------------------------------------------------------------------------- */

int lull_zeus_create(const struct lull_zeus_config *config, struct lull_zeus **zeus_out,
                     struct lull_error *err)
{
    struct lull_batch_config batch = config->batch;
    struct lull_zeus *zeus = calloc(1, sizeof(*zeus));
    int rc;

    if (zeus == NULL)
        return lull_error_set(err, -ENOMEM, "not enough memory for a search");
    batch.is_watching = batch.is_watching && !config->is_published;
    rc = lull_batch_create(&batch, &zeus->batch, err);
    if (rc < 0) {
        free(zeus);
        return rc;
    }
    zeus->is_published = config->is_published;
    zeus->draws = config->draws;
    for (size_t arm = 0; arm < batch.size_count; arm++)
        zeus->is_alive[arm] = true;
    zeus->base = zeus->batch->default_arm;
    zeus_policy_begin_round(zeus);
    *zeus_out = zeus;
    return 0;
}

void lull_zeus_destroy(struct lull_zeus *zeus)
{
    if (zeus == NULL)
        return;
    lull_batch_destroy(zeus->batch);
    free(zeus);
}

void lull_zeus_choose(const struct lull_zeus *zeus, uint64_t retry_of,
                      struct lull_batch_choice *choice_out)
{
    const struct lull_batch *batch = zeus->batch;
    const struct lull_batch_run *before;
    uint32_t attempt = 1;
    uint32_t arm;

    if (!zeus->is_published) {
        lull_batch_choose(batch, retry_of, choice_out);
        return;
    }
    *choice_out = (struct lull_batch_choice){0};
    before = retry_of == 0 ? NULL : lull_batch_find_run(batch, retry_of);
    if (before != NULL)
        attempt = before->attempt + 1;
    choice_out->bound = batch->config.beta_ratio * batch->min_cost;
    if (attempt > MAX_ATTEMPTS || zeus->is_lifted)
        choice_out->bound = INFINITY;
    /* NOLINTNEXTLINE(bugprone-branch-clone): their order is that of the published policy. */
    if (attempt > MAX_ATTEMPTS) {
        arm = zeus_policy_fallback(batch);
    } else if (zeus->is_over) {
        arm = sample_seeded(zeus);
    } else if (zeus->awaited_id != 0) {
        arm = zeus_policy_fallback(batch);
    } else {
        arm = zeus->next;
        choice_out->is_exploring = true;
    }
    choice_out->size = batch->sizes[arm];
}

int lull_zeus_apply(struct lull_zeus *zeus, const struct lull_batch_record *record,
                    struct lull_error *err)
{
    const int rc = lull_batch_apply(zeus->batch, record, err);
    const struct lull_batch_run *run;

    if (rc < 0)
        return rc;
    run = lull_batch_find_run(zeus->batch, record->run);
    if (record->event != LULL_BATCH_SUBMITTED)
        note_end(zeus, run, record->event != LULL_BATCH_LOST);
    else if (!zeus->is_over && zeus->awaited_id == 0 && run->arm == zeus->next)
        zeus->awaited_id = run->id;
    return 0;
}

bool lull_zeus_is_pruning(const struct lull_zeus *zeus)
{
    return !zeus->is_over;
}

const struct lull_batch *lull_zeus_history(const struct lull_zeus *zeus)
{
    return zeus->batch;
}
