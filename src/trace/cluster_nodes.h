/*
 * The nodes of a cluster, one a line: a table (columns.h) as published for openb. Known columns:
 *
 *   node         any text
 *   gpus         of the node
 *   model        of its GPUs, any text
 *   vc           virtual cluster it belongs to; without the column there is one for all
 *
 * Nodes without GPUs are counted and left out. Threads: a table belongs to its caller.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CLUSTER_NODES_H
#define LULL_TRACE_CLUSTER_NODES_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "trace/lines.h"

enum { LULL_CLUSTER_NODES_MAX = 1 << 20, LULL_CLUSTER_NODES_MOST_GPUS = 64 };

struct lull_cluster_nodes_row {
    uint32_t id;    /* names by number: lull_cluster_nodes_name */
    uint32_t model; /* UINT32_MAX: no such column, or empty */
    uint32_t vc;    /* UINT32_MAX: no such column */
    uint32_t gpus;  /* > 0 */
};

struct lull_cluster_nodes_table {
    struct lull_cluster_nodes_row *rows; /* in the order of the file */
    size_t count;                        /* > 0 */
    size_t without_gpus;
    struct lull_string_set *names;
};

/*
 * Reads a file ("-": standard input). Errors, with file, line and column: LULL_E_FORMAT a column
 * missing, no such number, no node with a GPU, or too many; -ENOMEM; those of lull_lines_open. The
 * table is left empty then.
 */
int lull_cluster_nodes_read(const char *path, struct lull_cluster_nodes_table *table_out,
                            struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_cluster_nodes_read_lines(struct lull_lines *lines,
                                  struct lull_cluster_nodes_table *table_out,
                                  struct lull_error *err);
void lull_cluster_nodes_fini(struct lull_cluster_nodes_table *table);

/* "" for UINT32_MAX. */
const char *lull_cluster_nodes_name(const struct lull_cluster_nodes_table *table, uint32_t name);

#endif
