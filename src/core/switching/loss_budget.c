/* SPDX-License-Identifier: Apache-2.0 */
#include "core/switching/loss_budget.h"

#include <assert.h>
#include <math.h>
#include <stdbool.h>

/* Iterations over which the reference is averaged. Default: as many as keep its error
 * small beside the tolerance, few enough to follow a job that drifts. */
static const double reference_span = 128.0;
/* At most this share of the earned time is reserved. Chosen with tools/audit-guard. */
static const double reserved_share = 0.25;
/* A loss counts in full from so many standard errors on. */
static const double certain_errors = 2.0;

void lull_loss_budget_take_other(struct lull_loss_budget *budget, double iteration_ms)
{
    budget->earned_ms += budget->rate * iteration_ms;
}

void lull_loss_budget_take_reference(struct lull_loss_budget *budget, double iteration_ms)
{
    struct lull_recent_level *level = &budget->reference;
    double weight;
    double delta;

    lull_loss_budget_take_other(budget, iteration_ms);
    level->count = fmin(level->count + 1.0, reference_span);
    weight = 1.0 / level->count;
    delta = iteration_ms - level->mean_ms;
    level->mean_ms += weight * delta;
    level->variance = (1.0 - weight) * (level->variance + weight * delta * delta);
}

void lull_loss_budget_take_lowered(struct lull_loss_budget *budget, double iteration_ms)
{
    lull_loss_budget_take_other(budget, iteration_ms);
    budget->at_risk_ms += budget->risk_ratio * iteration_ms;
    if (budget->reference.count > 0.0)
        lull_moments_add(&budget->excess_ms, iteration_ms - budget->reference.mean_ms);
}

void lull_loss_budget_correct(struct lull_loss_budget *budget, double then_ms, double since_ms,
                              double count)
{
    if (budget->excess_ms.count == 0)
        return;
    budget->excess_ms.mean += (then_ms - since_ms) / 2.0 * count / (double)budget->excess_ms.count;
}

static double error_ms(const struct lull_loss_budget *budget)
{
    if (budget->excess_ms.count < 2 || budget->reference.count < 2.0)
        return INFINITY;
    return sqrt(lull_moments_variance(&budget->excess_ms) / (double)budget->excess_ms.count +
                budget->reference.variance / budget->reference.count);
}

/* Returns whether the mean loss of the present point is known to the rate. */
static bool loss_budget_is_known(const struct lull_loss_budget *budget)
{
    return error_ms(budget) <= budget->rate * budget->reference.mean_ms;
}

/* The variance of the sum of the present point's excesses. With
 * a single iteration the variance at the reference is used. */
static double sum_variance(const struct lull_loss_budget *budget)
{
    const double count = (double)budget->excess_ms.count;
    const double error = error_ms(budget);

    if (isfinite(error))
        return count * count * error * error;
    return count * budget->reference.variance;
}

/* The part of a loss that is certain. */
static double certain_ms(const struct lull_sum_loss *loss)
{
    const double error = sqrt(loss->variance);

    if (loss->ms > certain_errors * error)
        return loss->ms;
    return fmax(loss->ms - error, 0.0);
}

static struct lull_sum_loss present_loss(const struct lull_loss_budget *budget)
{
    return (struct lull_sum_loss){
        .ms = (double)budget->excess_ms.count * budget->excess_ms.mean,
        .variance = sum_variance(budget),
    };
}

/* Returns the cost of the present point alone. */
static double point_spent_ms(const struct lull_loss_budget *budget)
{
    const struct lull_sum_loss loss = present_loss(budget);

    if (loss_budget_is_known(budget))
        return certain_ms(&loss);
    if (!isfinite(error_ms(budget)))
        return budget->at_risk_ms;
    return fmax(certain_ms(&loss), budget->at_risk_ms);
}

/* Adds one more point to the known ones. Losses that are uncertain each may add
 * up to a certain one. A gain of one point never offsets the loss of another. */
static struct lull_sum_loss loss_budget_pool(const struct lull_sum_loss *pooled,
                                             const struct lull_sum_loss *loss)
{
    return (struct lull_sum_loss){
        .ms = pooled->ms + fmax(loss->ms, 0.0),
        .variance = pooled->variance + loss->variance,
    };
}

/* Returns the cost of all points. */
static double spent_ms(const struct lull_loss_budget *budget)
{
    const struct lull_sum_loss present = present_loss(budget);
    const struct lull_sum_loss all = loss_budget_pool(&budget->pooled, &present);

    if (budget->excess_ms.count == 0 || loss_budget_is_known(budget))
        return budget->charged_ms + certain_ms(&all);
    return budget->charged_ms + certain_ms(&budget->pooled) + point_spent_ms(budget);
}

void lull_loss_budget_change_point(struct lull_loss_budget *budget)
{
    const struct lull_sum_loss loss = present_loss(budget);

    if (budget->excess_ms.count == 0)
        return;
    assert(budget->reference.count > 0.0);
    budget->last_ratio =
        point_spent_ms(budget) / (double)budget->excess_ms.count / budget->reference.mean_ms;
    if (loss_budget_is_known(budget))
        budget->pooled = loss_budget_pool(&budget->pooled, &loss);
    else
        budget->charged_ms += point_spent_ms(budget);
    budget->at_risk_ms = 0.0;
    budget->excess_ms = (struct lull_moments){0};
}

double lull_loss_budget_left_ms(const struct lull_loss_budget *budget, double reserved_iterations)
{
    const double reserved_ms =
        fmin(reserved_share * budget->earned_ms, reserved_iterations * budget->reference.mean_ms);

    return budget->earned_ms - spent_ms(budget) - reserved_ms;
}

double lull_loss_budget_expected_ms(const struct lull_loss_budget *budget)
{
    if (budget->excess_ms.count > 0)
        return point_spent_ms(budget) / (double)budget->excess_ms.count;
    return budget->last_ratio * budget->reference.mean_ms;
}

double lull_loss_budget_slowdown(const struct lull_loss_budget *budget, double *error_out)
{
    *error_out = error_ms(budget) / budget->reference.mean_ms;
    if (budget->excess_ms.count == 0)
        return 0.0;
    return budget->excess_ms.mean / budget->reference.mean_ms;
}
