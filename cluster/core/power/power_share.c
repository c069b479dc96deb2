/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/power_share.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Upper bound on the rounding error of adding and subtracting the same watts; no claimant draws
 * so little. */
static const double rounding_w = 1e-6;

/* A claimant's next step on its hull, which waits for its turn. */
struct share_step {
    double gain_per_w;
    uint32_t claimant;
    uint32_t to;
};

struct share {
    const struct lull_power_claimant *claimants;
    const struct lull_power_claim *parts;
    uint32_t group_count;
    const struct lull_power_group *groups;
    double *room_w;          /* [group]; below 0: it is exceeded */
    uint32_t *by_owner;      /* [part] their numbers, in the order of their claimants */
    uint32_t *first;         /* [claimant + 1] in by_owner */
    struct share_step *heap; /* the highest gain first; then the lowest claimant */
    uint32_t heap_count;
    uint32_t *level;
};

/* --- heap --- */

static bool power_share_is_before(const struct share_step *a, const struct share_step *b)
{
    if (a->gain_per_w != b->gain_per_w)
        return a->gain_per_w > b->gain_per_w;
    return a->claimant < b->claimant;
}

static void power_share_swap(struct share_step *a, struct share_step *b)
{
    const struct share_step old = *a;

    *a = *b;
    *b = old;
}

static void power_share_push(struct share *share, struct share_step step)
{
    uint32_t at = share->heap_count++;

    share->heap[at] = step;
    for (; at > 0 && power_share_is_before(&share->heap[at], &share->heap[(at - 1) / 2]);
         at = (at - 1) / 2)
        power_share_swap(&share->heap[at], &share->heap[(at - 1) / 2]);
}

static struct share_step power_share_pop(struct share *share)
{
    const struct share_step first = share->heap[0];
    uint32_t at = 0;

    share->heap[0] = share->heap[--share->heap_count];
    for (;;) {
        uint32_t best = at;

        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2 && child < share->heap_count; child++)
            if (power_share_is_before(&share->heap[child], &share->heap[best]))
                best = child;
        if (best == at)
            return first;
        power_share_swap(&share->heap[at], &share->heap[best]);
        at = best;
    }
}

/* --- watts --- */

/* Takes the watts between two levels of a part from its group and all groups around it. */
static void power_share_take(struct share *share, const struct lull_power_claim *part,
                             double more_w)
{
    for (uint32_t g = part->group; g != LULL_POWER_NO_GROUP; g = share->groups[g].parent)
        share->room_w[g] -= more_w;
}

static void power_share_take_all(struct share *share, uint32_t claimant, uint32_t from, uint32_t to)
{
    for (uint32_t i = share->first[claimant]; i < share->first[claimant + 1]; i++) {
        const struct lull_power_claim *part = &share->parts[share->by_owner[i]];

        power_share_take(share, part, part->power_w[to] - part->power_w[from]);
    }
}

/* Returns whether any group around the claimant's parts is exceeded. */
static bool is_exceeded(const struct share *share, uint32_t claimant)
{
    for (uint32_t i = share->first[claimant]; i < share->first[claimant + 1]; i++)
        for (uint32_t g = share->parts[share->by_owner[i]].group; g != LULL_POWER_NO_GROUP;
             g = share->groups[g].parent)
            if (share->room_w[g] < -rounding_w)
                return true;
    return false;
}

static double power_share_power_w(const struct share *share, uint32_t claimant, uint32_t level)
{
    double sum_w = 0.0;

    for (uint32_t i = share->first[claimant]; i < share->first[claimant + 1]; i++)
        sum_w += share->parts[share->by_owner[i]].power_w[level];
    return sum_w;
}

/* --- steps --- */

/* Adds the step that gains most for a watt from where the claimant is; of equal ones the longest.
 * Steps that cost nothing come first. */
