/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/model/job.h"

#include <math.h>

double lull_cluster_gain_j(const struct lull_cluster_job *job, uint32_t point, int64_t start_ns,
                           double second_j)
{
    const struct lull_cluster_point *asked = &job->points[point];
    const int64_t end_ns = start_ns + asked->time_ns;

    if (job->value_j > 0.0 && end_ns > job->deadline_ns)
        return -INFINITY;
    return job->value_j - asked->energy_j -
           second_j * job->weight * (double)(end_ns - job->arrival_ns) * 1e-9;
}

bool lull_cluster_point_is_possible(const struct lull_cluster_job *job, uint32_t point,
                                    const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    const struct lull_cluster_point *asked = &job->points[point];
    const uint32_t memory_mib = cluster->types[asked->type].memory_mib;

    return asked->gpus <= gpus_of[(size_t)job->pool * cluster->type_count + asked->type] &&
           (memory_mib == 0 || job->memory_mib <= memory_mib);
}

uint32_t lull_cluster_first_point(const struct lull_cluster_job *job, uint32_t type,
                                  const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    uint32_t point = 0;

    while (point < job->point_count &&
           (job->points[point].type != type ||
            !lull_cluster_point_is_possible(job, point, cluster, gpus_of)))
        point++;
    return point;
}
