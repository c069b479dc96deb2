/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/guard.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

#include "core/stats/student.h"

static uint32_t looks(const struct lull_guard_config *config)
{
    return config->max_pairs - config->min_pairs + 1;
}

/* 1 + 1/2 + ... + 1/n */
static double harmonic_sum(uint32_t n)
{
    double sum = 0.0;

    for (uint32_t k = n; k > 0; k--)
        sum += 1.0 / (double)k;
    return sum;
}

void lull_guard_init(struct lull_guard *guard, const struct lull_guard_config *config)
{
    assert(config->tolerance_ratio > 0.0 && config->abort_ratio > 0.0);
    assert(config->confidence > 0.5 && config->confidence < 1.0);
    assert(config->min_pairs >= 2 && config->max_pairs >= config->min_pairs);
    *guard = (struct lull_guard){.config = *config};
    guard->first_error = (1.0 - config->confidence) / harmonic_sum(looks(config));
}

void lull_guard_add(struct lull_guard *guard, double reference, double candidate)
{
    if (!isfinite(reference) || !isfinite(candidate) || reference <= 0.0 || candidate <= 0.0)
        return;
    const double log_ratio = log(candidate) - log(reference);

    lull_moments_add(&guard->log_ratios, log_ratio);
    if (log_ratio > log1p(guard->config.abort_ratio))
        guard->aborted = 1;
}

/* The error budget of the look after this many pairs. */
static double look_error(const struct lull_guard *guard, double pairs)
{
    const double look = pairs - (double)guard->config.min_pairs + 1.0;

    return guard->first_error / fmin(fmax(look, 1.0), (double)looks(&guard->config));
}

/* Distance from the mean log ratio to a bound that errs with this chance, at the present variance.
 */
static double distance_at(const struct lull_guard *guard, double pairs, double error)
{
    return lull_student_quantile(1.0 - error, pairs - 1.0) *
           sqrt(lull_moments_variance(&guard->log_ratios) / pairs);
}

/* Distance to either bound of this one test, as if these pairs had the present variance. */
static double bound_distance(const struct lull_guard *guard, double pairs)
{
    return distance_at(guard, pairs, look_error(guard, pairs));
}

/* The factor by which "degraded" must be rarer than if this test decided nothing but its own rank.
 */
static double union_tests(const struct lull_guard *guard)
{
    return fmax(guard->config.union_tests, 1.0);
}

/*
 * The chance that the last look would say "not degraded", given the pairs so far: the mean over all
 * pairs, predicted from the n seen, is Student's around the present mean with variance
 * s^2 (1/n - 1/max_pairs).
 */
static double chance_to_pass(const struct lull_guard *guard)
{
    const double pairs = (double)guard->log_ratios.count;
    const double all = (double)guard->config.max_pairs;
    const double spread =
        sqrt(lull_moments_variance(&guard->log_ratios) * (1.0 / pairs - 1.0 / all));
    const double room =
        log1p(guard->config.tolerance_ratio) - guard->log_ratios.mean - bound_distance(guard, all);

    if (spread <= 0.0)
        return room > 0.0 ? 1.0 : 0.0;
    return lull_student_cdf(room / spread, pairs - 1.0);
}

double lull_guard_worth(const struct lull_guard_config *config)
{
    if (config->worth_ratio > 0.0)
        return config->worth_ratio;
    return config->tolerance_ratio;
}

/* Whether the candidate brings more than its slowdown costs, as far as the estimate tells. */
static bool pays(const struct lull_guard *guard, double pairs, bool is_last_look)
{
    double error = 0.0;

    if (!is_last_look)
        error = sqrt(lull_moments_variance(&guard->log_ratios) / pairs);
    return guard->log_ratios.mean + error < log1p(lull_guard_worth(&guard->config));
}

enum lull_verdict lull_guard_verdict(const struct lull_guard *guard)
{
    const double pairs = (double)guard->log_ratios.count;
    const double limit = log1p(guard->config.tolerance_ratio);
    const bool is_last_look = guard->log_ratios.count >= guard->config.max_pairs;

    if (guard->aborted)
        return LULL_VERDICT_DEGRADED;
    if (guard->log_ratios.count < guard->config.min_pairs)
        return LULL_VERDICT_UNDECIDED;

    if (guard->log_ratios.mean + bound_distance(guard, pairs) < limit &&
        pays(guard, pairs, is_last_look))
        return LULL_VERDICT_NOT_DEGRADED;
    const double distance =
        distance_at(guard, pairs, look_error(guard, pairs) / union_tests(guard));
    if (guard->log_ratios.mean - distance > log1p(lull_guard_worth(&guard->config)) ||
        is_last_look || chance_to_pass(guard) < LULL_GUARD_HOPELESS / union_tests(guard))
        return LULL_VERDICT_DEGRADED;
    return LULL_VERDICT_UNDECIDED;
}

void lull_guard_estimate(const struct lull_guard *guard, struct lull_guard_estimate *out)
{
    const double pairs = (double)guard->log_ratios.count;
    double distance = INFINITY;

    if (guard->log_ratios.count >= 2)
        distance = bound_distance(guard, pairs);
    *out = (struct lull_guard_estimate){
        .slowdown_ratio = expm1(guard->log_ratios.mean),
        .lower_ratio = isinf(distance) ? -INFINITY : expm1(guard->log_ratios.mean - distance),
        .upper_ratio = expm1(guard->log_ratios.mean + distance),
        .pairs = (uint32_t)guard->log_ratios.count,
    };
}
