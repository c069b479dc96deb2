/*
 * Torch schedules: refused with a message, or an order that becomes a graph.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"
#include "fuzz_measured.h"

#include "trace/torch_schedule.h"

/* A graph can be built from every order that the reader accepts. */
static void check_order(const struct lull_pipeline_order *order)
{
    const struct lull_pipeline_links links = {NULL, 0};
    const struct lull_pipeline_replicas replicas = {.count = 1};
    struct lull_pipeline_profile measured, fitted;
    struct lull_pipeline_fit fit = {
        .measured = &measured, .fitted = &fitted, .parts = 1, .input_ratio = 0.5};
    struct lull_pipeline_graph graph;

    measure(&measured);
    lull_pipeline_profile_init(&fitted);
    require(lull_pipeline_order_build(order, &links, &replicas, &fit, &graph, NULL) == 0);
    require(graph.device_count <= order->devices);
    lull_pipeline_graph_fini(&graph);
    lull_pipeline_profile_fini(&fitted);
    lull_pipeline_profile_fini(&measured);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_pipeline_order order;
    struct lull_error err = {0};

    if (lull_torch_schedule_read(text_file(data, size), &order, &err) < 0) {
        require(err.text[0] != '\0');
        return 0;
    }
    check_order(&order);
    lull_pipeline_order_fini(&order);
    return 0;
}
