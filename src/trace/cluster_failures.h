/*
 * When nodes of a cluster fail: a comma-separated table, plain or gzip, with the columns node (its
 * number, from 0), from_s and to_s (when it works again). Rows in any order; other columns are
 * passed over. Threads: any. SPDX-License-Identifier: Apache-2.0
 */
#ifndef LULL_TRACE_CLUSTER_FAILURES_H
#define LULL_TRACE_CLUSTER_FAILURES_H

#include "core/cluster/model/failures.h"
#include "trace/lines.h"

/*
 * Reads a file ("-": standard input) of failures of so many nodes, in order
 * (lull_cluster_failures_order). The caller frees *failures_out. Errors, with the file:
 * LULL_E_FORMAT with line and column, no such number, a node that there is not, a time below 0 or
 * an end that is not after its beginning; with the node, one that fails while it is down; -ENOMEM;
 * those of lull_lines_open.
 */
int lull_cluster_failures_read(const char *path, uint32_t node_count,
                               struct lull_cluster_failure **failures_out, size_t *count_out,
                               struct lull_error *err);

/* The same from open lines, which stay the caller's. */
int lull_cluster_failures_read_lines(struct lull_lines *lines, uint32_t node_count,
                                     struct lull_cluster_failure **failures_out, size_t *count_out,
                                     struct lull_error *err);

#endif
