/* SPDX-License-Identifier: Apache-2.0 */
#include "simulator/cluster/job_points.h"

#include <math.h>

#include "core/cluster/model/operating_points.h"

void lull_job_points_choose(struct lull_cluster_point *candidates, size_t count,
                            struct lull_job_points *points_out)
{
    struct lull_cluster_point points[LULL_CLUSTER_MOST_POINTS];

    points_out->count =
        (uint32_t)lull_operating_points_choose(candidates, count, LULL_CLUSTER_MOST_POINTS, points);
    for (uint32_t i = 0; i < points_out->count; i++) {
        points_out->all[i].sm_mhz = points[i].sm_mhz;
        points_out->all[i].time_ratio = (double)points[i].time_ns / (double)points[0].time_ns;
        points_out->all[i].energy_w = points[i].energy_j / ((double)points[0].time_ns * 1e-9);
        points_out->all[i].exposed_ratio = points[i].exposed_ratio;
        points_out->all[i].waiting_w = points[i].waiting_w;
    }
}

uint32_t lull_job_points_make(const struct lull_job_points *points, int64_t time_ns, uint32_t type,
                              uint32_t gpus, struct lull_cluster_point *points_out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < points->count; i++) {
        const double stretched_ns = (double)time_ns * points->all[i].time_ratio;

        if (i > 0 && stretched_ns > (double)LULL_CLUSTER_MOST_NS)
            break;
        points_out[count++] = (struct lull_cluster_point){
            .type = type,
            .gpus = gpus,
            .sm_mhz = points->all[i].sm_mhz,
            .time_ns = i == 0 ? time_ns : llround(stretched_ns),
            .energy_j = (double)time_ns * 1e-9 * points->all[i].energy_w,
            .exposed_ratio = points->all[i].exposed_ratio,
            .waiting_w = points->all[i].waiting_w,
        };
    }
    return count;
}
