/* SPDX-License-Identifier: Apache-2.0 */
#include "lab/core/online.h"

#include <assert.h>
#include <math.h>

#include "lab/core/pick.h"

/* Errors where nothing but the points themselves is known. Measured: the widest of six networks,
 * each alone on its GPU and predicted from its probes (lab/docs/models.md). */
static const struct lull_fitted_errors unknown_errors = {
    .time = {0.0053, 2.8},
    .power = {0.038, 0.0},
    .energy = {0.029, 5.2},
};

void lull_online_unknown_device(struct lull_grid_point *points, uint32_t count, uint32_t base,
                                struct lull_fitted_device *device_out)
{
    const struct lull_grid grid = {.points = points, .point_count = count};

    assert(count >= 2 && count <= LULL_GRID_POINTS && base < count);
    for (uint32_t i = 0; i < count; i++) {
        points[i].sm_ratio = points[i].sm_mhz / points[base].sm_mhz;
        points[i].mem_ratio = points[i].mem_mhz / points[base].mem_mhz;
    }
    *device_out = (struct lull_fitted_device){
        .point_count = count,
        .points = points,
        .base = base,
        .probed = unknown_errors,
    };
    lull_power_curve_fit(&grid, 0, &device_out->curve);
}

/* Tells whether a candidate may be the best one, with all errors in its favour. */
static bool is_possible(const struct lull_fitted_prediction *candidate, double longest_ms,
                        double least_mj)
{
    return candidate->time_ms.low <= longest_ms && candidate->energy_mj.low <= least_mj;
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
        if (i == best || is_possible(&predicted[i], longest_ms, predicted[best].energy_mj.value)) {
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

bool lull_online_find(const struct lull_fitted_device *device,
                      const struct lull_fitted_point *points, uint32_t count,
                      const struct lull_online_search *search, struct lull_online_best *best_out)
{
    struct lull_fitted_kernel kernel;

    lull_fitted_probe(device, points, count, &kernel);
    if (!kernel.has_power)
        return false;
    lull_online_pick(device, &kernel, search, best_out);
    return true;
}
