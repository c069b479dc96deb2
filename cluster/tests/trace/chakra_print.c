/*
 * Prints a Chakra trace as read by the reader, for test_chakra.py: one line of JSON per node, and
 * one for the graph. SPDX-License-Identifier: Apache-2.0
 */
#include <inttypes.h>
#include <stdio.h>

#include "cluster/trace/chakra.h"

static void print_node(const struct lull_chakra_graph *graph, const struct lull_chakra_node *node)
{
    printf("{\"id\": %" PRIu64 ", \"name\": \"%s\", \"group\": \"%s\", \"kind\": %d, "
           "\"is_host\": %d, \"duration_ns\": %" PRId64 ", \"collective\": %d, "
           "\"size_bytes\": %" PRId64 ", \"tensor_bytes\": %" PRId64 ", \"operations\": %" PRId64
           ", \"source\": %" PRId64 ", \"target\": %" PRId64 ", \"tag\": %" PRId64
           ", \"communicates\": %d, \"after\": [",
           node->id, lull_chakra_name(graph, node->name), lull_chakra_name(graph, node->group),
           (int)node->kind, node->is_host, node->duration_ns, (int)node->collective,
           node->size_bytes, node->tensor_bytes, node->operations, node->source, node->target,
           node->tag, lull_chakra_communicates(node));
    for (uint32_t i = 0; i < node->dependency_count; i++)
        printf("%s%" PRIu64, i > 0 ? ", " : "",
               graph->nodes[graph->dependencies[node->first_dependency + i]].id);
    puts("]}");
}

int main(int argc, char **argv)
{
    struct lull_chakra_graph graph;
    struct lull_error err = {0};

    if (argc != 2)
        return 2;
    if (lull_chakra_read(argv[1], &graph, &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (size_t i = 0; i < graph.count; i++)
        print_node(&graph, &graph.nodes[i]);
    printf("{\"count\": %zu, \"dependencies\": %zu, \"control\": %zu, \"missing\": %zu, "
           "\"order\": [",
           graph.count, graph.dependency_count, graph.control_count, graph.missing);
    for (size_t i = 0; i < graph.count; i++)
        printf("%s%u", i > 0 ? ", " : "", graph.order[i]);
    puts("]}");
    lull_chakra_fini(&graph);
    return 0;
}
