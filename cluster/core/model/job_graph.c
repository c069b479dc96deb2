/* SPDX-License-Identifier: Apache-2.0 */
#include "cluster/core/model/job_graph.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"

void lull_job_graph_fini(struct lull_job_graph *graph)
{
    free(graph->resources);
    free(graph->tasks);
    free(graph->edges);
    free(graph->first_out);
    free(graph->waits_for);
    free(graph->topological);
    *graph = (struct lull_job_graph){0};
}

int64_t lull_job_graph_add_resource(struct lull_job_graph *graph,
                                    const struct lull_job_resource *resource)
{
    if (resource->units == 0)
        return -EINVAL;
    if (graph->resource_count == LULL_JOB_MAX_RESOURCES)
        return -E2BIG;
    if (lull_array_reserve(&graph->resources, &graph->resource_room, graph->resource_count,
                           sizeof(*resource)) < 0)
        return -ENOMEM;
    graph->resources[graph->resource_count] = *resource;
    return (int64_t)graph->resource_count++;
}

int64_t lull_job_graph_add(struct lull_job_graph *graph, const struct lull_job_task *task)
{
    if (task->resource >= graph->resource_count || task->device >= graph->resource_count ||
        task->time_ns < 0 || task->time_ns > LULL_JOB_MAX_TASK_NS)
        return -EINVAL;
    if (graph->task_count == LULL_JOB_MAX_TASKS)
        return -E2BIG;
    if (lull_array_reserve(&graph->tasks, &graph->task_room, graph->task_count, sizeof(*task)) < 0)
        return -ENOMEM;
    graph->tasks[graph->task_count] = *task;
    return (int64_t)graph->task_count++;
}

int lull_job_graph_connect(struct lull_job_graph *graph, uint32_t from, uint32_t to)
{
    if (from >= graph->task_count || to >= graph->task_count)
        return -EINVAL;
    if (graph->edge_count == LULL_JOB_MAX_EDGES)
        return -E2BIG;
    if (lull_array_reserve(&graph->edges, &graph->edge_room, graph->edge_count,
                           sizeof(*graph->edges)) < 0)
        return -ENOMEM;
    graph->edges[graph->edge_count++] = (struct lull_job_edge){from, to};
    return 0;
}

/* ---- finishing ---------------------------------------------------------------------------- */

/* Edges by from, in their original order: a counting sort. */
static int job_graph_sort_edges(struct lull_job_graph *graph)
{
    struct lull_job_edge *sorted = calloc(graph->edge_count + 1, sizeof(*sorted));
    uint32_t *const first = graph->first_out;

    if (sorted == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < graph->edge_count; i++) {
        first[graph->edges[i].from + 1]++;
        graph->waits_for[graph->edges[i].to]++;
    }
    for (size_t i = 0; i < graph->task_count; i++)
        first[i + 1] += first[i];
    for (size_t i = graph->edge_count; i-- > 0;)
        sorted[--first[graph->edges[i].from + 1]] = graph->edges[i];
    /* Now first[i + 1] is where the edges of i begin, so all entries move down by one place. */
    memmove(first, first + 1, graph->task_count * sizeof(*first));
    first[graph->task_count] = (uint32_t)graph->edge_count;
    assert(first[0] == 0);
    free(graph->edges);
    graph->edges = sorted;
    return 0;
}

static int sort_tasks(struct lull_job_graph *graph, struct lull_error *err)
{
    uint32_t *left = malloc(graph->task_count * sizeof(*left));
    size_t count = 0;

    if (left == NULL)
        return lull_error_set(err, -ENOMEM, "no memory for %zu tasks", graph->task_count);
    memcpy(left, graph->waits_for, graph->task_count * sizeof(*left));
    for (uint32_t i = 0; i < graph->task_count; i++)
        if (left[i] == 0)
            graph->topological[count++] = i;
    for (size_t i = 0; i < count; i++) {
        const uint32_t task = graph->topological[i];

        for (uint32_t k = graph->first_out[task]; k < graph->first_out[task + 1]; k++)
            if (--left[graph->edges[k].to] == 0)
                graph->topological[count++] = graph->edges[k].to;
    }
    for (uint32_t i = 0; count < graph->task_count && i < graph->task_count; i++)
        if (left[i] > 0) {
            free(left);
            return lull_error_set(err, -ELOOP, "task %u waits for itself, by way of others", i);
        }
    free(left);
    assert(count == graph->task_count);
    return 0;
}

int lull_job_graph_finish(struct lull_job_graph *graph, struct lull_error *err)
{
    const size_t count = graph->task_count;

    if (count == 0)
        return lull_error_set(err, -EINVAL, "a job without tasks");
    graph->first_out = calloc(count + 2, sizeof(*graph->first_out));
    graph->waits_for = calloc(count, sizeof(*graph->waits_for));
    graph->topological = malloc(count * sizeof(*graph->topological));
    if (graph->first_out == NULL || graph->waits_for == NULL || graph->topological == NULL ||
        job_graph_sort_edges(graph) < 0)
        return lull_error_set(err, -ENOMEM, "no memory for %zu tasks", count);
    return sort_tasks(graph, err);
}
