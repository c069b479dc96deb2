/* SPDX-License-Identifier: Apache-2.0 */
#include "core/cluster/job_iteration.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

static void fill_durations(const struct lull_job_graph *graph, const struct lull_job_tempo *tempo,
                           int64_t *duration_ns)
{
    const double ratio_of[] = {
        [LULL_JOB_COMPUTE] = tempo->compute_ratio,
        [LULL_JOB_TRANSFER] = tempo->transfer_ratio,
        [LULL_JOB_HOST] = 1.0,
    };

    for (size_t i = 0; i < graph->task_count; i++)
        duration_ns[i] = llround((double)graph->tasks[i].time_ns * ratio_of[graph->tasks[i].kind]);
}

static void add_up(const struct lull_job_usage *usage, uint32_t devices, uint64_t gpus,
                   const struct lull_job_tempo *tempo, struct lull_job_iteration *iteration)
{
    for (uint32_t d = 0; d < devices; d++) {
        iteration->energy_j += (double)gpus * 1e-9 *
                               ((double)usage[d].compute_ns * tempo->compute_w +
                                (double)usage[d].exposed_ns * tempo->transfer_w +
                                (double)usage[d].bubble_ns * tempo->waiting_w);
        iteration->compute_ratio += (double)usage[d].compute_ns;
        iteration->exposed_ratio += (double)usage[d].exposed_ns;
        iteration->bubble_ratio += (double)usage[d].bubble_ns;
    }
    iteration->compute_ratio /= (double)iteration->time_ns * devices;
    iteration->exposed_ratio /= (double)iteration->time_ns * devices;
    iteration->bubble_ratio /= (double)iteration->time_ns * devices;
}

int lull_job_iterate(const struct lull_job_graph *graph, uint32_t devices, uint64_t gpus,
                     const struct lull_job_tempo *tempo, struct lull_job_iteration *iteration_out)
{
    int64_t *duration_ns = malloc(graph->task_count * sizeof(*duration_ns));
    int64_t *begin_ns = malloc(graph->task_count * sizeof(*begin_ns));
    struct lull_job_usage *usage = malloc(graph->resource_count * sizeof(*usage));
    int64_t makespan_ns = -ENOMEM;
    int rc = -ENOMEM;

    if (duration_ns != NULL && begin_ns != NULL && usage != NULL) {
        fill_durations(graph, tempo, duration_ns);
        makespan_ns = lull_job_graph_schedule(graph, duration_ns, begin_ns);
    }
    if (makespan_ns >= 0)
        rc = lull_job_graph_usage(graph, duration_ns, begin_ns, makespan_ns, usage);
    if (rc == 0) {
        *iteration_out = (struct lull_job_iteration){.time_ns = makespan_ns};
        add_up(usage, devices, gpus, tempo, iteration_out);
    }
    free(duration_ns);
    free(begin_ns);
    free(usage);
    return rc;
}
