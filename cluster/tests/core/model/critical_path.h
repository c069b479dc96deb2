/*
 * The longest path of a job's graph, ns: no schedule is shorter. SPDX-License-Identifier:
 * Apache-2.0
 */
#ifndef LULL_CLUSTER_TESTS_CORE_MODEL_CRITICAL_PATH_H
#define LULL_CLUSTER_TESTS_CORE_MODEL_CRITICAL_PATH_H

#include <stdlib.h>

#include "cluster/core/model/job_graph.h"

static inline int64_t critical_path(const struct lull_job_graph *graph, const int64_t *duration_ns)
{
    int64_t *rank_ns = calloc(graph->task_count, sizeof(*rank_ns));
    int64_t longest_ns = 0;

    for (size_t i = graph->task_count; rank_ns != NULL && i-- > 0;) {
        const uint32_t task = graph->topological[i];

        for (uint32_t k = graph->first_out[task]; k < graph->first_out[task + 1]; k++)
            if (rank_ns[graph->edges[k].to] > rank_ns[task])
                rank_ns[task] = rank_ns[graph->edges[k].to];
        rank_ns[task] += duration_ns[task];
        if (rank_ns[task] > longest_ns)
            longest_ns = rank_ns[task];
    }
    free(rank_ns);
    return longest_ns;
}

#endif
