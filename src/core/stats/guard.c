/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/guard.h"

#include <assert.h>
#include <math.h>

#include "core/stats/student.h"

/* The inverse variance of the mixture over effect sizes. With 0.5 a harmless candidate is confirmed
 * soonest where its pairs deviate by a third of the tolerance to the whole of it; 0.1 and 2 take up
 * to a third longer there (tools/audit-guard, power). */
static const double prior_pairs = 0.5;
/* A test ends when its chance of a verdict within its pairs falls below this. Default: it can only
 * make "not degraded" rarer. */
static const double hopeless = 0.05;
/* A screen judges from this many pairs on, and after the second number by the estimate alone. It
 * refuses a candidate whose slowdown exceeds the worthwhile one by so many standard errors. */
enum { SCREEN_MIN = 3, SCREEN_MAX = 12 };
static const double screen_errors = 2.0;

void lull_guard_init(struct lull_guard *guard, const struct lull_guard_config *config)
{
    assert(config->tolerance_ratio > 0.0 && config->worth_ratio <= config->tolerance_ratio);
    assert(config->error > 0.0 && config->error < 0.5);
    assert(config->refusal_error > 0.0 && config->refusal_error < 0.5);
    assert(config->max_pairs >= SCREEN_MIN);
    *guard = (struct lull_guard){.config = *config};
}

void lull_guard_add(struct lull_guard *guard, double reference, double candidate)
{
    double level;

    if (!isfinite(reference) || !isfinite(candidate) || reference <= 0.0 || candidate <= 0.0)
        return;
    /* The level is known before the pair, so that it does not depend on how its blocks came out. */
    level = guard->level.mean;
    lull_moments_add(&guard->level, reference);
    if (guard->level.count == 1)
        level = guard->level.mean;
    lull_moments_add(&guard->differences, (candidate - reference) / level);
}

double lull_guard_deviation(const struct lull_guard *guard)
{
    if (guard->differences.count < 2)
        return INFINITY;
    return sqrt(lull_moments_variance(&guard->differences) / (double)guard->differences.count);
}

/*
 * Distance from the estimate to the bound after n pairs whose squared deviations add up to
 * `squares`. The mixture martingale against a mean m is
 *   sqrt(c / (n + c)) (1 - S^2 / ((n + c) V))^(-n / 2),   S = sum(d - m), V = sum((d - m)^2),
 * two-sided, so that it reaches 1 / (2 error) on one side with chance `error`. Solved for m.
 */
static double distance_at(double pairs, double squares, double error)
{
    const double c = prior_pairs;
    const double rest = pow(2.0 * error * sqrt(c / (pairs + c)), 2.0 / pairs);
    const double share = (1.0 - rest) * (pairs + c);

    if (share >= pairs)
        return INFINITY;
    return sqrt(share * squares / (pairs * (pairs - share)));
}

static double guard_lower_bound(const struct lull_guard *guard)
{
    const struct lull_moments *seen = &guard->differences;

    if (seen->count < 2)
        return -INFINITY;
    return seen->mean -
           distance_at((double)seen->count, seen->squares, guard->config.refusal_error);
}

static double upper_bound(const struct lull_guard *guard)
{
    const struct lull_moments *seen = &guard->differences;

    if (seen->count < 2 || exp2(-(double)seen->count) > guard->config.error)
        return INFINITY;
    return seen->mean + distance_at((double)seen->count, seen->squares, guard->config.error);
}

enum lull_verdict lull_guard_screen(const struct lull_guard *guard)
{
    const double deviation = lull_guard_deviation(guard);
    double limit = guard->config.tolerance_ratio;

    if (guard->config.worth_ratio > 0.0)
        limit = guard->config.worth_ratio;
    if (guard->differences.count < SCREEN_MIN)
        return LULL_VERDICT_UNDECIDED;
    if (guard->differences.mean + deviation < limit)
        return LULL_VERDICT_NOT_DEGRADED;
    if (guard->differences.mean - screen_errors * deviation > limit)
        return LULL_VERDICT_DEGRADED;
    if (guard->differences.count < SCREEN_MAX)
        return LULL_VERDICT_UNDECIDED;
    return guard->differences.mean < limit ? LULL_VERDICT_NOT_DEGRADED : LULL_VERDICT_DEGRADED;
}

/*
 * The chance that the last look would say "not degraded", given the pairs so far: the mean over all
 * pairs, predicted from the n seen, is Student's around the present mean with variance
 * s^2 (1/n - 1/max_pairs). Changes that are missing so far may be made in later pairs.
 */
static double chance_to_pass(const struct lull_guard *guard)
{
    const double pairs = (double)guard->differences.count;
    const double all = (double)guard->config.max_pairs;
    const double variance = lull_moments_variance(&guard->differences);
    const double room = guard->config.tolerance_ratio - guard->differences.mean -
                        distance_at(all, variance * (all - 1.0), guard->config.error);
    const double spread = sqrt(variance * (1.0 / pairs - 1.0 / all));

    if (spread <= 0.0)
        return room > 0.0 ? 1.0 : 0.0;
    return lull_student_cdf(room / spread, pairs - 1.0);
}

enum lull_verdict lull_guard_verdict(const struct lull_guard *guard)
{
    const double mean = guard->differences.mean;
    const double limit = guard->config.tolerance_ratio;
    /* What the pairs may show, so that all changes together cost no more than the limit. */
    const double tried_limit = limit * (1.0 - guard->untried_ratio);

    if (guard->differences.count < SCREEN_MIN)
        return LULL_VERDICT_UNDECIDED;
    if (upper_bound(guard) < -limit)
        return LULL_VERDICT_UNPROVEN;
    if (upper_bound(guard) < tried_limit && mean >= -limit)
        return LULL_VERDICT_NOT_DEGRADED;
    if (mean > limit && guard_lower_bound(guard) > 0.0)
        return LULL_VERDICT_DEGRADED;
    if (guard->differences.count >= guard->config.max_pairs || chance_to_pass(guard) < hopeless)
        return LULL_VERDICT_UNPROVEN;
    return LULL_VERDICT_UNDECIDED;
}

void lull_guard_estimate(const struct lull_guard *guard, struct lull_guard_estimate *out)
{
    *out = (struct lull_guard_estimate){
        .slowdown_ratio = guard->differences.mean,
        .lower_ratio = guard_lower_bound(guard),
        .upper_ratio = upper_bound(guard),
        .pairs = (uint32_t)guard->differences.count,
    };
}
