/*
 * Predicts trials of the steady point from earlier ones: the slowdown rises in proportion to how
 * far the clock is lowered, near enough over the few points that a tolerance pays for.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <math.h>

#include "core/section/controller/state.h"

/* The share of the tolerance that is aimed at: a proof needs some distance to it, and halves the
 * duty where it does not pass. Measured in virtual time: aimed at so, all of resnet50-ddp, bert-ddp
 * and gpt-fsdp begin with a quarter of a step, which costs 0.86 % of time where 1 % is tolerated.
 */
static const double wanted_share = 0.95;

/* So many trials are needed for an expectation. With one trial the search
 * relied on a hundred noisy iterations of the first clock, and a100-8ranks-rank3 entered a proof
 * that did not pass. */
enum { MIN_TRIALS = 2 };

/* Sums for a fit through the origin. */
struct slope_sums {
    double products;
    double squares;
};

static void expectation_add(struct slope_sums *sums, uint32_t pairs, uint32_t point,
                            double slowdown_ratio)
{
    sums->products += (double)pairs * point * slowdown_ratio;
    sums->squares += (double)pairs * point * point;
}

/* Points far below the result say less of its neighbours than of what is worse there. */
static void add_trials(struct slope_sums *sums, const struct lull_target *steady)
{
    const uint32_t lowest = 2 * (steady->descent.good + 1);

    for (uint32_t i = 0; i < steady->record_count; i++)
        if (steady->records[i].point <= lowest)
            expectation_add(sums, steady->records[i].pairs, steady->records[i].point,
                            steady->records[i].slowdown_ratio);
}

static double expectation_limit_of(const struct lull_controller *controller)
{
    return fmin(controller->config.tolerance_ratio, controller->config.steady_tolerance_ratio);
}

double lull_controller_wanted_ratio(const struct lull_controller *controller)
{
    return wanted_share * expectation_limit_of(controller);
}

double lull_controller_slope(const struct lull_controller *controller,
                             const struct lull_target *steady)
{
    struct lull_guard_estimate kept;
    struct slope_sums sums = {0};

    lull_trial_estimate(&controller->trial, &kept);
    expectation_add(&sums, kept.pairs, steady->descent.good, kept.slowdown_ratio);
    add_trials(&sums, steady);
    return sums.products / sums.squares;
}

void lull_controller_aim(const struct lull_controller *controller, struct lull_target *steady)
{
    const double most = steady->descent.count - 1;
    struct slope_sums sums = {0};
    double expected;

    add_trials(&sums, steady);
    if (steady->record_count < MIN_TRIALS || !(sums.squares > 0.0))
        return;
    expected = most;
    if (sums.products > 0.0)
        expected = expectation_limit_of(controller) * sums.squares / sums.products;
    lull_descent_aim(&steady->descent, (uint32_t)fmin(expected, most));
}