static void push_next(struct share *share, uint32_t claimant)
{
    const struct lull_power_claimant *who = &share->claimants[claimant];
    const uint32_t from = share->level[claimant];
    const double from_w = power_share_power_w(share, claimant, from);
    struct share_step best = {.claimant = claimant, .to = from, .gain_per_w = -1.0};

    for (uint32_t to = from + 1; to < who->level_count; to++) {
        const double gain = who->weight * log(who->speed[to] / who->speed[from]);
        const double cost_w = power_share_power_w(share, claimant, to) - from_w;
        const double gain_per_w = cost_w > 0.0 ? gain / cost_w : INFINITY;

        if (gain_per_w >= best.gain_per_w) {
            best.gain_per_w = gain_per_w;
            best.to = to;
        }
    }
    if (best.to != from)
        power_share_push(share, best);
}

/* Moves towards a level as far as there is room. Room only shrinks, so a claimant that is stopped
 * stays at its level.
 */
static bool power_share_advance(struct share *share, const struct share_step *step)
{
    uint32_t *level = &share->level[step->claimant];

    for (uint32_t to = step->to; to > *level; to--) {
        power_share_take_all(share, step->claimant, *level, to);
        if (!is_exceeded(share, step->claimant)) {
            *level = to;
            return to == step->to;
        }
        power_share_take_all(share, step->claimant, to, *level);
    }
    return false;
}

static void power_share_begin(struct share *share, uint32_t claimant_count, uint32_t part_count)
{
    for (uint32_t g = 0; g < share->group_count; g++) {
        assert(share->groups[g].parent == LULL_POWER_NO_GROUP || share->groups[g].parent < g);
        share->room_w[g] = share->groups[g].cap_w;
    }
    for (uint32_t i = 0; i < part_count; i++)
        share->first[share->parts[i].claimant + 1]++;
    for (uint32_t c = 0; c < claimant_count; c++)
        share->first[c + 1] += share->first[c];
    for (uint32_t i = part_count; i-- > 0;) /* first[c] moves from the end of c to its start */
        share->by_owner[--share->first[share->parts[i].claimant + 1]] = i;
    memmove(share->first, share->first + 1, claimant_count * sizeof(share->first[0]));
    share->first[claimant_count] = part_count;
    for (uint32_t c = 0; c < claimant_count; c++) {
        const struct lull_power_claimant *who = &share->claimants[c];

        assert(who->level_count > 0 && who->level_count <= LULL_POWER_LEVELS);
        assert(who->least < who->level_count && who->weight > 0.0);
        share->level[c] = who->least;
        for (uint32_t i = share->first[c]; i < share->first[c + 1]; i++)
            power_share_take(share, &share->parts[share->by_owner[i]],
                             share->parts[share->by_owner[i]].power_w[who->least]);
        push_next(share, c);
    }
}

static double most_exceeded_w(const struct share *share)
{
    double excess_w = 0.0;

    for (uint32_t g = 0; g < share->group_count; g++)
        if (share->room_w[g] < -rounding_w)
            excess_w = fmax(excess_w, -share->room_w[g]);
    return excess_w;
}

int lull_power_share(const struct lull_power_claims *claims, uint32_t *level_out,
                     double *excess_w_out)
{
    struct share share = {
        .claimants = claims->claimants,
        .parts = claims->parts,
        .group_count = claims->group_count,
        .groups = claims->groups,
        .room_w = calloc(claims->group_count + 1, sizeof(*share.room_w)),
        .by_owner = calloc(claims->part_count + 1, sizeof(*share.by_owner)),
        .first = calloc(claims->claimant_count + 2, sizeof(*share.first)),
        .heap = calloc(claims->claimant_count + 1, sizeof(*share.heap)),
        .level = calloc(claims->claimant_count + 1, sizeof(*share.level)),
    };
    int result = -ENOMEM;

    if (share.room_w == NULL || share.by_owner == NULL || share.first == NULL ||
        share.heap == NULL || share.level == NULL)
        goto end;
    power_share_begin(&share, claims->claimant_count, claims->part_count);
    while (share.heap_count > 0) {
        const struct share_step step = power_share_pop(&share);

        if (power_share_advance(&share, &step))
            push_next(&share, step.claimant);
    }
    memcpy(level_out, share.level, claims->claimant_count * sizeof(level_out[0]));
    *excess_w_out = most_exceeded_w(&share);
    result = 0;
end:
    free(share.room_w);
    free(share.by_owner);
    free(share.first);
    free(share.heap);
    free(share.level);
    return result;
}
