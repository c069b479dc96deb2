/*
 * Task graphs as JSON lines: refused with a message, or a finished graph.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"
#include "fuzz_measured.h"

#include "trace/graph_lines.h"

static void check_graph(const struct lull_pipeline_graph *graph,
                        const struct lull_pipeline_profile *fitted)
{
    require(graph->op_count > 0);
    for (size_t i = 0; i < graph->op_count; i++)
        require(graph->ops[i].class_index < fitted->class_count);
    for (size_t i = 0; i < graph->edge_count; i++)
        require(graph->edges[i].from != graph->edges[i].to && graph->edges[i].latency_ns >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .parts = 1, .input_ratio = 0.5};
    struct lull_pipeline_graph graph;
    struct lull_error err = {0};

    measure(&measured);
    lull_pipeline_profile_init(&fitted);
    if (lull_graph_lines_read(text_file(data, size), &fit, &graph, &err) < 0) {
        require(err.text[0] != '\0');
    } else {
        check_graph(&graph, &fitted);
        lull_pipeline_graph_fini(&graph);
    }
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
    return 0;
}
