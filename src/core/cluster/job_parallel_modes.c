/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/job_parallel.h"

int lull_job_parallel_iterate(const struct lull_job_parallel *parallel,
                              const struct lull_job_graph *graph,
                              const struct lull_job_tempo *tempo,
                              struct lull_job_iteration *iteration_out)
{
    return lull_job_iterate(graph, parallel->pipeline, (uint64_t)parallel->data * parallel->tensor,
                            tempo, iteration_out);
}

int64_t lull_job_parallel_modes(const struct lull_job_parallel *parallel,
                                const struct lull_job_graph *graph,
                                const struct lull_job_tempo *tempo, uint32_t clock_count,
                                uint64_t iterations, uint32_t type,
                                struct lull_cluster_mode *modes_out)
{
    int64_t count = 0;

    for (uint32_t clock = 0; clock < clock_count; clock++) {
        struct lull_job_iteration once;
        const int rc = lull_job_parallel_iterate(parallel, graph, &tempo[clock], &once);

        if (rc < 0)
            return rc;
        if (once.time_ns > (int64_t)((uint64_t)LULL_CLUSTER_MOST_NS / iterations))
            continue;
        modes_out[count++] = (struct lull_cluster_mode){
            .type = type,
            .gpus = (uint32_t)lull_job_parallel_gpus(parallel),
            .sm_mhz = tempo[clock].sm_mhz,
            .time_ns = once.time_ns * (int64_t)iterations,
            .energy_j = once.energy_j * (double)iterations,
        };
    }
    return count;
}
