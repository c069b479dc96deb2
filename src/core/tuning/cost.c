/* SPDX-License-Identifier: Apache-2.0 */
#include "core/tuning/cost.h"

#include <errno.h>
#include <math.h>
#include <string.h>

double lull_job_cost(const struct lull_job_price *price, double energy_j, double time_s)
{
    return price->eta_ratio * energy_j +
           (1.0 - price->eta_ratio) * price->max_power_w * price->gpu_count * time_s;
}

int lull_job_price_check(const struct lull_job_price *price, struct lull_error *err)
{
    if (!(price->eta_ratio >= 0.0 && price->eta_ratio <= 1.0))
        return lull_error_set(err, -EINVAL, "eta %g: must be in 0..1", price->eta_ratio);
    if (!(price->max_power_w >= 0.0 && isfinite(price->max_power_w)) || price->gpu_count == 0)
        return lull_error_set(err, -EINVAL, "%g W, %u GPUs: not a job's power", price->max_power_w,
                              price->gpu_count);
    return 0;
}

static int check_selector(const struct lull_job_selector *selector, struct lull_error *err)
{
    if (selector->aim == LULL_JOB_SLOWDOWN &&
        !(selector->slowdown_ratio >= 0.0 && isfinite(selector->slowdown_ratio)))
        return lull_error_set(err, -EINVAL, "slowdown %g: must be 0 or more",
                              selector->slowdown_ratio);
    if (selector->aim != LULL_JOB_COST)
        return 0;
    return lull_job_price_check(&selector->price, err);
}

/* Measurements come from files, too, so each is checked before it can win. */
static int check_points(const struct lull_cost_point *points, size_t count, struct lull_error *err)
{
    if (count == 0)
        return lull_error_set(err, -EINVAL, "no operating point was measured");
    for (size_t i = 0; i < count; i++)
        if (!isfinite(points[i].level) ||
            !(points[i].energy_j >= 0.0 && isfinite(points[i].energy_j)) ||
            !(points[i].time_s > 0.0 && isfinite(points[i].time_s)))
            return lull_error_set(err, -EINVAL, "point %g: %g J in %g s cannot be", points[i].level,
                                  points[i].energy_j, points[i].time_s);
    return 0;
}

double lull_job_value(const struct lull_job_selector *selector, double energy_j, double time_s)
{
    switch (selector->aim) {
    case LULL_JOB_COST:
        return lull_job_cost(&selector->price, energy_j, time_s);
    case LULL_JOB_TIME:
        return time_s;
    case LULL_JOB_DELAY:
        return energy_j * time_s;
    case LULL_JOB_ENERGY:
    case LULL_JOB_SLOWDOWN:
        break;
    }
    return energy_j;
}

int lull_job_select(const struct lull_job_selector *selector, const struct lull_cost_point *points,
                    size_t count, size_t *index_out, struct lull_error *err)
{
    double longest_s = INFINITY;
    double least = INFINITY;
    size_t highest = 0;
    size_t best = 0;
    int rc = check_selector(selector, err);

    if (rc < 0)
        return rc;
    rc = check_points(points, count, err);
    if (rc < 0)
        return rc;
    for (size_t i = 1; i < count; i++)
        if (points[i].level > points[highest].level)
            highest = i;
    best = highest;
    if (selector->aim == LULL_JOB_SLOWDOWN)
        longest_s = points[highest].time_s * (1.0 + selector->slowdown_ratio);
    for (size_t i = 0; i < count; i++) {
        const double value = lull_job_value(selector, points[i].energy_j, points[i].time_s);

        if (points[i].time_s <= longest_s && value < least) {
            least = value;
            best = i;
        }
    }
    *index_out = best;
    return 0;
}

static const char *const aim_names[] = {[LULL_JOB_COST] = "cost",
                                        [LULL_JOB_ENERGY] = "energy",
                                        [LULL_JOB_TIME] = "time",
                                        [LULL_JOB_SLOWDOWN] = "slowdown",
                                        [LULL_JOB_DELAY] = "energy-delay"};

const char *lull_job_aim_name(enum lull_job_aim aim)
{
    return aim_names[aim];
}

int lull_job_aim_parse(const char *name, enum lull_job_aim *aim_out)
{
    for (size_t i = 0; i < sizeof(aim_names) / sizeof(aim_names[0]); i++)
        if (strcmp(name, aim_names[i]) == 0) {
            *aim_out = (enum lull_job_aim)i;
            return 0;
        }
    return -EINVAL;
}
