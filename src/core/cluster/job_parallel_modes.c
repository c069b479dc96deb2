/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "core/cluster/job_parallel.h"

/* Room to schedule a graph again and again. */
struct scratch {
    int64_t *duration_ns;
    int64_t *begin_ns;
    struct lull_job_usage *usage;
};

static int scratch_init(struct scratch *scratch, const struct lull_job_graph *graph)
{
    scratch->duration_ns = malloc(graph->task_count * sizeof(*scratch->duration_ns));
    scratch->begin_ns = malloc(graph->task_count * sizeof(*scratch->begin_ns));
    scratch->usage = malloc(graph->resource_count * sizeof(*scratch->usage));
    return scratch->duration_ns == NULL || scratch->begin_ns == NULL || scratch->usage == NULL
               ? -ENOMEM
               : 0;
}

static void scratch_fini(struct scratch *scratch)
{
    free(scratch->duration_ns);
    free(scratch->begin_ns);
    free(scratch->usage);
}

static int iterate(const struct lull_job_parallel *parallel, const struct lull_job_graph *graph,
                   const struct lull_job_tempo *tempo, struct scratch *scratch,
                   struct lull_job_iteration *out)
{
    const double gpus = (double)parallel->data * parallel->tensor;
    int64_t makespan_ns;

    for (size_t i = 0; i < graph->task_count; i++) {
        const struct lull_job_task *task = &graph->tasks[i];

        scratch->duration_ns[i] = llround((double)task->time_ns * (task->kind == LULL_JOB_COMPUTE
                                                                       ? tempo->compute_ratio
                                                                       : tempo->transfer_ratio));
    }
    makespan_ns = lull_job_graph_schedule(graph, scratch->duration_ns, scratch->begin_ns);
    if (makespan_ns < 0 || lull_job_graph_usage(graph, scratch->duration_ns, scratch->begin_ns,
                                                makespan_ns, scratch->usage) < 0)
        return -ENOMEM;
    *out = (struct lull_job_iteration){.time_ns = makespan_ns};
    for (uint32_t d = 0; d < parallel->pipeline; d++) {
        const struct lull_job_usage *usage = &scratch->usage[d];

        out->energy_j += gpus * 1e-9 *
                         ((double)usage->compute_ns * tempo->compute_w +
                          (double)usage->exposed_ns * tempo->transfer_w +
                          (double)usage->bubble_ns * tempo->waiting_w);
        out->compute_ratio += (double)usage->compute_ns;
        out->exposed_ratio += (double)usage->exposed_ns;
        out->bubble_ratio += (double)usage->bubble_ns;
    }
    out->compute_ratio /= (double)makespan_ns * parallel->pipeline;
    out->exposed_ratio /= (double)makespan_ns * parallel->pipeline;
    out->bubble_ratio /= (double)makespan_ns * parallel->pipeline;
    return 0;
}

int lull_job_parallel_iterate(const struct lull_job_parallel *parallel,
                              const struct lull_job_graph *graph,
                              const struct lull_job_tempo *tempo,
                              struct lull_job_iteration *iteration_out)
{
    struct scratch scratch = {0};
    int rc = scratch_init(&scratch, graph);

    if (rc == 0)
        rc = iterate(parallel, graph, tempo, &scratch, iteration_out);
    scratch_fini(&scratch);
    return rc;
}

int64_t lull_job_parallel_modes(const struct lull_job_parallel *parallel,
                                const struct lull_job_graph *graph,
                                const struct lull_job_tempo *tempo, uint32_t clock_count,
                                uint64_t iterations, uint32_t type,
                                struct lull_cluster_mode *modes_out)
{
    struct scratch scratch = {0};
    int64_t count = 0;
    int rc = scratch_init(&scratch, graph);

    for (uint32_t clock = 0; rc == 0 && clock < clock_count; clock++) {
        struct lull_job_iteration once;

        rc = iterate(parallel, graph, &tempo[clock], &scratch, &once);
        if (rc < 0 || once.time_ns > (int64_t)((uint64_t)LULL_CLUSTER_MOST_NS / iterations))
            continue;
        modes_out[count++] = (struct lull_cluster_mode){
            .type = type,
            .gpus = (uint32_t)lull_job_parallel_gpus(parallel),
            .sm_mhz = tempo[clock].sm_mhz,
            .time_ns = once.time_ns * (int64_t)iterations,
            .energy_j = once.energy_j * (double)iterations,
        };
    }
    scratch_fini(&scratch);
    return rc < 0 ? rc : count;
}
