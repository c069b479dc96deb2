/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_steer.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* A raising happens at least this many rounds after the last orders, and later if no job would
 * rise by more than a level. Measured with cluster/bench/bench_budget.py: two rounds are enough to
 * see the effect of the last orders; the later one is chosen. */
enum { ROUNDS_TO_RAISE = 2, ROUNDS_TO_REFINE = 10 };

/* A cap counts as another one from this on; one that is not there is higher than any. Chosen. */
static const double higher_ratio = 0.01;

/* A GPU that draws less than this part of its power limit is not held by it: boards hold their mean
 * power within a percent or two of the limit, meters are good to some more. */
static const double free_ratio = 0.9;

enum { TOP = LULL_POWER_LEVELS - 1 };

struct steered {
    struct lull_steered_gpu facts;
    struct lull_power_draw draw;
    double power_w[LULL_POWER_LEVELS]; /* as predicted in this round */
    uint32_t level;
    double limit_w; /* 0: none is ordered */
    uint32_t looks_taken;
};

struct lull_power_steer {
    uint32_t gpu_count;
    uint32_t rounds;  /* since the last orders */
    uint32_t careful; /* for so many rounds less is aimed at, because a cap has fallen */
    double *caps_w;   /* [group] as in the round before */
    uint32_t cap_count;
    struct steered *gpus;
};

/* Working data of one round. */
struct steer_round {
    const struct lull_steer_update *update;
    struct lull_power_group *groups; /* with the targets */
    uint32_t group_count;
    uint32_t job_count;
    struct lull_power_claimant *claimants; /* [job] */
    struct lull_power_claim *parts;        /* [gpu] */
    uint32_t part_count;
    uint32_t *levels; /* [job] */
    double *group_w;  /* [group] */
    double *give_w;   /* [group] what a power limit may lower */
};

int lull_power_steer_create(const struct lull_steered_gpu *gpus, uint32_t gpu_count,
                            struct lull_power_steer **steer_out)
{
    struct lull_power_steer *steer = calloc(1, sizeof(*steer));

    if (steer == NULL)
        return -ENOMEM;
    steer->gpus = calloc(gpu_count + 1, sizeof(*steer->gpus));
    if (steer->gpus == NULL) {
        free(steer);
        return -ENOMEM;
    }
    steer->gpu_count = gpu_count;
    for (uint32_t i = 0; i < gpu_count; i++) {
        struct steered *gpu = &steer->gpus[i];
        const double cap_ratio = gpus[i].highest_mhz == 0 || gpus[i].cap_mhz == 0
                                     ? 1.0
                                     : (double)gpus[i].cap_mhz / gpus[i].highest_mhz;

        gpu->facts = gpus[i];
        lull_power_draw_init(&gpu->draw, gpus[i].lowest_mhz, gpus[i].highest_mhz);
        gpu->level = TOP;
        while (gpu->level > 0 && gpu->draw.clock_ratio[gpu->level - 1] >= cap_ratio &&
               cap_ratio < 1.0)
            gpu->level--;
    }
    *steer_out = steer;
    return 0;
}

void lull_power_steer_destroy(struct lull_power_steer *steer)
{
    if (steer == NULL)
        return;
    free(steer->gpus);
    free(steer->caps_w);
    free(steer);
}

/* --- power of the GPUs --- */

/* Returns the highest clock that a GPU is allowed; 0: any. */
static uint32_t order_mhz(const struct steered *gpu)
{
    if (gpu->level == TOP || gpu->facts.highest_mhz == 0)
        return 0;
    return (uint32_t)lround(gpu->draw.clock_ratio[gpu->level] * gpu->facts.highest_mhz);
}

/* A GPU at its power limit draws the limit, so that the reading does not show its demand. A
 * reading below the limit does. */
static bool is_free_of_limit(const struct steered *gpu, double power_w)
{
    return gpu->limit_w == 0.0 || power_w < free_ratio * gpu->limit_w;
}

