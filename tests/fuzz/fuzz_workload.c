/*
 * Recorded iterations as task graphs: refused with a message, or a graph of the whole recording
 * whose schedule is no shorter than its longest path, and no longer than the sum of all tasks.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "cluster/tests/core/model/critical_path.h"
#include "../text_file.h"
#include "fuzz.h"
#include "cluster/simulator/job_workload_graph.h"

enum { MAX_GPUS = 4096, MOST_ACTIONS = 4096 };

#define MAX_WORK_NS INT64_C(100000000000000000)

static void check_graph(const struct lull_job_graph *graph, uint32_t devices)
{
    int64_t *const duration_ns = calloc(graph->task_count, sizeof(*duration_ns));
    int64_t all_ns = 0;
    int64_t makespan_ns;

    require(duration_ns != NULL && graph->task_count > 0 && devices <= graph->resource_count);
    for (size_t i = 0; i < graph->task_count; i++) {
        require(graph->tasks[i].kind != LULL_JOB_COMPUTE || graph->tasks[i].device < devices);
        require(graph->tasks[i].kind != LULL_JOB_HOST || graph->tasks[i].device >= devices);
        duration_ns[i] = graph->tasks[i].time_ns;
        all_ns += duration_ns[i];
    }
    if (all_ns <= MAX_WORK_NS) {
        makespan_ns = lull_job_graph_schedule(graph, duration_ns, NULL);
        require(makespan_ns >= critical_path(graph, duration_ns));
        require(makespan_ns > 0 && makespan_ns <= all_ns);
    }
    free(duration_ns);
}

static void build_chakra(const uint8_t *data, size_t size)
{
    struct lull_chakra_graph trace;
    struct lull_job_graph graph;
    struct lull_error err = {0};

    if (lull_chakra_read(text_file(data, size), &trace, &err) < 0)
        return;
    if (lull_job_chakra_build(&trace, "fuzz", &graph, &err) < 0) {
        require(err.text[0] != '\0');
    } else {
        require(graph.task_count == trace.count);
        require(graph.edge_count >= trace.dependency_count);
        check_graph(&graph, 1);
        lull_job_graph_fini(&graph);
    }
    lull_chakra_fini(&trace);
}

/* Not what only takes long. */
static bool is_small(const struct lull_simai_workload *workload)
{
    return workload->gpus <= MAX_GPUS && workload->micro_batches <= MOST_ACTIONS &&
           workload->pipeline_parallel <= MAX_GPUS && workload->virtual_stages <= MOST_ACTIONS &&
           (workload->micro_batches + 1) * (workload->pipeline_parallel + 1) *
                   (workload->virtual_stages + 1) <=
               MOST_ACTIONS;
}

static void build_simai(const struct lull_simai_workload *workload)
{
    static const struct lull_job_links links = {{1000, 0.01}, {1000, 0.05}};
    struct lull_job_graph graph;
    struct lull_error err = {0};
    uint32_t devices = 0;

    if (!is_small(workload))
        return;
    if (lull_job_simai_check(workload, "fuzz", &err) < 0 ||
        lull_job_simai_build(workload, "fuzz", 64, &links, &graph, &devices, &err) < 0) {
        require(err.text[0] != '\0');
        return;
    }
    check_graph(&graph, devices);
    lull_job_graph_fini(&graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_simai_workload workload;

    build_chakra(data, size);
    if (lull_simai_read(text_file(data, size), &workload, NULL) == 0) {
        build_simai(&workload);
        lull_simai_fini(&workload);
    }
    return 0;
}
