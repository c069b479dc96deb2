/*
 * The virtual clusters of a trace and how many nodes each has: a table (columns.h)
 * of vc and nodes. Threads: a table belongs to its caller. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CLUSTER_POOLS_H
#define LULL_TRACE_CLUSTER_POOLS_H

#include <stdint.h>

#include "base/error.h"
#include "trace/lines.h"

enum { LULL_CLUSTER_POOLS_MAX = 4096, LULL_CLUSTER_POOL_NAME = 64 };

struct lull_cluster_pools_row {
    char name[LULL_CLUSTER_POOL_NAME];
    uint32_t nodes; /* > 0 */
};

struct lull_cluster_pools_table {
    struct lull_cluster_pools_row *rows; /* in the order of the file, each name once */
    uint32_t count;                      /* > 0 */
    uint32_t nodes;                      /* of all */
};

/*
 * Reads a file ("-": standard input). Errors, with file and line: LULL_E_FORMAT a column missing,
 * no such number, a name that is empty, too long or there twice, no rows, or more than 2^20 nodes;
 * -ENOMEM; those of lull_lines_open. The table is left empty then.
 */
int lull_cluster_pools_read(const char *path, struct lull_cluster_pools_table *table_out,
                            struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_cluster_pools_read_lines(struct lull_lines *lines,
                                  struct lull_cluster_pools_table *table_out,
                                  struct lull_error *err);
void lull_cluster_pools_fini(struct lull_cluster_pools_table *table);

/* The row of a name; count: none. */
uint32_t lull_cluster_pools_find(const struct lull_cluster_pools_table *table, const char *name);

#endif