static void power_steer_update(struct lull_power_steer *steer,
                               const struct lull_steer_update *update)
{
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        struct steered *gpu = &steer->gpus[i];
        const bool is_of_order = update[i].cap_mhz == order_mhz(gpu);

        if (!update[i].is_away && update[i].power_w > 0.0 && update[i].looks != gpu->looks_taken &&
            is_of_order && is_free_of_limit(gpu, update[i].power_w))
            lull_power_draw_take(&gpu->draw, gpu->level, update[i].clock_mhz, update[i].power_w);
        gpu->looks_taken = update[i].looks;
        lull_power_draw_predict(&gpu->draw, gpu->facts.unknown_w, gpu->power_w);
    }
}

/* --- the shares --- */

/* Returns the lowest level whose clock is not below a part of the highest. */
static uint32_t level_of(const struct steered *gpu, double ratio)
{
    uint32_t level = 0;

    while (level < TOP && gpu->draw.clock_ratio[level] < ratio - 1e-9)
        level++;
    return level;
}

/* A GPU that does not get to a level is no faster there, and holds up its job. The speeds still
 * rise by a negligible amount, so that a level that costs no watts is always granted. */
static void power_steer_slow_down(struct lull_power_claimant *claimant,
                                  const struct lull_steered_job *job, const struct steered *gpu)
{
    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++) {
        const uint32_t at = k < gpu->draw.reach ? k : gpu->draw.reach;
        const double time = 1.0 - job->clock_bound + job->clock_bound / gpu->draw.clock_ratio[at];

        claimant->speed[k] = fmin(claimant->speed[k], 1.0 / time + 1e-9 * k);
    }
}

static void describe_claimant(struct lull_power_claimant *claimant)
{
    *claimant = (struct lull_power_claimant){.level_count = LULL_POWER_LEVELS};
    for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++)
        claimant->speed[k] = INFINITY;
}

/* Each GPU is a part of its job's claim: the most demanding one sets the lowest level of the
 * job. */
static void describe_claims(const struct lull_power_steer *steer,
                            const struct lull_steered_job *jobs, struct steer_round *round)
{
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        const struct steered *gpu = &steer->gpus[i];
        const struct lull_steer_update *update = &round->update[i];
        struct lull_power_claimant *claimant = &round->claimants[update->job];
        const double floor_ratio =
            gpu->facts.highest_mhz == 0 ? 0.0 : (double)update->floor_mhz / gpu->facts.highest_mhz;
        uint32_t least;

        assert(update->job < round->job_count && gpu->facts.group < round->group_count);
        if (update->is_away) { /* its order stays, and its power is unknown */
            for (uint32_t g = gpu->facts.group; g != LULL_POWER_NO_GROUP;
                 g = round->groups[g].parent)
                round->groups[g].cap_w -= gpu->power_w[gpu->level];
            continue;
        }
        if (claimant->level_count == 0)
            describe_claimant(claimant);
        power_steer_slow_down(claimant, &jobs[update->job], gpu);
        least = level_of(gpu, fmax(jobs[update->job].min_ratio, floor_ratio));
        if (least > claimant->least)
            claimant->least = least;
        claimant->weight += jobs[update->job].weight;
        round->parts[round->part_count] =
            (struct lull_power_claim){.claimant = update->job, .group = gpu->facts.group};
        for (uint32_t k = 0; k < LULL_POWER_LEVELS; k++)
            round->parts[round->part_count].power_w[k] = gpu->power_w[k];
        round->part_count++;
    }
    for (uint32_t j = 0; j < round->job_count; j++)
        if (round->claimants[j].level_count == 0) /* no GPU has it now */
            round->claimants[j] =
                (struct lull_power_claimant){.weight = 1.0, .level_count = 1, .speed = {1.0}};
}

/* Returns whether the current orders keep the caps and put no GPU below the least level of its
 * job. */
static bool power_steer_is_kept(const struct lull_power_steer *steer,
                                const struct steer_round *round)
{
    for (uint32_t g = 0; g < round->group_count; g++)
        round->group_w[g] = 0.0;
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        const struct steered *gpu = &steer->gpus[i];

        if (round->update[i].is_away)
            continue;
        if (gpu->level < round->claimants[round->update[i].job].least || gpu->limit_w > 0.0)
            return false;
        for (uint32_t g = gpu->facts.group; g != LULL_POWER_NO_GROUP; g = round->groups[g].parent)
            round->group_w[g] += gpu->power_w[gpu->level];
    }
    for (uint32_t g = 0; g < round->group_count; g++)
        if (round->group_w[g] > round->groups[g].cap_w)
            return false;
    return true;
}

