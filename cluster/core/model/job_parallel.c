/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/job_parallel.h"

#include <math.h>

/* ---- times of its parts -------------------------------------------------------------------- */

/* Rounds a time. A time that is too long for a task stays too long, and is rejected when the
 * task is added. */
static int64_t parallel_to_ns(double time_ns)
{
    return llround(fmin(time_ns, 2.0 * (double)LULL_JOB_MAX_TASK_NS));
}

int64_t lull_job_transfer_ns(const struct lull_job_link *link, double bytes)
{
    return parallel_to_ns((double)link->latency_ns + link->ns_per_byte * bytes);
}

int64_t lull_job_all_reduce_ns(const struct lull_job_link *link, double bytes, uint32_t ranks)
{
    const double steps = 2.0 * (ranks - 1.0);

    return parallel_to_ns(steps * ((double)link->latency_ns + link->ns_per_byte * bytes / ranks));
}

int64_t lull_job_parallel_compute_ns(const struct lull_job_parallel *parallel,
                                     enum lull_pipeline_kind kind, bool is_last_chunk)
{
    const int64_t forward = parallel->forward_ns + (is_last_chunk ? parallel->head_forward_ns : 0);
    const int64_t backward =
        parallel->backward_ns + (is_last_chunk ? parallel->head_backward_ns : 0);

    switch (kind) {
    case LULL_PIPELINE_BACKWARD:
        return backward;
    case LULL_PIPELINE_INPUT:
        return backward / 2;
    case LULL_PIPELINE_WEIGHT:
        return backward - backward / 2;
    default:
        return forward;
    }
}

/* The gradient of the weights needs no collective, so that a pass for it alone sends nothing. */
int64_t lull_job_parallel_tensor_ns(const struct lull_job_parallel *parallel,
                                    enum lull_pipeline_kind kind)
{
    const bool is_backward = kind == LULL_PIPELINE_BACKWARD || kind == LULL_PIPELINE_INPUT;

    if (kind == LULL_PIPELINE_WEIGHT)
        return 0;
    return is_backward ? parallel->backward_link_ns : parallel->forward_link_ns;
}

int64_t lull_job_parallel_bucket_ns(const struct lull_job_parallel *parallel)
{
    return parallel->data > 1
               ? parallel->gradient_link_ns / parallel->schedule.chunks / parallel->buckets
               : 0;
}

uint64_t lull_job_parallel_gpus(const struct lull_job_parallel *parallel)
{
    return (uint64_t)parallel->data * parallel->tensor * parallel->pipeline;
}

/* ---- as operating points ------------------------------------------------------------------ */

int64_t lull_job_parallel_points(const struct lull_job_parallel *parallel,
                                 const struct lull_job_graph *graph,
                                 const struct lull_job_tempo *tempo, uint32_t clock_count,
                                 uint64_t iterations, uint32_t type,
                                 struct lull_cluster_point *points_out)
{
    const uint64_t device_gpus = (uint64_t)parallel->data * parallel->tensor;
    int64_t count = 0;

    for (uint32_t clock = 0; clock < clock_count; clock++) {
        struct lull_job_iteration once;
        const int rc =
            lull_job_iterate(graph, parallel->pipeline, device_gpus, &tempo[clock], &once);

        if (rc < 0)
            return rc;
        if (once.time_ns > (int64_t)((uint64_t)LULL_CLUSTER_MAX_NS / iterations))
            continue;
        points_out[count++] = (struct lull_cluster_point){
            .type = type,
            .gpus = (uint32_t)lull_job_parallel_gpus(parallel),
            .sm_mhz = tempo[clock].sm_mhz,
            .time_ns = once.time_ns * (int64_t)iterations,
            .energy_j = once.energy_j * (double)iterations,
        };
    }
    return count;
}
