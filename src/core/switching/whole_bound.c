/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/whole_bound.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>

/* Iterations at the reference over which the level is averaged. Default: it is only
 * compared with iterations nearby. */
static const double level_span = 16.0;
/* The bound is narrowest around a loss of this many iterations. Chosen with tools/audit-guard: from
 * 0.05 to 0.5 the bounds after 3000 iterations differ by a fifth. */
static const double narrowest_loss = 0.1;
/* An excess of a pair's blocks over the neighbouring reference
 * by so many deviations of a block is not due to chance. */
static const double grown_deviations = 2.0;

void lull_whole_bound_init(struct lull_whole_bound *bound, double error)
{
    assert(error > 0.0 && error < 0.5);
    *bound = (struct lull_whole_bound){.error = error};
}

static void take_level(struct lull_whole_bound *bound, double iteration_ms)
{
    bound->level_count = fmin(bound->level_count + 1.0, level_span);
    bound->level_ms += (iteration_ms - bound->level_ms) / bound->level_count;
}

/* Excess of an iteration over the level; 0 as long as there is none. */
static double excess_ms(const struct lull_whole_bound *bound, double iteration_ms)
{
    return bound->level_count > 0.0 ? iteration_ms - bound->level_ms : 0.0;
}

static void whole_bound_count_lowered(struct lull_whole_bound *bound, double iteration_ms)
{
    bound->lowered += 1.0;
    if (bound->scale_ms <= 0.0)
        bound->scale_ms = narrowest_loss * iteration_ms;
}

void lull_whole_bound_take_unplaced(struct lull_whole_bound *bound, double iteration_ms,
                                    bool is_reference)
{
    bound->passed_ms += iteration_ms;
    if (is_reference) {
        take_level(bound, iteration_ms);
        return;
    }
    whole_bound_count_lowered(bound, iteration_ms);
    bound->lost_ms += fmax(excess_ms(bound, iteration_ms), 0.0);
}

/* ---- pairs -------------------------------------------------------------------------------- */

/* The mean slowdown of the point's pairs; 0 before there are any. */
static double effect_ms(const struct lull_whole_bound *bound)
{
    return bound->point.differences.mean * bound->point.level.mean;
}

static void take_contrast(struct lull_whole_pair *pair, double contrast_ms)
{
    lull_moments_add(&pair->squares, contrast_ms * contrast_ms);
    if (!pair->last_is_reference)
        return;
    pair->contrast_ms = contrast_ms;
    pair->has_contrast = true;
}

/* The last block but the one under way is compared with its neighbours. */
static void end_block(struct lull_whole_bound *bound)
{
    struct lull_whole_pair *pair = &bound->pair;
    double mean_ms;

    if (pair->measured == 0)
        return;
    mean_ms = pair->sum_ms / pair->measured;
    if (pair->is_reference) {
        pair->reference_ms = mean_ms;
        mean_ms += effect_ms(bound);
    }
    if (pair->blocks == 1)
        take_contrast(pair, pair->last_ms - mean_ms);
    else if (pair->blocks > 1)
        take_contrast(pair, pair->last_ms - (pair->before_ms + mean_ms) / 2.0);
    pair->blocks++;
    pair->before_ms = pair->last_ms;
    pair->last_ms = mean_ms;
    pair->last_is_reference = pair->is_reference;
    pair->measured = 0;
    pair->sum_ms = 0.0;
}

static void settle_pair(struct lull_whole_bound *bound, bool is_whole)
{
    const struct lull_whole_pair *pair = &bound->pair;
    const double slowdown_ms = effect_ms(bound) - pair->contrast_ms;
    const double square = pair->contrast_ms * pair->contrast_ms;
    const double grown_ms = pair->lowered_ms / pair->lowered - pair->reference_ms - slowdown_ms -
                            grown_deviations * sqrt(pair->squares.mean);

    bound->lost_ms += pair->lowered * slowdown_ms;
    bound->variance += pair->lowered * pair->lowered * (square + 2.0 * pair->squares.mean) / 3.0;
    if (pair->lowered > 0.0)
        bound->charged_ms += pair->lowered * fmax(grown_ms, 0.0);
    if (is_whole)
        lull_guard_add(&bound->point, pair->reference_ms, pair->reference_ms + slowdown_ms);
}

/* The bound of the present point's slowdown. */
static struct lull_guard_estimate find_point_bound(const struct lull_whole_bound *bound)
{
    const double k = (double)bound->bounded_points + 1.0;
    struct lull_guard point = bound->point;
    struct lull_guard_estimate estimate;