/* Makes place for the caps of so many groups. Those that were not there before had none. */
static int make_place(struct lull_power_steer *steer, uint32_t group_count)
{
    double *caps_w;

    if (group_count <= steer->cap_count)
        return 0;
    caps_w = realloc(steer->caps_w, group_count * sizeof(*caps_w));
    if (caps_w == NULL)
        return -ENOMEM;
    for (uint32_t g = steer->cap_count; g < group_count; g++)
        caps_w[g] = INFINITY;
    steer->caps_w = caps_w;
    steer->cap_count = group_count;
    return 0;
}

/* Stores the caps, and derives the targets from them. If a cap was raised, the effect of the
 * last orders need not be awaited. */
static void take_caps(struct lull_power_steer *steer, struct steer_round *round)
{
    bool has_fallen = false;

    for (uint32_t g = 0; g < round->group_count; g++) {
        const double cap_w = round->groups[g].cap_w;

        if (cap_w > steer->caps_w[g] * (1.0 + higher_ratio))
            steer->rounds = ROUNDS_TO_RAISE;
        has_fallen = has_fallen || cap_w < steer->caps_w[g] * (1.0 - higher_ratio);
        steer->caps_w[g] = cap_w;
    }
    if (has_fallen)
        steer->careful = ROUNDS_TO_RAISE;
    else if (steer->careful > 0)
        steer->careful--;
    for (uint32_t g = 0; g < round->group_count; g++)
        round->groups[g].cap_w *=
            steer->careful > 0 ? LULL_POWER_STEER_CAREFUL_AIM : LULL_POWER_STEER_AIM;
}

/* Returns whether new levels are worth the orders where the present ones keep the caps. */
static bool is_worth_it(const struct lull_power_steer *steer, const struct steer_round *round)
{
    bool is_better = false;
    bool is_finer = false;

    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        const struct steered *gpu = &steer->gpus[i];
        const uint32_t level = round->levels[round->update[i].job];

        if (round->update[i].is_away)
            continue;
        is_finer = is_finer || level != gpu->level;
        is_better = is_better || level > gpu->level + 1 || level + 1 < gpu->level ||
                    (level == TOP && gpu->level != TOP);
    }
    return (is_better && steer->rounds >= ROUNDS_TO_RAISE) ||
           (is_finer && steer->rounds >= ROUNDS_TO_REFINE);
}

/* --- power limits --- */

/* Finds the reduction by power limits in each group: the power of its
 * GPUs at their levels above its cap, from the GPUs that may be limited. */
static void sum_limits(const struct lull_power_steer *steer, const struct lull_steered_job *jobs,
                       struct steer_round *round)
{
    for (uint32_t g = 0; g < round->group_count; g++)
        round->group_w[g] = round->give_w[g] = 0.0;
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        const struct steered *gpu = &steer->gpus[i];
        const struct lull_steer_update *update = &round->update[i];
        const double w = gpu->power_w[gpu->level];
        const bool may_give = gpu->facts.lowest_limit_w > 0.0 && update->floor_mhz == 0 &&
                              jobs[update->job].min_ratio == 0.0 && gpu->level == 0;

        if (update->is_away)
            continue;
        for (uint32_t g = gpu->facts.group; g != LULL_POWER_NO_GROUP; g = round->groups[g].parent) {
            round->group_w[g] += w;
            round->give_w[g] += may_give ? fmax(w - gpu->facts.lowest_limit_w, 0.0) : 0.0;
        }
    }
}

/* Returns the power limit that the groups around a GPU leave it; 0: they need none, or none that
 * can be set would lower it. */
static double power_steer_limit_of(const struct steered *gpu, const struct steer_round *round)
{
    const double w = gpu->power_w[gpu->level];
    const double can_give_w = fmax(w - gpu->facts.lowest_limit_w, 0.0);
    double part = 0.0;

    for (uint32_t g = gpu->facts.group; g != LULL_POWER_NO_GROUP; g = round->groups[g].parent) {
        const double over_w = round->group_w[g] - round->groups[g].cap_w;

        if (over_w > 0.0 && round->give_w[g] > 0.0)
            part = fmax(part, fmin(over_w / round->give_w[g], 1.0));
    }
    return part * can_give_w > 0.0 ? w - part * can_give_w : 0.0;
}

