/* SPDX-License-Identifier: Apache-2.0 */
#include "core/serving/joint_energy.h"

#include <assert.h>
#include <math.h>

void lull_joint_energy_take(struct lull_joint_energy *joint, uint32_t gpu, int64_t time_ns,
                            double energy_j)
{
    struct lull_energy_points *points;

    assert(gpu < LULL_JOINT_ENERGY_GPUS && (isnan(energy_j) || time_ns > 0));
    points = &joint->gpus[gpu];
    if (gpu >= joint->gpu_count)
        joint->gpu_count = gpu + 1;
    if (isnan(energy_j)) {
        *points = (struct lull_energy_points){0};
        return;
    }
    if (time_ns <= points->last.time_ns)
        return;
    points->before.time_ns = points->last.time_ns;
    points->before.energy_j = points->last.energy_j;
    points->last.time_ns = time_ns;
    points->last.energy_j = energy_j;
}

static double energy_at_j(const struct lull_energy_points *points, int64_t time_ns)
{
    const double between_ns = (double)(points->last.time_ns - points->before.time_ns);
    const double watts_ns = (points->last.energy_j - points->before.energy_j) / between_ns;

    return points->last.energy_j - watts_ns * (double)(points->last.time_ns - time_ns);
}

double lull_joint_energy_find(const struct lull_joint_energy *joint, int64_t *time_ns_out)
{
    int64_t time_ns = INT64_MAX;
    double energy_j = 0.0;

    for (uint32_t i = 0; i < joint->gpu_count; i++) {
        if (joint->gpus[i].before.time_ns == 0)
            return NAN;
        if (joint->gpus[i].last.time_ns < time_ns)
            time_ns = joint->gpus[i].last.time_ns;
    }
    if (joint->gpu_count == 0)
        return NAN;
    for (uint32_t i = 0; i < joint->gpu_count; i++)
        energy_j += energy_at_j(&joint->gpus[i], time_ns);
    *time_ns_out = time_ns;
    return energy_j;
}
