/*
 * Chakra traces in both forms: refused with a message, or a graph with a valid order.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "../text_file.h"
#include "fuzz.h"
#include "cluster/trace/chakra.h"

static void check_node(const struct lull_chakra_graph *graph, size_t place)
{
    const struct lull_chakra_node *node = &graph->nodes[place];

    require(node->kind <= LULL_CHAKRA_COLLECTIVE && node->collective <= LULL_CHAKRA_UNTOLD);
    require(node->duration_ns >= 0 && node->size_bytes >= -1 && node->operations >= -1);
    require(lull_chakra_name(graph, node->name) != NULL);
    require(lull_chakra_name(graph, node->group) != NULL);
    require(node->first_dependency + node->dependency_count <= graph->dependency_count);
}

/* Every node once, behind all that it depends on. */
static void check_order(const struct lull_chakra_graph *graph)
{
    size_t *const place = calloc(graph->count, sizeof(*place));

    require(place != NULL);
    for (size_t i = 0; i < graph->count; i++) {
        require(graph->order[i] < graph->count && place[graph->order[i]] == 0);
        place[graph->order[i]] = i + 1;
    }
    for (size_t i = 0; i < graph->count; i++)
        for (uint32_t k = 0; k < graph->nodes[i].dependency_count; k++)
            require(place[graph->dependencies[graph->nodes[i].first_dependency + k]] < place[i]);
    free(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct lull_chakra_graph graph;
    struct lull_error err = {0};

    if (lull_chakra_read(text_file(data, size), &graph, &err) < 0) {
        require(err.text[0] != '\0' && graph.nodes == NULL && graph.names == NULL);
        return 0;
    }
    require(graph.count > 0);
    for (size_t i = 0; i < graph.count; i++)
        check_node(&graph, i);
    check_order(&graph);
    lull_chakra_fini(&graph);
    return 0;
}
