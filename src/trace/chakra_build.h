/*
 * Private to chakra*.c: where the bytes come from, and the graph while it is read.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CHAKRA_BUILD_H
#define LULL_TRACE_CHAKRA_BUILD_H

#include <sys/types.h>

#include "trace/chakra.h"
#include "trace/source.h"

/* A file, or memory; the first bytes may be looked at before they are read. */
struct lull_chakra_input {
    const char *name;
    struct lull_source *source; /* NULL: from memory */
    const char *bytes;          /* of memory, not read yet */
    size_t size;
    char head[256]; /* read ahead of the source */
    size_t head_size;
    size_t head_at;
    int64_t offset; /* bytes handed out */
};

/* Size bytes, fewer only at the end; 0: no more. Errors: those of lull_source_read. */
ssize_t lull_chakra_input_read(struct lull_chakra_input *input, char *buffer, size_t size,
                               struct lull_error *err);

struct lull_chakra_building {
    struct lull_chakra_graph *graph;
    const char *name;
    uint64_t *wanted; /* ids of dependencies */
    size_t wanted_count;
    size_t wanted_room;
    size_t node_room;
    struct lull_error *err;
};

/* The node that is read: nothing is told of it yet. */
void lull_chakra_node_init(struct lull_chakra_node *node);

/* Notes an id that the node to be added next depends on; control dependencies are but counted.
 * LULL_E_FORMAT, -ENOMEM. */
int lull_chakra_want(struct lull_chakra_building *building, uint64_t id, bool is_control);

/* The number of a name. -ENOMEM. */
int lull_chakra_add_name(struct lull_chakra_building *building, const char *bytes, size_t length,
                         uint32_t *name_out);

/* With the dependencies noted since the one before. LULL_E_FORMAT too many nodes, -ENOMEM. */
int lull_chakra_add(struct lull_chakra_building *building, struct lull_chakra_node *node);

/* Finds whom ids mean, and an order. LULL_E_FORMAT, -ENOMEM. */
int lull_chakra_finish(struct lull_chakra_building *building);

/* The two forms, up to the end of the input. */
int lull_chakra_read_messages(struct lull_chakra_input *input,
                              struct lull_chakra_building *building);
int lull_chakra_read_json(struct lull_chakra_input *input, struct lull_chakra_building *building);

#endif