    point.config.error = bound->error / ((k + 1.0) * (k + 2.0));
    lull_guard_estimate(&point, &estimate);
    return estimate;
}

static void settle_stretch(struct lull_whole_bound *bound)
{
    const struct lull_whole_pair *pair = &bound->pair;
    const double expected_ms = pair->lowered * effect_ms(bound);
    const struct lull_guard_estimate estimate = find_point_bound(bound);

    if (!isfinite(estimate.upper_ratio)) {
        bound->lost_ms += pair->excess_ms;
        bound->variance += pair->excess_ms * pair->excess_ms;
        return;
    }
    bound->lost_ms += expected_ms;
    bound->charged_ms +=
        fmax(pair->lowered * estimate.upper_ratio * bound->point.level.mean, pair->excess_ms) -
        expected_ms;
}

static void whole_bound_settle(struct lull_whole_bound *bound, bool is_whole)
{
    struct lull_whole_pair *pair = &bound->pair;

    if (!pair->is_open)
        return;
    end_block(bound);
    if (pair->blocks > 1)
        take_contrast(pair, pair->last_ms - pair->before_ms);
    if (pair->has_contrast)
        settle_pair(bound, is_whole);
    else
        settle_stretch(bound);
    *pair = (struct lull_whole_pair){0};
}

void lull_whole_bound_take(struct lull_whole_bound *bound, const struct lull_pair_slot *slot,
                           double iteration_ms)
{
    struct lull_whole_pair *pair = &bound->pair;

    if (pair->is_open && pair->number != slot->pair)
        whole_bound_settle(bound, false);
    if (pair->is_open && pair->block != slot->block)
        end_block(bound);
    pair->is_open = true;
    pair->number = slot->pair;
    pair->block = slot->block;
    bound->passed_ms += iteration_ms;
    bound->paired_ms += iteration_ms;
    if (slot->measured) {
        pair->is_reference = !slot->candidate;
        pair->measured++;
        pair->sum_ms += iteration_ms;
    }
    if (slot->measured && !slot->candidate) {
        take_level(bound, iteration_ms);
    } else {
        whole_bound_count_lowered(bound, iteration_ms);
        pair->lowered += 1.0;
        pair->lowered_ms += iteration_ms;
        pair->excess_ms += excess_ms(bound, iteration_ms);
    }
    if (slot->pair_ends)
        whole_bound_settle(bound, true);
}

void lull_whole_bound_break(struct lull_whole_bound *bound)
{
    whole_bound_settle(bound, false);
}

void lull_whole_bound_change_point(struct lull_whole_bound *bound, const struct lull_guard *seen)
{
    whole_bound_settle(bound, false);
    if (isfinite(find_point_bound(bound).upper_ratio))
        bound->bounded_points++;
    bound->point = seen != NULL ? *seen : (struct lull_guard){0};
}

void lull_whole_bound_charge_carry(struct lull_whole_bound *bound, double carry_ratio)
{
    whole_bound_settle(bound, false);
    bound->charged_ms += carry_ratio * bound->paired_ms;
    bound->paired_ms = 0.0;
}

void lull_whole_bound_forget_level(struct lull_whole_bound *bound)
{
    lull_whole_bound_change_point(bound, NULL);
    bound->level_count = 0.0;
}

/* ---- the run so far ------------------------------------------------------------------------ */

/* Distance that a sum of variance `variance` exceeds at no time but with chance `error`; `scale` is
 * the variance around which it is narrowest. */
static double sum_bound(double variance, double scale, double error)
{
    const double grown = variance / scale + 1.0;

    return sqrt(2.0 * grown * scale * log1p(sqrt(grown) / (2.0 * error)));
}

struct lull_whole_slowdown lull_whole_bound_find(const struct lull_whole_bound *bound)
{
    struct lull_whole_bound now = *bound;
    struct lull_whole_slowdown whole = {NAN, INFINITY};
    double bound_ms;

    whole_bound_settle(&now, false);
    if (now.passed_ms <= 0.0)
        return whole;
    if (now.lowered <= 0.0)
        return (struct lull_whole_slowdown){0.0, 0.0};
    bound_ms = now.lost_ms + now.charged_ms +
               sum_bound(now.variance, now.scale_ms * now.scale_ms, now.error / 2.0);
    if (now.lost_ms < now.passed_ms)
        whole.ratio = now.lost_ms / (now.passed_ms - now.lost_ms);
    if (bound_ms < now.passed_ms)
        whole.upper_ratio = bound_ms / (now.passed_ms - bound_ms);
    return whole;
}
