/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/online.h"

#include <assert.h>
#include <math.h>

#include "lab/core/pick.h"

/* Returns whether a candidate may be the best one, with all errors in its favour. */
static bool online_model_is_possible(const struct lull_fitted_prediction *candidate,
                                     double longest_ms, double min_mj)
{
    return candidate->time_ms.low <= longest_ms && candidate->energy_mj.low <= min_mj;
}

void lull_online_pick(const struct lull_fitted_device *device,
                      const struct lull_fitted_kernel *kernel,
                      const struct lull_online_search *search, struct lull_online_best *best_out)
{
    struct lull_fitted_prediction predicted[LULL_ONLINE_CANDIDATES];
    double times_ms[LULL_ONLINE_CANDIDATES], powers_w[LULL_ONLINE_CANDIDATES];
    double low_mhz = INFINITY, high_mhz = 0.0, longest_ms;
    uint32_t best;

    assert(kernel->has_power && search->count >= 1 && search->count <= LULL_ONLINE_CANDIDATES);
    for (uint32_t i = 0; i < search->count; i++) {
        predicted[i] = lull_fitted_predict(device, kernel, search->candidates[i].sm_mhz,
                                           search->candidates[i].mem_mhz);
        times_ms[i] = predicted[i].time_ms.value;
        powers_w[i] = predicted[i].power_w.value;
    }
    best =
        lull_pick_point(times_ms, powers_w, search->count, search->base, search->tolerance_ratio);
    longest_ms = times_ms[search->base] * (1.0 + search->tolerance_ratio);
    for (uint32_t i = 0; i < search->count; i++)
        if (i == best ||
            online_model_is_possible(&predicted[i], longest_ms, predicted[best].energy_mj.value)) {
            low_mhz = fmin(low_mhz, search->candidates[i].sm_mhz);
            high_mhz = fmax(high_mhz, search->candidates[i].sm_mhz);
        }
    if (isnan(predicted[best].energy_mj.low))
        low_mhz = high_mhz = NAN;
    *best_out = (struct lull_online_best){
        .best = best,
        .low_mhz = low_mhz,
        .high_mhz = high_mhz,
        .slowdown_ratio = times_ms[best] / times_ms[search->base] - 1.0,
        .saving_ratio =
            1.0 - predicted[best].energy_mj.value / predicted[search->base].energy_mj.value,
    };
}
