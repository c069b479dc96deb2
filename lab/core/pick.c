/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/pick.h"

#include <assert.h>

uint32_t lull_pick_point(const double *times_ms, const double *powers_w, uint32_t count,
                         uint32_t base, double slowdown_ratio)
{
    const double longest_ms = times_ms[base] * (1.0 + slowdown_ratio);
    uint32_t best = base;

    assert(base < count && slowdown_ratio >= 0.0);
    for (uint32_t i = 0; i < count; i++) {
        const double energy = times_ms[i] * powers_w[i], least = times_ms[best] * powers_w[best];

        if (times_ms[i] <= longest_ms && (energy < least || (i < best && energy <= least)))
            best = i;
    }
    return best;
}
