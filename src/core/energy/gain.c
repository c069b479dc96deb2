/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/gain.h"

#include <math.h>

enum lull_gain_saving lull_gain_judge_saving(double saving_ratio, double low_ratio,
                                             double high_ratio)
{
    if (!isfinite(saving_ratio))
        return LULL_GAIN_SAVING_UNKNOWN;
    if (isnan(low_ratio) || isnan(high_ratio))
        return saving_ratio > 0.0 ? LULL_GAIN_SAVING_ESTIMATED : LULL_GAIN_SAVING_UNPROVEN;
    if (low_ratio > 0.0)
        return LULL_GAIN_SAVING_PROVEN;
    return high_ratio < 0.0 ? LULL_GAIN_SAVING_NEGATIVE : LULL_GAIN_SAVING_UNPROVEN;
}

enum lull_gain_slowdown lull_gain_judge_slowdown(double slowdown_ratio, double upper_ratio,
                                                 double allowed_ratio)
{
    if (!isfinite(slowdown_ratio))
        return LULL_GAIN_SLOWDOWN_UNKNOWN;
    if (slowdown_ratio > allowed_ratio)
        return LULL_GAIN_SLOWDOWN_ABOVE;
    if (!isfinite(upper_ratio))
        return LULL_GAIN_SLOWDOWN_UNBOUNDED;
    return upper_ratio > allowed_ratio ? LULL_GAIN_SLOWDOWN_UNPROVEN : LULL_GAIN_SLOWDOWN_WITHIN;
}
