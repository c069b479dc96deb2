/*
 * Private to chakra*.c: the graph while it is read, and its reader of protocol buffers.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_CLUSTER_TRACE_CHAKRA_BUILD_H
#define LULL_CLUSTER_TRACE_CHAKRA_BUILD_H

#include "cluster/trace/chakra.h"
#include "trace/source.h"

struct lull_chakra_building {
    struct lull_chakra_graph *graph;
    const char *name;
    uint64_t *wanted; /* ids of the nodes' dependencies, in order */
    size_t wanted_count;
    struct lull_error *err;
};

/* Sets up a node with all values unknown. */
void lull_chakra_node_init(struct lull_chakra_node *node);

/* Adds an id on which the next node depends; control dependencies are only counted.
 * LULL_E_FORMAT: there are too many; -ENOMEM. */
int lull_chakra_want(struct lull_chakra_building *building, uint64_t id, bool is_control);

/* Finds the number of a name, new or known. -ENOMEM. */
int lull_chakra_add_name(struct lull_chakra_building *building, const char *bytes, size_t length,
                         uint32_t *name_out);

/* Adds a node with the dependencies noted since the node before. LULL_E_FORMAT: there are too many
 * nodes; -ENOMEM. */
int lull_chakra_add(struct lull_chakra_building *building, struct lull_chakra_node *node);

/* Resolves the ids to nodes, and finds an order. LULL_E_FORMAT: there are no nodes, an id is
 * there twice, nodes depend on each other in a circle; -ENOMEM. */
int lull_chakra_finish(struct lull_chakra_building *building);

/* Reads protocol buffers up to the end of a source. Errors: LULL_E_FORMAT, with the byte; -ENOMEM;
 * those of lull_source_read and of the functions above. */
int lull_chakra_read_messages(struct lull_source *source, struct lull_chakra_building *building);

#endif
