/* SPDX-License-Identifier: Apache-2.0 */
#include "core/stats/carry_over.h"

#include <math.h>

#include "core/stats/student.h"

/* Blocks of either kind that make a test. Default: a clean one comes in every fourth
 * pair. */
enum { MIN_CLEAN = 1, MIN_EXPOSED = 3 };
static const double max_errors = 2.0;

void lull_carry_over_add(struct lull_carry_over *carry, bool is_exposed, double deviation_ratio)
{
    lull_moments_add(is_exposed ? &carry->exposed : &carry->clean, deviation_ratio);
}

bool lull_carry_over_is_tested(const struct lull_carry_over *carry)
{
    return carry->clean.count >= MIN_CLEAN && carry->exposed.count >= MIN_EXPOSED;
}

double lull_carry_over_find(const struct lull_carry_over *carry, double min_ratio, double error)
{
    const double exposed = (double)carry->exposed.count;
    const double clean = (double)carry->clean.count;
    const double excess = carry->exposed.mean - carry->clean.mean;
    const double freedom = exposed + clean - 2.0;
    double deviation;

    if (!lull_carry_over_is_tested(carry) || excess <= min_ratio)
        return 0.0;
    deviation = sqrt((carry->exposed.squares + carry->clean.squares) / freedom *
                     (1.0 / exposed + 1.0 / clean));
    if (deviation > 0.0 && 1.0 - lull_student_cdf(excess / deviation, freedom) > error)
        return 0.0;
    return excess + max_errors * deviation;
}
