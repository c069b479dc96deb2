/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/job.h"

#include <errno.h>
#include <math.h>

static int check_mode(const struct lull_cluster_mode *mode, const struct lull_cluster *cluster,
                      struct lull_error *err)
{
    if (mode->type >= cluster->type_count)
        return lull_error_set(err, -EINVAL, "the cluster has no such type of GPU");
    if (mode->gpus == 0)
        return lull_error_set(err, -EINVAL, "a job needs at least one GPU");
    if (mode->time_ns <= 0 || mode->time_ns > LULL_CLUSTER_MOST_NS)
        return lull_error_set(err, -EINVAL, "a duration is over 0 s and at most %.0f s",
                              (double)LULL_CLUSTER_MOST_NS * 1e-9);
    if (!(mode->energy_j >= 0.0) || isinf(mode->energy_j))
        return lull_error_set(err, -EINVAL, "an energy is not below 0 J");
    if (!(mode->exposed_ratio >= 0.0F) || !(mode->exposed_ratio <= 1.0F) ||
        !(mode->waiting_w >= 0.0F) || !(mode->read_mb_s >= 0.0F))
        return lull_error_set(
            err, -EINVAL,
            "what a job asks of links and the storage is not below 0, nor "
            "more of its time than all");
    return 0;
}

int lull_cluster_job_check(const struct lull_cluster_job *job, const struct lull_cluster *cluster,
                           struct lull_error *err)
{
    if (job->arrival_ns < 0 || job->arrival_ns > LULL_CLUSTER_MOST_NS)
        return lull_error_set(err, -EINVAL, "a job arrives at 0 s or later, and by %.0f s",
                              (double)LULL_CLUSTER_MOST_NS * 1e-9);
    if (job->pool >= cluster->pool_count)
        return lull_error_set(err, -EINVAL, "the cluster has no such pool");
    if (!(job->weight > 0.0) || isinf(job->weight))
        return lull_error_set(err, -EINVAL, "a weight is above 0");
    if (job->checkpoint_ns < 0)
        return lull_error_set(err, -EINVAL, "time between checkpoints is not below 0 s");
    if (!(job->value_j >= 0.0) || isinf(job->value_j))
        return lull_error_set(err, -EINVAL, "a value is not below 0 J");
    if (job->mode_count == 0 || job->mode_count > LULL_CLUSTER_MOST_MODES)
        return lull_error_set(err, -EINVAL, "a job has 1 to %d modes", LULL_CLUSTER_MOST_MODES);
    for (uint32_t i = 0; i < job->mode_count; i++) {
        const int rc = check_mode(&job->modes[i], cluster, err);

        if (rc < 0)
            return rc;
    }
    return 0;
}

double lull_cluster_gain_j(const struct lull_cluster_job *job, uint32_t mode, int64_t start_ns,
                           double second_j)
{
    const struct lull_cluster_mode *asked = &job->modes[mode];
    const int64_t end_ns = start_ns + asked->time_ns;

    if (job->value_j > 0.0 && end_ns > job->deadline_ns)
        return -INFINITY;
    return job->value_j - asked->energy_j -
           second_j * job->weight * (double)(end_ns - job->arrival_ns) * 1e-9;
}

bool lull_cluster_mode_is_possible(const struct lull_cluster_job *job, uint32_t mode,
                                   const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    const struct lull_cluster_mode *asked = &job->modes[mode];
    const uint32_t memory_mib = cluster->types[asked->type].memory_mib;

    return asked->gpus <= gpus_of[(size_t)job->pool * cluster->type_count + asked->type] &&
           (memory_mib == 0 || job->memory_mib <= memory_mib);
}

uint32_t lull_cluster_first_mode(const struct lull_cluster_job *job, uint32_t type,
                                 const struct lull_cluster *cluster, const uint64_t *gpus_of)
{
    uint32_t mode = 0;

    while (mode < job->mode_count && (job->modes[mode].type != type ||
                                      !lull_cluster_mode_is_possible(job, mode, cluster, gpus_of)))
        mode++;
    return mode;
}
