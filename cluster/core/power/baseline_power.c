/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/power/baseline_power.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

/* The share by which sums of many terms are lowered, so that rounding cannot raise a least value.
 */
static const double rounding = 1e-12;

static double baseline_seconds(int64_t ns)
{
    return (double)ns * 1e-9;
}

void lull_baseline_power_of_types(const struct lull_cluster *cluster,
                                  const struct lull_cluster_jobs *jobs, bool turns_nodes_off,
                                  double *baseline_w_out)
{
    for (uint32_t i = 0; i < cluster->type_count; i++)
        baseline_w_out[i] = cluster->types[i].idle_w;
    for (uint32_t i = 0; i < cluster->node_count && turns_nodes_off; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[i];

        baseline_w_out[node->type] =
            fmin(baseline_w_out[node->type], cluster->types[node->type].off_w / node->gpus);
    }
    for (size_t i = 0; i < jobs->count; i++)
        for (uint32_t m = 0; m < jobs->all[i].point_count; m++) {
            const struct lull_cluster_point *point = &jobs->all[i].points[m];

            baseline_w_out[point->type] =
                fmin(baseline_w_out[point->type],
                     point->energy_j / baseline_seconds(point->time_ns) / point->gpus);
        }
}

double lull_baseline_power_total_w(const struct lull_cluster *cluster, const double *baseline_w)
{
    double sum_w = 0.0;

    for (uint32_t i = 0; i < cluster->node_count; i++)
        sum_w += baseline_w[cluster->nodes[i].type] * cluster->nodes[i].gpus;
    return sum_w;
}

/* The job's fastest operating point, and the GPU time of its most modest one. */
static int64_t least_of(const struct lull_cluster_job *job, double *gpu_ns_out)
{
    int64_t time_ns = INT64_MAX;

    *gpu_ns_out = INFINITY;
    for (uint32_t i = 0; i < job->point_count; i++) {
        const struct lull_cluster_point *point = &job->points[i];

        time_ns = point->time_ns < time_ns ? point->time_ns : time_ns;
        *gpu_ns_out = fmin(*gpu_ns_out, (double)point->gpus * (double)point->time_ns);
    }
    return time_ns;
}

int lull_baseline_power_min_end(const struct lull_cluster *cluster,
                                const struct lull_cluster_jobs *jobs, int64_t *end_ns_out)
{
    double *gpus = calloc(cluster->pool_count, sizeof(*gpus));
    double *work_ns = calloc(cluster->pool_count, sizeof(*work_ns)); /* of those that come later */
    double latest_ns = 0.0;

    if (gpus == NULL || work_ns == NULL) {
        free(gpus);
        free(work_ns);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < cluster->node_count; i++)
        gpus[cluster->nodes[i].pool] += cluster->nodes[i].gpus;
    for (size_t i = jobs->count; i-- > 0;) {
        const struct lull_cluster_job *job = &jobs->all[i];
        double gpu_ns;
        const int64_t time_ns = least_of(job, &gpu_ns);

        work_ns[job->pool] += gpu_ns;
        latest_ns =
            fmax(latest_ns, (double)job->arrival_ns +
                                fmax((double)time_ns, work_ns[job->pool] / gpus[job->pool]));
    }
    free(gpus);
    free(work_ns);
    *end_ns_out = (int64_t)fmin(latest_ns * (1.0 - rounding), (double)(INT64_MAX / 2));
    return 0;
}

double lull_baseline_power_energy_j(const struct lull_cluster *cluster, const double *baseline_w,
                                    const struct lull_cluster_failure *failures,
                                    size_t failure_count, int64_t end_ns)
{
    double all_j = lull_baseline_power_total_w(cluster, baseline_w) * baseline_seconds(end_ns);

    for (size_t i = 0; i < failure_count && failures[i].from_ns < end_ns; i++) {
        const struct lull_cluster_node *node = &cluster->nodes[failures[i].node];
        const int64_t to_ns = failures[i].to_ns < end_ns ? failures[i].to_ns : end_ns;

        all_j -=
            baseline_w[node->type] * node->gpus * baseline_seconds(to_ns - failures[i].from_ns);
    }
    return fmax(all_j * (1.0 - rounding), 0.0);
}
