/* SPDX-License-Identifier: Apache-2.0 */
#include "core/energy/plausible.h"

#include <math.h>

/* An energy is unknown if no sensor was read for this share of
 * its time and for at least so long. */
static const double blind_ratio = 0.02;
static const double min_blind_s = 0.5;
/* One jump may be a reset of the counter. */
static const uint32_t max_leaps = 1;
/* Sensors of one board differ by this ratio at most, sampling aside: polling in step with the
 * iterations of a job can hide a part of their power. */
static const double max_apart_ratio = 0.2;
static const double deviations = 2.0;
/* Shorter times are too short to compare counter and power. */
static const double min_counted_s = 2.0;

static bool plausible_is_blind(const struct lull_energy_evidence *evidence)
{
    return evidence->blind_s >= min_blind_s && evidence->blind_s > blind_ratio * evidence->seconds;
}

static bool is_contradicted(const struct lull_energy_evidence *evidence)
{
    const double larger_j = fmax(evidence->counted_j, evidence->polled_j);
    const double smaller_j = fmin(evidence->counted_j, evidence->polled_j);
    double allowed_ratio;

    if (evidence->counted_s < min_counted_s || larger_j <= 0.0)
        return false;
    allowed_ratio = max_apart_ratio + deviations * evidence->polled_ratio +
                    evidence->edge_s / evidence->counted_s;
    return larger_j > smaller_j * (1.0 + allowed_ratio);
}

enum lull_energy_doubt lull_energy_judge(const struct lull_energy_evidence *evidence)
{
    /* A counter grows in steps, so a short time may contain one step too many or too few. */
    const double max_s = evidence->seconds + evidence->edge_s;
    const double min_s = evidence->seconds - evidence->edge_s;

    if (plausible_is_blind(evidence))
        return LULL_ENERGY_BLIND;
    if (evidence->leaps > max_leaps)
        return LULL_ENERGY_LEAPING;
    if (is_contradicted(evidence))
        return LULL_ENERGY_CONTRADICTED;
    if (evidence->energy_j > evidence->range.highest_w * max_s)
        return LULL_ENERGY_TOO_HIGH;
    if (evidence->energy_j < evidence->range.lowest_w * min_s)
        return LULL_ENERGY_TOO_LOW;
    return LULL_ENERGY_CREDIBLE;
}