/* Orders power limits where needed; returns the remaining excess over a cap. */
static double order_limits(struct lull_power_steer *steer, const struct lull_steered_job *jobs,
                           struct steer_round *round)
{
    double excess_w = 0.0;

    sum_limits(steer, jobs, round);
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        struct steered *gpu = &steer->gpus[i];
        const struct lull_steer_update *update = &round->update[i];

        if (update->is_away)
            continue;
        gpu->limit_w = 0.0;
        if (gpu->facts.lowest_limit_w > 0.0 && update->floor_mhz == 0 &&
            jobs[update->job].min_ratio == 0.0 && gpu->level == 0)
            gpu->limit_w = power_steer_limit_of(gpu, round);
    }
    for (uint32_t g = 0; g < round->group_count; g++)
        excess_w = fmax(excess_w, round->group_w[g] - round->groups[g].cap_w - round->give_w[g]);
    return excess_w;
}

/* --- a round --- */

/* Puts the GPUs to the levels of their jobs. */
static void order_levels(struct lull_power_steer *steer, const struct steer_round *round)
{
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        struct steered *gpu = &steer->gpus[i];
        const uint32_t level = round->levels[round->update[i].job];

        if (round->update[i].is_away || level == gpu->level)
            continue;
        gpu->level = level;
        steer->rounds = 0;
    }
}

static void write_orders(const struct lull_power_steer *steer, struct lull_steer_order *orders_out)
{
    for (uint32_t i = 0; i < steer->gpu_count; i++) {
        const struct steered *gpu = &steer->gpus[i];
        orders_out[i] = (struct lull_steer_order){order_mhz(gpu), gpu->limit_w};
    }
}

static bool power_steer_allocate(struct steer_round *round, uint32_t gpu_count)
{
    round->groups = calloc(round->group_count + 1, sizeof(*round->groups));
    round->claimants = calloc(round->job_count + 1, sizeof(*round->claimants));
    round->parts = calloc(gpu_count + 1, sizeof(*round->parts));
    round->levels = calloc(round->job_count + 1, sizeof(*round->levels));
    round->group_w = calloc(round->group_count + 1, sizeof(*round->group_w));
    round->give_w = calloc(round->group_count + 1, sizeof(*round->give_w));
    return round->groups != NULL && round->claimants != NULL && round->parts != NULL &&
           round->levels != NULL && round->group_w != NULL && round->give_w != NULL;
}

static void power_steer_release(struct steer_round *round)
{
    free(round->groups);
    free(round->claimants);
    free(round->parts);
    free(round->levels);
    free(round->group_w);
    free(round->give_w);
}

int lull_power_steer_decide(struct lull_power_steer *steer, const struct lull_steer_view *view,
                            struct lull_steer_order *orders_out, double *excess_w_out)
{
    struct steer_round round = {
        .update = view->update, .group_count = view->group_count, .job_count = view->job_count};
    struct lull_power_claims claims = {.group_count = view->group_count,
                                       .claimant_count = view->job_count};
    double unused_w;
    int result = -ENOMEM;

    if (!power_steer_allocate(&round, steer->gpu_count) || make_place(steer, view->group_count) < 0)
        goto end;
    for (uint32_t g = 0; g < view->group_count; g++)
        round.groups[g] = view->groups[g];
    take_caps(steer, &round);
    power_steer_update(steer, view->update);
    describe_claims(steer, view->jobs, &round);
    claims.groups = round.groups;
    claims.claimants = round.claimants;
    claims.parts = round.parts;
    claims.part_count = round.part_count;
    result = lull_power_share(&claims, round.levels, &unused_w);
    if (result < 0)
        goto end;
    steer->rounds++;
    if (!power_steer_is_kept(steer, &round) || is_worth_it(steer, &round))
        order_levels(steer, &round);
    *excess_w_out = order_limits(steer, view->jobs, &round);
    write_orders(steer, orders_out);
end:
    power_steer_release(&round);
    return result;
}
